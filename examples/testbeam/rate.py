"""Sends fragments of one size over a stream, as fast as it goes: rate.py ADDRESS SIZE EVENTS. PYTHONPATH has clients/python."""

import os
import sys

from ringlet.stream import Stream

size, events = int(sys.argv[2]), int(sys.argv[3])
data = os.urandom(size)
with Stream(sys.argv[1], timeout=60, keep=max(64 << 20, 3 * size + (1 << 20))) as stream:
    for event in range(stream.next, events):
        stream.send(event, data)
