"""judge NAME: as judge.c."""
import sys

from ringlet.filter import Filter

with Filter(sys.argv[1], timeout=20) as events:
    for event in events:
        bits = sum(f.source + sum(f.data) for f in event.fragments.values()) & 0xFFFF
        if event.number % 3:
            event.reject(bits)
        else:
            event.accept(bits)
