"""Plays a file of frames (docs/format/frames.md) as a front-end that Ringlet runs: at the rate of the trigger.

    python3 play.py FILE RATE         the input exec:python3 play.py FILE RATE; RATE 0 is as fast as it goes

At full speed `exec:cat FILE` does the same.
"""

import struct
import sys

from telescope import triggers

path, rate = sys.argv[1], float(sys.argv[2])
with open(path, "rb") as file:
    hello = file.read(24)
    sys.stdout.buffer.write(hello + file.read(hello[16]))
    for _ in triggers(0, sys.maxsize, rate):
        header = file.read(20)
        if not header:
            break
        data = file.read(struct.unpack_from("<I", header, 8)[0])
        sys.stdout.buffer.write(header + data)
        sys.stdout.buffer.flush()
