"""A producer for tests, as produce.c: produce RING EVENTS SIZE [drop]."""
import sys

from ringlet import shm

ring = shm.Ring(sys.argv[1], timeout=20, type=7, drop=len(sys.argv) > 4, frontend="produce")
events, largest = int(sys.argv[2]), int(sys.argv[3])
print(ring.next, flush=True)
event = ring.next
same = bytes(1024)
put = ring.put
while events == 0 or event < events:
    if largest == 1024:
        put(event, same)
    elif event % 2:
        size = 8 + event * 7919 % (largest - 7)
        put(event, event.to_bytes(8, "little") + bytes([event & 255]) * (size - 8))
    else:
        size = 8 + event * 7919 % (largest - 7)
        place = ring.reserve(size)
        if place is None:
            ring.drop(event)
        else:
            place[:] = event.to_bytes(8, "little") + bytes([event & 255]) * (size - 8)
            place.release()
            ring.commit(event)
    event += 1
dropped = ring.dropped
if ring.drop_when_full:
    print("all put", flush=True)
ring.end()
print("dropped", dropped, "safe", ring.safe)
