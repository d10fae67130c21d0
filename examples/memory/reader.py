"""reader.py DOOR SEGMENT RECORDS: takes records out of a ring buffer (ring.h) in the memory of any host, and prints the
last one."""

import sys

from ringlet import memory

WRITTEN, READ, RECORDS, SIZE, PLACES = 0, 8, 4096, 64, 64

with memory.Door(sys.argv[1], timeout=10) as door:
    ring, written, notices = door.open(sys.argv[2]), 0, 0
    for i in range(int(sys.argv[3])):
        while i >= written:
            written = int.from_bytes(ring.read(WRITTEN, 8), "little")
            if i >= written:
                notices = ring.wait(0, notices, timeout=10)
        record = ring.read(RECORDS + i % PLACES * SIZE, SIZE)
        ring.write(READ, (i + 1).to_bytes(8, "little"))
        ring.notify(0)
    print(record.rstrip(b"\0").decode())
