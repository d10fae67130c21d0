"""MEPs of a builder unit's shared-memory output, for a program on its host.

    with Output("ringlet-filter-0", timeout=10) as output:      # wait up to 10 s until it is there
        for mep in output:                                      # to the end of the run
            use(mep.number, mep.first_event, mep.data)          # mep.data is valid until the next one

A run with --output buffer:filter has an output for each builder unit: ringlet-filter-0, ringlet-filter-1, ... With
may_lose=True the builder unit does not wait for this program: MEPs that it overwrites before they are read are counted
in output.lost, and a Lost stands for them among the MEPs.

Python 3.9 or newer on Linux, 64-bit little-endian; the standard library only. An Output is for one thread. The layout is
docs/format/buffer.md.

Limits: those of segment.py. So it cannot share the MEPs of an output with other readers (buffer:NAME?share), and counts of
several readers that leave or lose at the same moment may lack one of them. It looks for MEPs every millisecond when it
has nothing to do.
"""

import collections
import os
import struct
import time

from . import segment

Mep = collections.namedtuple("Mep", "number first_event events attempt run superseded data")
Mep.__doc__ = "A MEP; of one that is superseded data is None: another builder unit delivers it in a higher attempt."
Lost = collections.namedtuple("Lost", "meps")
Lost.__doc__ = "So many MEPs were overwritten before they were read."

_VERSION, _READERS, _WRITER, _DATA = 3, 16, 16, 4096
_HEAD, _FLOOR, _ENDED, _ENTERED, _LOST, _GONE, _MISSED = 8, 16, 24, 25, 40, 64, 65  # words of 8 bytes
_SPACE = 112  # word of 4 bytes
_FREE, _JOINING, _ACTIVE, _MAY_LOSE = 0, 1, 2, 3
_PAD, _MEP, _SUPERSEDED = 2**32 - 1, 0xCEFA, 0x50555352
_MARK = struct.Struct("<QQIIII")
_ENTRY = struct.Struct("<IIII")


class OutputError(Exception):
    """A step at an output that failed."""


class NoOutput(OutputError):
    """No builder unit of this host has made the output in time."""


class Gone(OutputError):
    """The builder unit has ended without marking the end of the run."""


class Refused(OutputError):
    """The output refuses this reader: its version differs, or the output has all its readers."""


class Broken(OutputError):
    """The memory holds wrong data."""


class Output:
    """The output of a builder unit.

    name: in /dev/shm, or a path. timeout: seconds to wait until it is there; None waits for ever. may_lose: the builder
    unit does not wait for this reader.
    """

    def __init__(self, name, timeout=None, may_lose=False):
        self.lost, self.may_lose = 0, may_lose
        self._path = name if "/" in name else "/dev/shm/" + name
        self._place = self._memory = self._annexed = None
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                self._attach()
                return
            except NoOutput:
                self.close()
                if until is not None and time.monotonic() >= until:
                    raise
            except BaseException:
                self.close()
                raise
            time.sleep(0.01)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __iter__(self):
        while True:
            mep = self.next()
            if mep is None:
                return
            yield mep

    def next(self, timeout=None):
        """Releases the MEP before, and returns the next one, a Lost, or None at the end of the run. timeout: seconds to
        wait, then TimeoutError; None waits as long as the builder unit lives."""
        self._acknowledge()
        until = None if timeout is None else time.monotonic() + timeout
        asked, alive = time.monotonic(), True
        while True:
            if self._ints[self._place * 2] != (_MAY_LOSE if self.may_lose else _ACTIVE):
                raise Refused("the builder unit has taken this reader for dead")
            ended = self._words[_ENDED]  # before the look
            self._memory.fence()
            found = self._poll()
            if found is not None:
                return found
            if ended and self.may_lose and self._synced and self._jumped and self._words[_ENTERED] != self._ordinal:
                return self._miss(self._words[_ENTERED])
            if ended == 1:
                return None
            if ended or not alive:
                raise Gone("the builder unit of %s has ended without marking the end of the run" % self._path)
            now = time.monotonic()
            if until is not None and now >= until:
                raise TimeoutError("no MEP came in %g s" % timeout)
            if now - asked > 0.1:
                asked = now
                alive = self._memory.taken(_WRITER)
            self._pause()

    def close(self):
        """Detaches from the output. May be called twice."""
        if self._place is not None:
            words, place = self._words, self._place
            if not self.may_lose:
                words[_LOST] += self._out
                words[_GONE] = max(words[_GONE], words[place + 8])
            self._memory.fence()
            self._ints[place * 2] = _FREE
            self._memory.ring(_SPACE)
            self._place = None
        for memory in (self._memory, self._annexed):
            if memory is not None:
                memory.close()
        self._memory = self._annexed = None

    # What only this module and filter.py use.

    def _pause(self):
        """Waits before the next look."""
        time.sleep(0.001)

    def _attach(self):
        memory = self._memory = self._open(self._path)
        self._words, self._ints, self._bytes = memory.words, memory.ints, memory.bytes
        magic, version, mode, data, self._size, readers = struct.unpack_from("<8sIIQQI", self._bytes, 0)
        annex, name = self._words[5], bytes(self._bytes[0x240:0x240 + 200]).split(b"\0")[0]
        if magic != b"RNGLBUFR":
            raise Broken("%s is no output of a builder unit" % self._path)
        if version != _VERSION:
            raise Refused("%s has version %d of the layout, and this client knows %d: take those of one release"
                          % (self._path, version, _VERSION))
        if mode != 1:
            raise Refused("the readers of %s share its MEPs, and Python cannot: read it in C or Go" % self._path)
        if (data, self._size, readers) != (_DATA, memory.size - _DATA, _READERS):
            raise Broken("%s: its header cannot be" % self._path)
        self._annex = memoryview(b"")
        if annex:
            self._annexed = self._open(os.path.join(os.path.dirname(self._path), os.fsdecode(name)), writable=False)
            self._annex = self._annexed.bytes
            if self._annexed.size != annex:
                raise Broken("%s: its annex has another size" % self._path)
        self._join()

    def _open(self, path, writable=True):
        """Maps the memory that a card names."""
        try:
            memory = segment.Memory(path, writable)
        except FileNotFoundError:
            raise NoOutput("no builder unit of this host has made %s: is its run under way?" % path) from None
        except (segment.Foreign, segment.Hidden):
            raise Broken("%s is not the output of a process of this user" % path) from None
        except segment.Ended:
            raise NoOutput("the process that made %s has ended, or is of another container" % path) from None
        if writable and memory.size < 2 * _DATA:
            memory.close()
            raise Broken("%s: %d bytes are no output" % (path, memory.size))
        return memory

    def _join(self):
        words, ints = self._words, self._ints
        for i in range(_READERS):
            place = (0x400 + 0x80 * i) // 8
            if not self._memory.take(i):
                continue
            if ints[place * 2] != _FREE:
                self._memory.free(i, 1)
                continue
            ints[place * 2 + 1] = os.getpid()
            words[place + 9] = words[place + 10] = words[place + 11] = 0
            self._given = self._acked = self._out = 0
            self._jumped = self._padded = False
            if self.may_lose:
                self._memory.fence()
                ints[place * 2] = _MAY_LOSE
                self._position = words[_FLOOR]
            else:
                ints[place * 2] = _JOINING
                while True:
                    self._memory.barrier()
                    self._position = words[_FLOOR]
                    words[place + 8] = self._position
                    self._memory.barrier()
                    if words[_FLOOR] == self._position:
                        break
                ints[place * 2] = _ACTIVE
            self._ordinal, self._synced, self._place = 0, self.may_lose and self._position == 0, place
            self._memory.ring(_SPACE)
            return
        raise Refused("%s has as many readers as it can" % self._path)

    def _poll(self):
        """The next MEP or Lost; None where there is nothing at the moment."""
        while True:
            words = self._words
            if self.may_lose and words[_FLOOR] > self._position:
                self._position, self._jumped = words[_FLOOR], True
            at, head = self._position, words[_HEAD]
            if at == head:
                return None
            self._memory.fence()
            broken, data = None, None
            try:
                length, kind, stride, ordinal, data = self._look(at, head)
                if self.may_lose and kind != _PAD and not self._overtaken():
                    data = bytes(data)
            except Broken as error:
                broken = error
            if self._overtaken():
                continue
            if broken is not None:
                raise broken
            if self._synced and self._jumped and ordinal != self._ordinal:
                return self._miss(ordinal)
            expected = (self._ordinal, self._ordinal + 1 & _PAD) if self._padded else (self._ordinal,)
            if self._synced and ordinal not in expected:
                raise Broken("%s: the entry at %d has the number %d" % (self._path, at, ordinal))
            pad = kind == _PAD
            self._position, self._padded, self._synced, self._jumped = at + stride, pad, True, False
            self._ordinal = ordinal + (not pad) & _PAD
            if pad:
                self._tail()
                continue
            self._given += 1
            self._out = 1
            words[self._place + 9] = self._given
            return self._mep(kind, data)

    def _look(self, at, head):
        """Reads and checks the entry at a position."""
        off = at % self._size
        if at % 16 or head % 16 or not 0 <= head - at <= self._size:
            raise Broken("%s: the head %d cannot be" % (self._path, head))
        length, kind, stride, ordinal = _ENTRY.unpack_from(self._bytes, _DATA + off)
        lent, stride = stride & 1, stride & ~1
        if stride < 16 or stride % 16 or stride > head - at or off + stride > self._size or length > stride - 16:
            raise Broken("%s: the entry at %d cannot be" % (self._path, at))
        data = self._bytes[_DATA + off + 16 : _DATA + off + 16 + length]
        if lent and kind != _PAD:
            if length != 16:
                raise Broken("%s: the entry at %d does not say where its data lie" % (self._path, at))
            where, size = struct.unpack("<QQ", data)
            if where + size > len(self._annex):
                raise Broken("%s: the entry at %d leads past the annex" % (self._path, at))
            data = self._annex[where : where + size]
        return length, kind, stride, ordinal, data

    def _mep(self, kind, data):
        if kind not in (_MEP, _SUPERSEDED) or len(data) < 32 or kind == _SUPERSEDED and len(data) != 32:
            raise Broken("%s: an entry of type 0x%X with %d bytes is not of a builder unit" % (self._path, kind, len(data)))
        number, first, events, attempt, run, _ = _MARK.unpack_from(data, len(data) - 32)
        superseded = kind == _SUPERSEDED
        return Mep(number, first, events, attempt, run, superseded, None if superseded else data[: len(data) - 32])

    def _acknowledge(self):
        if self._place is None:
            raise Refused("this program has closed the output")
        if self._out:
            self._out, self._acked = 0, self._acked + 1
            self._words[self._place + 10] = self._acked
            self._tail()

    def _tail(self):
        if not self.may_lose:
            self._memory.fence()
            self._words[self._place + 8] = self._position
            self._memory.ring(_SPACE)

    def _miss(self, ordinal):
        lost = ordinal - self._ordinal & _PAD
        self._ordinal, self._jumped, self.lost = ordinal, False, self.lost + lost
        self._words[self._place + 11] = self.lost
        self._words[_MISSED] += lost
        return Lost(lost)

    def _overtaken(self):
        self._memory.fence()
        return self.may_lose and self._words[_FLOOR] > self._position
