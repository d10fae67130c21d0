"""A front-end in Python: one plane of the telescope, over a TCP connection.

    python3 plane.py HOST:PORT PLANE EVENTS RATE

PYTHONPATH has clients/python. The client keeps what is not safe yet and sends it again after a break.
"""

import sys
import time

from ringlet.stream import Stream
from telescope import fragment

address, plane, events, rate = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
with Stream("tcp:" + address, name="plane %d" % plane, timeout=30) as stream:
    for event in range(stream.next, events):
        time.sleep(1 / rate)
        stream.send(event, fragment(event, plane))
