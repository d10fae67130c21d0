"""A front-end of a test that ends in a way of its own: python3 ends.py address way. It prints what it is told."""

import sys
import time
import warnings

from ringlet.stream import GivenUp, Stream

address, way = sys.argv[1:]


def stream():
    return Stream(address, name="ends", timeout=30)


def safe(s, event):
    while s.acked < event:
        time.sleep(0.01)


if way == "pause":  # closes when all has been safe for a while
    with stream() as s:
        for e in range(100):
            s.send(e, b"x")
        safe(s, 100)
elif way == "empty":
    stream().close()
elif way == "anew":  # the second one counts from 0 again
    s = stream()
    for e in range(100):
        s.send(e, b"x")
    safe(s, 100)
    s.abort()
    s = stream()
    try:
        s.send(0, b"x")
    except ValueError as error:
        print(error)
    s.close()
elif way == "gone":  # the readout unit goes, and does not come back
    s = stream()
    for e in range(100):
        s.send(e, b"x")
    safe(s, 50)
    print("safe", flush=True)
    sys.stdin.readline()
    began = time.monotonic()
    try:
        s.close(timeout=float(1))
    except TimeoutError as error:
        print(error, time.monotonic() - began < 30)
elif way == "late":
    s = stream()
    for e in range(100):
        s.send(e, b"x")
    s.send(1 << 50, b"x")  # a number that nobody believes
    try:
        s.close()
    except GivenUp as error:
        print(error)
elif way == "raises":
    try:
        with stream() as s:
            for e in range(5000):
                s.send(e, b"x" * 1000)
            raise KeyError("a fault")
    except KeyError:
        print("left")
elif way == "drops":  # nobody reads
    warnings.simplefilter("always")
    import ringlet.stream
    ringlet.stream.Stream.leave.__defaults__ = (0.1,)
    try:
        with stream() as s:
            for e in range(5000):
                s.send(e, b"x" * 10000)
            raise KeyError("a fault")
    except KeyError:
        print("left")
