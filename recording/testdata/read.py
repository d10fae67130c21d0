"""Prints the fragments of recordings, and what is damaged: read.py PATH..., see clients_test.go."""

import sys
import zlib

from ringlet.recording import Damaged, Recording

for path in sys.argv[1:]:
    print("=", path)
    try:
        with Recording(path, damaged=lambda error: print("damaged", error), check=True) as run:
            last, count = -1, 0
            for event in run:
                if event.number < last or path.endswith(".sound") and event.number == last:
                    print("not in order:", last, event.number)
                last, count = event.number, count + 1
                for f in event.fragments:
                    words = () if f.trigger is None else ("trigger", f.trigger)
                    words += () if f.stamp is None else ("stamp", f.stamp)
                    print(f.event, f.source, f.type, f.version, len(f.data), zlib.adler32(f.data), *words)
            if path.endswith(".sound"):
                print("by number", [len(run.event(n).fragments) for n in (0, last // 2, last)], count == len(run))
                if run.format != "mdf":
                    assert sum(int(p.sizes.sum()) for mep in run.meps() for p in mep.mfps) == sum(
                        len(f.data) for event in run for f in event.fragments)
    except Damaged as error:
        print("damaged", error)
    except FileNotFoundError as error:
        print("damaged", error)
