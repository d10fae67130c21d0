"""writer.py DOOR SEGMENT RECORDS: puts records into a ring buffer (ring.h) in the memory of any host."""

import sys

from ringlet import memory

WRITTEN, READ, RECORDS, SIZE, PLACES = 0, 8, 4096, 64, 64

with memory.Door(sys.argv[1], timeout=10) as door:
    ring, taken, notices = door.open(sys.argv[2]), 0, 0
    for i in range(int(sys.argv[3])):
        while i - taken >= PLACES:  # full: the reader notifies the page, too
            taken = int.from_bytes(ring.read(READ, 8), "little")
            if i - taken >= PLACES:
                notices = ring.wait(0, notices, timeout=10)
        ring.write(RECORDS + i % PLACES * SIZE, (b"record %d" % i).ljust(SIZE, b"\0"))
        ring.write(WRITTEN, (i + 1).to_bytes(8, "little"))
        ring.notify(0)
