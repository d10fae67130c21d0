"""A front-end whose fragments tell by their sizes how many particles came, and which may lose a trigger.

    python3 slip.py ADDRESS PLANE EVENTS RATE [LOST]

Each particle gives a cluster of 8 bytes; the plane adds some of its own noise. It numbers the triggers that it sees. If it
loses trigger LOST, what it numbers N is of trigger N + 1 from there on: no number is missing, and Ringlet can tell it by
the sizes alone. PYTHONPATH has clients/python.
"""

import sys

from ringlet.stream import Stream
from telescope import _mix, triggers

address, plane, events, rate = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
lost = int(sys.argv[5]) if len(sys.argv) > 5 else events
with Stream(address, name="plane %d" % plane, timeout=30) as stream:
    for number in triggers(stream.next, events, rate):
        trigger = number + (number >= lost)
        particles = bin(_mix(trigger) & 0xFFFF).count("1")
        noise = bin(_mix(trigger << 8 | plane) & 0xF).count("1")
        stream.send(number, bytes(8 * particles + 8 * noise))
