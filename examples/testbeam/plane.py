"""A front-end in Python: one plane of the telescope, over a stream.

    python3 plane.py ADDRESS PLANE EVENTS RATE

ADDRESS is tcp:HOST:PORT, unix:PATH, or exec: where Ringlet runs it. RATE 0 is as fast as it goes. PYTHONPATH has
clients/python. The client keeps what is not safe yet and sends it again after a break.
"""

import sys

from ringlet.stream import Stream
from telescope import fragment, triggers

address, plane, events, rate = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
with Stream(address, name="plane %d" % plane, timeout=30) as stream:
    for event in triggers(stream.next, events, rate):
        stream.send(event, fragment(event, plane))
