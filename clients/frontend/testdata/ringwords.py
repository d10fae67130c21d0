"""Puts events into a ring, of which those with an odd number have a trigger number, and each second pair has a time stamp."""

import sys

from ringlet.shm import Ring

with Ring(sys.argv[1], timeout=60) as ring:
    for e in range(int(sys.argv[2])):
        ring.put(e, bytes([e & 255]) * (e % 100), trigger=3 * e if e & 1 else None,
                 stamp=7 * e + (1 << 60) if e & 2 else None)
    ring.end()
