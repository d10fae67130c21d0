"""A front-end of a test: python3 frontend.py address events size. Event e has size bytes if that is not 0, and else its
number e % 40 times, as the test's own."""

import sys
import time

from ringlet.stream import Stream

address, events, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
s = Stream(address, name="python", timeout=30)
print("begins at", s.next, file=sys.stderr)
began, first = time.monotonic(), s.next
data = bytes(size)
for e in range(s.next, events):
    s.send(e, data if size else b"%d." % e * (e % 40))
s.close(timeout=30)
took = time.monotonic() - began
print("%.0f fragments/s" % ((events - first) / took))
if s.acked != events:
    sys.exit("%d events are safe, of %d" % (s.acked, events))
