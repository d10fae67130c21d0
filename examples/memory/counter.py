"""counter.py DOOR SEGMENT TIMES: counts with the first word of a segment, together with whoever else does."""

import sys

from ringlet import memory

with memory.Door(sys.argv[1], timeout=10) as door:
    count = door.open(sys.argv[2])
    for _ in range(int(sys.argv[3])):
        before = count.add(0, 1)
    print(before + 1)
