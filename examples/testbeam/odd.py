"""A front-end without any client that gets its numbers wrong: one plane of the telescope, by docs/format/frames.md.

    python3 odd.py unix:PATH PLANE EVENTS RATE VERSION

It sends the right fragment of each event, and between them fragments that no event has: numbers far ahead, one of them
before a pause and one before its connection breaks; numbers that came already; a counter of 15 bits that has wrapped.
It prints how many. VERSION is that of the format, 1 or 2. PAUSE in the environment is for how many seconds it pauses.
"""

import os
import socket
import struct
import sys
import time

from telescope import fragment, triggers

address, plane, events, rate = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
version, pause = int(sys.argv[5]), float(os.environ.get("PAUSE", "0"))
junk = b"this is in no event"
kind, place = address.split(":", 1)


def connect():
    """A connection, and the event number from which Ringlet wants to have fragments."""
    until = time.monotonic() + 30
    while True:
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(place)
            break
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(.05)
    sock.settimeout(30)
    name = b"odd"
    if version == 1:
        sock.sendall(struct.pack("<4sBBHQQ", b"RLFH", 1, 255, 0xFFFF, 0, len(name)) + name)
    else:
        option = struct.pack("<HH", 1, len(name)) + name
        sock.sendall(struct.pack("<4sBBHQHHI", b"RLFH", 2, 255, 0xFFFF, 0, len(option), 0, 0) + option)
    code, number = answer(sock)
    if code != 0:
        sys.exit("odd: refused with code %d" % code)
    return sock, number


def answer(sock):
    """The code and the first number of an answer."""
    size = 24 if version == 1 else 32
    head = sock.recv(size, socket.MSG_WAITALL)
    if len(head) < size:
        sys.exit("odd: the connection ended within an answer")
    code, length, number = struct.unpack_from("<BHQ", head, 5)
    if length:
        sock.recv(length, socket.MSG_WAITALL)
    return code, number


def frame(event, data=b"", flags=1):
    return struct.pack("<QIBBHI", event, len(data), flags, 0, 0x5246, 0) + data


wrong = 0
sock, first = connect()
for event in triggers(0, events, rate):
    odd = {events // 5: 1 << 50, events // 4: event - 10, events // 3: 1 << 33,
           events // 2: (1 << 64) - 2, events // 2 + 50: event & 127}.get(event)
    if odd is not None:
        sock.sendall(frame(odd, junk))
        wrong += 1
    if event == events // 3:
        time.sleep(pause)
    if event == events // 2:
        time.sleep(pause)
        sock.close()  # all that was sent has been read by then; what has not comes again, from the number that it is told
        sock, first = connect()
        if first > event:
            sys.exit("odd: after a wild number Ringlet wants event %d, and has events up to %d" % (first, event))
        for again in range(first, event):
            sock.sendall(frame(again, fragment(again, plane)))
    sock.sendall(frame(event, fragment(event, plane)))
time.sleep(pause)
sock.sendall(frame(events, flags=3))
sock.settimeout(None)
while sock.recv(1 << 16):
    pass
print("%d fragments had a number that no event of the plane has" % wrong)
