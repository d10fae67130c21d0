"""followring.py NAME: what followring.c does."""

import sys
import time

from ringlet.shm import Ring

with Ring(sys.argv[1], frontend="follower", follow=True, timeout=60) as ring:
    event = 0
    while True:
        command = ring.command(timeout=60)
        print(command.kind, command.run, command.source, command.name, flush=True)
        if command.kind == "prepare":
            ring.answer(command, failed="no gas")
            time.sleep(0.2)  # the readout unit looks at the last answer alone
        for _ in range({"begin": 100, "end": 1}.get(command.kind, 0)):
            ring.put(event, b"fragment")
            event += 1
        ring.answer(command)
        if command.kind == "end":
            break
