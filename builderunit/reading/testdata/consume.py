"""consume OUTPUT [lose]: reads to the end of the run, and prints the number of each MEP, its bytes and their sum."""
import sys

from ringlet import output

with output.Output(sys.argv[1], timeout=10, may_lose=len(sys.argv) > 2) as out:
    for mep in out:
        if isinstance(mep, output.Lost):
            print("lost", mep.meps, flush=True)
        elif mep.superseded:
            print("superseded", mep.number, flush=True)
        else:
            print(mep.number, mep.first_event, mep.events, len(mep.data), sum(mep.data), flush=True)
