"""Front-ends in Python that end late, or that send numbers that are wrong: one plane of the telescope, over a stream.

    python3 ender.py late|wrong ADDRESS PLANE EVENTS PAUSE

late sends all, waits PAUSE seconds and closes. wrong writes its frames by hand: among the right ones, of each event
one, are numbers far ahead, one that came before, and one that a counter of 16 bits would have; they may cost
themselves. It says the right end, and is told what became of the wrong ones. PYTHONPATH has clients/python, or an older
client for late.
"""

import socket
import struct
import sys
import threading
import time

from telescope import fragment

way, address, plane, events, pause = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])


def late():
    from ringlet.stream import Stream
    with Stream(address, name="plane %d" % plane, timeout=30) as stream:
        for event in range(stream.next, events):
            stream.send(event, fragment(event, plane))
        time.sleep(pause)


class Answers(threading.Thread):
    """Reads what Ringlet says."""

    def __init__(self, s):
        super().__init__(daemon=True)
        self.s, self.safe, self.end, self.given = s, 0, None, 0

    def read(self, n):
        got = b""
        while len(got) < n:
            more = self.s.recv(n - len(got))
            if not more:
                raise EOFError
            got += more
        return got

    def run(self):
        try:
            while True:
                magic, version, code, n, a, b, c, d = struct.unpack("<4sBBHQQII", self.read(32))
                sentence = self.read(n).decode()
                if sentence:
                    print(sentence)
                if code == 1:
                    self.safe = a
                elif code == 7:
                    self.given += d
                elif code == 8:
                    self.end = a
        except (EOFError, OSError):
            pass


def connect():
    for _ in range(300):
        s = socket.socket(socket.AF_UNIX)
        try:
            s.connect(address.partition(":")[2])
            return s
        except OSError:
            time.sleep(0.1)
    sys.exit("nobody listens at %s" % address)


def wrong():
    s = connect()
    name = b"plane %d" % plane
    s.sendall(struct.pack("<4sBBHQHHIHH", b"RLFH", 2, 255, 0xFFFF, 0, 4 + len(name), 0, 0, 1, len(name)) + name)
    answers = Answers(s)
    answers.start()

    def frame(event, data, flags=1):
        return struct.pack("<QIBBHI", event, len(data), flags, 0, 0x5246, 0) + data

    strange = {events // 5: 1 << 50, events // 4: 3, events // 3: events // 3 + 100_000, events // 2: 0xFFFF_FFFF}
    for event in range(events):
        if event in strange:
            s.sendall(frame(strange[event], b"not measured"))
        s.sendall(frame(event, fragment(event, plane)))
    time.sleep(pause)
    s.sendall(frame(events, b"", 3))
    until = time.monotonic() + 60
    while (answers.end != events or answers.safe < events) and time.monotonic() < until:
        time.sleep(0.01)
    print("plane %d: the end is taken: %s; %d of %d events have their outcome; %d of %d wrong numbers were given up"
          % (plane, answers.end == events, answers.safe, events, answers.given, len(strange)))
    if answers.end != events or answers.safe < events or answers.given != len(strange):
        sys.exit("that is not right")


late() if way == "late" else wrong()
