"""What the planes of the telescope measure: particles on straight tracks, strips that fire, charges with a long tail.

A fragment is pairs of u16, little-endian: strip 0 to 255, charge in ADC counts. Everything follows from the event's
number, so that any front-end can make its part alone, and anybody can check it. plane.c has the same.

Beside the planes stand a trigger, a time-of-flight wall and a camera. Particles of a trigger fire the first two alike, so
their sizes go together; the camera has a frame of 3 MB for each 60th trigger, and nothing for the others.
"""

import struct
import time

_MASK = (1 << 64) - 1


def _mix(x):
    """splitmix64"""
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & _MASK
    return x ^ x >> 31


def fragment(event, plane):
    """The bytes that a plane measures in an event."""
    track, own = _mix(event), _mix(event << 8 | plane)
    strip = 64 + track % 128 + (track >> 8) % 9 * plane
    charge = 30 + own % 40 + (0 if own >> 8 & 7 else (own >> 16) % 150)
    pairs = [strip, charge, strip + 1, charge // 3, (own >> 32) % 256, 1 + (own >> 40) % 6]
    if not own >> 48 & 1:
        pairs = pairs[:4]
    return struct.pack("<%dH" % len(pairs), *pairs)


def counts(trigger, detector):
    """What a detector of counters has: the trigger's number, once more for each particle and for each pulse of noise."""
    particles = bin(_mix(trigger) & 0xFFFF).count("1")
    noise = bin(_mix(trigger << 8 | detector) & 0xF).count("1")
    return struct.pack("<Q", trigger) * (1 + particles + noise)


def frame(trigger):
    """The camera's pixels: 1500 x 1000 of 16 bits."""
    return struct.pack("<Q", _mix(trigger)) * 375000 if trigger % 60 == 0 else b""


MEASURES = {"trigger": lambda trigger: counts(trigger, 4), "tof": lambda trigger: counts(trigger, 5), "camera": frame}


def triggers(first, events, rate):
    """The numbers of the events, each when its trigger comes: rate a second, however long reading out takes."""
    begin = time.monotonic()
    for event in range(first, events):
        if rate > 0:
            time.sleep(max(0, begin + (event - first) / rate - time.monotonic()))
        yield event
