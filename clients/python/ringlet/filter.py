"""A filter of built events, as a program on the host of a builder unit: --filter process:NAME.

    with Filter("mine", timeout=60) as events:          # wait up to 60 s for a run with --filter process:mine
        for event in events:                            # to the end of the run
            if len(event.fragments[3].data) > 100:      # fragments by source: type, version, data
                event.accept()                          # or accept(bits), with 16 bits of one's own
            else:
                event.reject()

Answer every event before the next one: accept, reject, or fail if it cannot be judged. The builder unit keeps an event
that has no answer in time, and one whose answer is an exception of this program. Start as many of these programs as you
need: each event goes to one of them. Data are valid until the next event.

Python 3.9 or newer on Linux, 64-bit little-endian; the standard library only. A Filter is for one thread. The layout is
docs/format/ring.md; docs/your-filter.md is the manual.
"""

import collections
import os
import re
import struct
import time

from . import output, segment, shm

ACCEPTED, REJECTED, FAILED = 1, 2, 4

Fragment = collections.namedtuple("Fragment", "source type version data")
Fragment.__doc__ = "What one source sent for an event. Type 92: it sent nothing in time."

_PLACE = re.compile(r"ringlet-filter-(.+)-(\d+)-(\d+)-answers")
_RESULT = struct.Struct("<QBBHH")  # event and builder, decision, epoch, bits, took; the seal follows
_SEAL = struct.Struct("<H")
_MFP = struct.Struct("<HHIQHBB")
_LOW48 = 2**48 - 1
_SETTLE = 0.2
_RECORDS, _WAKE, _WAIT = 80, 26, 96  # the ring's bell and wake word, the buffer's data bell: words of 4, 8 and 4 bytes


def _table():
    """CRC-32C (Castagnoli) of each byte."""
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        yield n


_CRC = tuple(_table())


class NoPlace(Exception):
    """No builder unit of this host has a place for a filter of that name in time."""


class _Events(output.Output):
    """The buffer of MEPs. This reader is the only one, so the count of waiters is 0 or 1."""

    def _pause(self):
        if not segment.FUTEX:
            return time.sleep(0.0005)
        ints = self._ints
        ints[_WAIT + 1] = 1
        self._memory.barrier()
        rung = ints[_WAIT]
        if self._words[output._HEAD] == self._position and not self._words[output._ENDED]:
            self._memory.sleep(_WAIT, rung)
        ints[_WAIT + 1] = 0


class _Answers(shm.Ring):
    """The ring of answers. It rings the bell of the builder unit if there is futex."""

    _silent = 0 if segment.FUTEX else 1
    _any_order = True  # MEPs come in any order

    def _settle(self):
        """No process was attached before: there is nothing to wait for."""

    def _check(self, path):
        super()._check(path)
        if self._words[shm._ATTACHED]:
            raise shm.Attached("%s is, or was, another filter's: a lane serves one" % path)

    def _wake(self, before):
        self._memory.barrier()
        if self._ints[_RECORDS + 1] and before < self._words[_WAKE] <= self._position:
            self._memory.ring(_RECORDS)


class Event:
    """An event: number, mep (number of the MEP that it is in), run, fragments (by source)."""

    __slots__ = ("number", "mep", "run", "answered", "_filter", "_place", "_fragments")

    @property
    def fragments(self):
        if self._fragments is None:
            self._fragments = self._filter._cut(self._place)
        return self._fragments

    def accept(self, bits=0):
        """Accepts the event. bits: 16 bits of your choice, which travel with the decision."""
        self._filter._answer(self, ACCEPTED, bits)

    def reject(self, bits=0):
        """Rejects the event."""
        self._filter._answer(self, REJECTED, bits)

    def fail(self):
        """This program could not judge the event, which is kept."""
        self._filter._answer(self, FAILED, 0)


class Filter:
    """A place at a builder unit. name: the NAME of --filter process:NAME. timeout: seconds to wait for a place; None
    waits for ever. again: seconds to wait for another place, after the builder unit has died, or has dismissed this
    program since it did not answer. directory: where the places are."""

    def __init__(self, name, timeout=None, again=10, directory="/dev/shm"):
        self.judged, self.dismissed = 0, 0
        self._name, self._again, self._directory, self._packets = name, again, directory, ()
        self._events = self._answers = self._event = None
        self._open(timeout)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        event = self._event
        if kind is not None and event is not None and not event.answered and self._answers is not None:
            event.fail()  # else another filter would get the event and fail as well
        self.close()

    def __iter__(self):
        while True:
            try:
                mep = self._events.next()
            except (output.Gone, output.Refused):
                self._reopen()
                continue
            if mep is None:
                return
            self._packets = _packets(mep.data)
            for place in range(mep.events):
                event = self._event = Event()
                event.number, event.mep, event.run, event.answered = mep.first_event + place, mep.number, mep.run, False
                event._filter, event._place, event._fragments = self, place, None
                yield event
                if not event.answered:
                    raise ValueError("event %d has no answer: accept, reject or fail it" % event.number)
                if self._answers is None:
                    break
            if self._answers is None and not self._over():
                self._reopen()

    def close(self):
        """Gives the place back. May be called twice."""
        self._packets = ()
        answers, self._answers = self._answers, None
        if answers is not None:
            answers.close()
        if self._events is not None:
            self._events.close()

    # What only this module uses.

    def _open(self, timeout):
        until, waited = None if timeout is None else time.monotonic() + timeout, False
        while True:
            if waited and self._places():
                time.sleep(_SETTLE)  # a run begins: its builder units make their places one after the other
            for path in self._places():
                try:
                    self._answers = _Answers(path, timeout=0)
                except (shm.RingError, OSError):
                    continue  # another process has it, or it is being removed
                try:
                    self._events = _Events(path[: -len("-answers")], timeout=1)
                    return
                except (output.OutputError, OSError):
                    self.close()
            if until is not None and time.monotonic() >= until:
                raise NoPlace("no run on this host has a place for filter %s: is one under way with --filter "
                              "process:%s, as this user?" % (self._name, self._name))
            waited = True
            time.sleep(0.01)

    def _places(self):
        """The existing places, low numbers first, so that all builder units get processes."""
        found = []
        for entry in os.listdir(self._directory):
            place = _PLACE.fullmatch(entry)
            if place and place[1] == self._name:
                found.append((int(place[3]), int(place[2]), os.path.join(self._directory, entry)))
        return [path for _, _, path in sorted(found)]

    def _reopen(self):
        self.dismissed += 1
        self.close()
        self._open(self._again)

    def _over(self):
        """Whether the run has ended: the builder unit says so before it closes the ring."""
        return self._events._words[output._ENDED] == 1

    def _answer(self, event, decision, bits):
        if event is not self._event or event.answered:
            raise ValueError("event %d has an answer, or is not the one at hand" % event.number)
        event.answered = True
        self.judged += 1
        number = event.number & _LOW48
        head = _RESULT.pack(number, decision, 0, bits, 0)
        crc = 0xFFFFFFFF
        for byte in head:
            crc = _CRC[(crc ^ byte) & 0xFF] ^ crc >> 8
        crc ^= 0xFFFFFFFF
        if self._answers is None:
            return
        try:
            self._answers.put(event.number, head + _SEAL.pack((crc ^ crc >> 16) & 0xFFFF))
        except (shm.Closed, shm.Refused):  # too slow, or the run is over: the builder unit does not wait for the answer
            self._answers.close()
            self._answers = None

    def _cut(self, place):
        """The fragments of an event of the current MEP."""
        found = {}
        for source, version, types, sizes, starts, data in self._packets:
            start = starts[place]
            found[source] = Fragment(source, types[place], version, data[start : start + sizes[place]])
        return found


def _packets(mep):
    """The MFPs of a MEP: docs/format/mep.md and mfp.md."""
    count = struct.unpack_from("<H", mep, 2)[0]
    offsets = struct.unpack_from("<%dI" % count, mep, 8 + (2 * count + 3 & ~3))
    found = []
    for offset in offsets:
        at = 4 * offset
        magic, n, size, _, source, align, version = _MFP.unpack_from(mep, at)
        width = 2 if magic == 0x40CE else 4
        sizes_at = at + 20 + (n + 3 & ~3)
        sizes = struct.unpack_from("<%d%s" % (n, "I" if width == 4 else "H"), mep, sizes_at)
        start, starts, pad = sizes_at - at + (width * n + 3 & ~3), [], (1 << align) - 1
        start += 16 * n if magic == 0x40D0 else 0  # trigger numbers and time stamps
        for one in sizes:
            starts.append(start)
            start += one + pad & ~pad
        found.append((source, version, mep[at + 20 : at + 20 + n], sizes, starts, mep[at : at + size]))
    return found
