"""busy.py ADDRESS: what busy.c does."""

import sys

from ringlet.stream import Stream

stream = Stream(sys.argv[1], follow=True, timeout=60)
busy, kind = 0, ""
while kind != "end":
    try:
        command = stream.command(timeout=0.01)
        kind = command.kind
        stream.answer(command)
    except TimeoutError:
        pass
    if stream.busy != busy:
        busy = stream.busy
        print("busy %d%s" % (busy, " front-end" if busy & 4 else ""), flush=True)
        stream.set_busy(busy != 0)
        if busy == 0:
            stream.wait_free(timeout=60)
stream.close(timeout=60)
