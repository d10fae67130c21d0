"""A front-end puts fragments into a ring in shared memory, which a readout unit of Ringlet reads as shm:NAME.

    with Ring("calo", timeout=10) as ring:          # wait up to 10 s until the ring is there
        for event in range(ring.next, events):      # a front-end that was killed goes on where it was
            ring.put(event, data)                   # or place = ring.reserve(n), fill it, ring.commit(event)
        ring.end()                                  # the run's end: waits until all is taken, or raises

Python 3.9 or newer on Linux, 64-bit little-endian; the standard library only. A Ring is for one thread. The layout is
docs/format/ring.md.

Limits: those of segment.py, and this module does not use futex: it polls a full ring every 0.05 to 10 ms, and it tells
the readout unit to poll for fragments, every millisecond when it is idle.

An exception in a with block detaches from the ring: fragments in it stay and are read, a reserved place is released, and
another front-end may go on. Nothing is dropped.
"""

import collections
import os
import struct
import sys
import time

from . import segment

MAX_FRAGMENT = 65535  # bytes, unless the input declares more
TESTDET = 51

_HEADER = 4096
_RECORD = struct.Struct("<QIBBH")  # event, size, type, flags, 0
_WRAP, _TRIGGER, _STAMP = 1, 2, 4
_WORD = struct.Struct("<Q")
_NO_EVENT = 2**64 - 1
# Words of 8 bytes, by their number; words of 4 bytes, by theirs.
_ATTACHED, _WRITTEN, _DROPPED, _MARKS, _TAKEN, _SAFE = 9, 16, 17, 18, 24, 25
_STATE, _PID, _SILENT, _CONSUMER = 16, 17, 20, 64
# Those of revision 2.
_FEATURES, _REVISION = 11, 21
_BY, _SETTLED, _AGAIN, _END, _RANGES, _GIVEN_UP, _WHO, _TABLE, _TABLE_SIZE = 11, 27, 28, 33, 64, 65, 0x240, 128, 64
_SETTLE = 0.2
# The life of the run.
_NAME, _COMMAND, _FOLLOWS, _REPLY, _WHY, _WHY_SIZE = 0x280, 88, 98, 99, 0x320, 192
_COMMANDS = "prepare", "begin", "pause", "resume", "end"
_READY, _FAILED, _DONE = 1, 2, 3
_REASONS = {1: "they came too late", 2: "they came again", 3: "their numbers run backwards",
            4: "their numbers are far from those before and after", 5: "they were left over at the end of the run"}
_ORDERED = segment.ORDERED


GivenUp = collections.namedtuple("GivenUp", "first end why count missed")
GivenUp.__doc__ = """Events from first on and below end, of which count fragments are in no file of the run, and why (words).
missed: ranges before this one that the ring does not remember any more."""


Command = collections.namedtuple("Command", "kind run source name ticket")
Command.__doc__ = """What the run tells its front-ends: kind is prepare, begin, pause, resume or end; run is its number, source
the id of the source, name how the run calls it, perhaps nothing. The ticket is for answer."""


class RingError(Exception):
    """A step at a ring that failed."""


class NoRing(RingError):
    """No readout unit has made the ring in time."""


class Attached(RingError):
    """Another front-end fills the ring."""


class Ended(RingError):
    """The run of the ring has ended: the next run has a new ring."""


class Closed(RingError):
    """The readout unit has closed the ring, or has died: open the ring of the next run."""


class Refused(RingError):
    """The readout unit has found wrong data in the ring, and reads no more of it."""


class NotTaken(RingError):
    """The readout unit has not taken the end of the run in time: what it has not read may be lost."""


class Full(RingError):
    """There was no room in time."""


class Broken(RingError):
    """The memory is no ring of this version, or is damaged."""


class Ring:
    """A ring that this front-end fills.

    name: in /dev/shm, or a path. timeout: seconds to wait until a readout unit has made the ring and no other front-end
    fills it; None waits for ever. type: of the fragments' banks. drop: a full ring throws fragments away and counts
    them; without it, put and reserve wait. frontend: the name of this front-end, for logs and reports. follow the run:
    command says what it wants, and answer must answer it.
    """

    def __init__(self, name, timeout=None, type=TESTDET, drop=False, frontend="", follow=False):
        if sys.byteorder != "little" or struct.calcsize("P") != 8:
            raise Broken("the ring's layout is for 64-bit little-endian machines")
        self.type, self.drop_when_full = type, drop
        self._follow, self._ticket = follow, 0
        self._who = frontend.encode()
        if len(self._who) > 64:
            raise ValueError("the name of a front-end has %d bytes: 64 are the most" % len(self._who))
        self._name, self._memory, self._place = name, None, None
        until = None if timeout is None else time.monotonic() + timeout
        pause = 0.001
        while True:
            try:
                self._attach()
                self._settle()
                return
            except (NoRing, Attached, Closed) as error:
                if until is not None and time.monotonic() >= until:
                    if isinstance(error, Closed):
                        raise NoRing(str(error)) from None
                    raise
            time.sleep(pause)
            pause = min(2 * pause, 0.1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    _silent = 1  # this class rings no bell; the one in filter.py does
    _any_order = False

    # State of the readout unit.

    @property
    def next(self):
        """The event after the last one that any front-end of this run has committed or dropped: continue there."""
        return self._next

    @property
    def largest(self):
        """Bytes of the largest fragment that Ringlet takes."""
        return self._largest

    @property
    def safe(self):
        """All events below it are safe: the front-end may forget them."""
        if self._memory is not None:
            self._safe = self._words[_SAFE]
        return self._safe

    @property
    def dropped(self):
        """How many fragments were dropped in this run."""
        if self._memory is not None:
            self._drops = self._words[_DROPPED]
        return self._drops

    @property
    def given_up(self):
        """How many fragments of this run's ring the readout unit has given up: they are in no file."""
        if self._memory is not None and self._revised:
            self._gave = self._words[_GIVEN_UP]
        return self._gave

    def ranges_given_up(self):
        """The ranges of given-up events that it has not returned yet, as GivenUp. The ring keeps the last 64."""
        if self._memory is None:
            raise Closed("this front-end has closed the ring")
        count, told = self._words[_RANGES] if self._revised else 0, []
        if count < self._ranges:
            raise Broken("ring %s: the count of ranges given up has moved back to %d" % (self._name, count))
        missed = max(0, count - _TABLE_SIZE - self._ranges)
        for index in range(self._ranges + missed, count):  # at most 64
            at = _TABLE + 4 * (index % _TABLE_SIZE)
            before = self._words[at + 3]
            first, end, why = self._words[at : at + 3]
            if before != index + 1 or self._words[at + 3] != before:
                missed += 1  # the readout unit is overwriting it
                continue
            if first >= end:
                raise Broken("ring %s: the range given up at %d has no events" % (self._name, first))
            reason = _REASONS.get(why & 0xFFFFFFFF, "for a reason that this release does not know")
            told.append(GivenUp(first, end, reason, why >> 32, missed))
            missed = 0
        self._ranges = count
        return told

    # Fragments.

    def put(self, event, data, timeout=None, trigger=None, stamp=None):
        """Copies a fragment into the ring. False: the ring was full, and the fragment was dropped and counted.

        trigger  number of the trigger, 64 bits: with ?number=trigger behind the address of the input, events are matched
                 by it
        stamp    time of the fragment, ns since 1970, UTC
        """
        if type(data) is not bytes:
            data = memoryview(data).cast("B")
        size = len(data)
        if trigger is not None or stamp is not None:
            flags, words = 0, b""
            if trigger is not None:
                flags, words = _TRIGGER, _WORD.pack(trigger)
            if stamp is not None:
                flags, words = flags | _STAMP, words + _WORD.pack(stamp)
            room = self._reserve(size, timeout, len(words))
            self._flags, self._said = flags, words
        else:
            room = self._reserve(size, timeout)
        if not room:
            self.drop(event)
            return False
        at = _HEADER + self._at % self._size + 16 + len(self._said)
        self._bytes[at : at + size] = data
        try:
            self.commit(event, size)
        except ValueError:
            self.cancel()
            raise
        return True

    def _number(self, event):
        if not 0 <= event < _NO_EVENT:
            raise ValueError("an event's number is from 0 to 2^64-2")
        if event < self._next and not self._any_order:
            raise ValueError(
                "event numbers must grow in a ring: event %d comes where %d or a higher one is next; a front-end that "
                "counts anew needs a new run" % (event, self._next)
            )

    def reserve(self, size, timeout=None):
        """Returns a place for a fragment of size bytes, which the caller fills and commits; with drop, None if the ring
        is full. timeout: seconds to wait for room, then Full; None waits as long as the readout unit lives."""
        if not self._reserve(size, timeout):
            return None
        at = _HEADER + self._at % self._size + 16
        return self._bytes[at : at + size]

    def commit(self, event, size=None):
        """Hands over the first size bytes of the reserved place, or all of it, as the fragment of that event."""
        place = self._place
        if size is None:
            size = place
        if place is None or not 0 <= size <= place:
            raise ValueError("commit what was reserved, once")
        if not self._next <= event < _NO_EVENT:
            self._number(event)
        at, position, length = self._at, self._position, self._size
        if at != position:
            _RECORD.pack_into(self._bytes, _HEADER + position % length, 0, at - position - 16, 0, _WRAP, 0)
        _RECORD.pack_into(self._bytes, _HEADER + at % length, event, size, self.type, self._flags, 0)
        if self._flags:
            said = self._said
            first = _HEADER + at % length + 16
            self._bytes[first : first + len(said)] = said
            size += len(said)
        self._position = at + 16 + (size + 15 & ~15)
        self._note(event + 1)
        if not _ORDERED:
            self._memory.barrier()
        self._words[_WRITTEN] = self._position  # from here on the readout unit owns it
        self._place = None
        if not self._silent:
            self._wake(position)

    def cancel(self):
        """Releases the reserved place."""
        self._place = None

    def drop(self, event):
        """Counts the fragment of an event as dropped."""
        if self._memory is None:
            raise Closed("this front-end has closed the ring")
        self._number(event)
        self._words[_DROPPED] += 1
        self._note(event + 1)

    def command(self, timeout=None):
        """Waits for the next command of the run, in a ring with follow; after timeout seconds it raises TimeoutError. Who
        looks seldom gets the last one alone. Closed: the run is over."""
        if self._memory is None:
            raise Closed("this front-end has closed the ring")
        until = None if timeout is None else time.monotonic() + timeout
        asked = time.monotonic()
        while True:
            ticket, kind = divmod(self._words[_COMMAND], 256)
            if ticket > self._ticket and 0 < kind <= len(_COMMANDS):
                self._ticket = ticket
                name = bytes(self._bytes[_NAME : _NAME + 64]).partition(b"\0")[0].decode(errors="replace")
                return Command(_COMMANDS[kind - 1], self.run, self.source, name, ticket)
            self._reading()
            if time.monotonic() - asked > 0.1:
                asked = time.monotonic()
                self._lives()
            if until is not None and time.monotonic() >= until:
                raise TimeoutError("the run has told nothing new")
            time.sleep(0.001)

    def answer(self, command, failed=None):
        """Answers a command, behind all committed fragments: the front-end is where it leads, or failed says why it cannot
        go there, of which 192 bytes count."""
        if self._memory is None:
            raise Closed("this front-end has closed the ring")
        kind = _FAILED if failed is not None else _DONE if command.kind == "end" else _READY
        self._words[_REPLY] = 0
        if not _ORDERED:
            self._memory.barrier()
        self._bytes[_WHY : _WHY + _WHY_SIZE] = str(failed or "").encode()[:_WHY_SIZE].ljust(_WHY_SIZE, b"\0")
        if not _ORDERED:
            self._memory.barrier()
        self._words[_REPLY] = command.ticket << 8 | kind

    def end(self, timeout=30):
        """Declares the end of this front-end's run, waits until the readout unit has taken all fragments in the ring and
        the end, and closes the ring in any case. No fragment of this run may follow. Taken fragments are not yet safe.

        After timeout seconds (None: as long as the readout unit lives) it raises NotTaken; Closed or Refused, if the
        readout unit reads no more. Then fragments that were not read may be lost.
        """
        if self._memory is None:
            return
        self._say(2)
        try:
            self._await_end(timeout)
        finally:
            self._gone()

    def close(self):
        """Detaches from the ring: this or another front-end may attach again; fragments in the ring stay. After end or
        close it does nothing."""
        if self._memory is not None:
            self._say(3)
            self._gone()

    # What only this module uses.

    def _reserve(self, size, timeout, extra=0):
        if self._place is not None:
            raise ValueError("reserve one place at a time")
        if not 0 <= size <= self._largest:
            raise ValueError("the fragment has %d bytes, and %d are the most: put ?max=%d or more behind the address of the "
                             "input" % (size, self._largest, size))
        if self._memory is None:
            raise Closed("this front-end has closed the ring")
        if self._ints[_CONSUMER] != 1:
            self._reading()
        self._flags, self._said = 0, b""
        need, at = 16 + (size + extra + 15 & ~15), self._position
        rest = self._size - at % self._size
        if need > rest:
            at += rest  # a wrap record takes the rest
        if at + need - self._taken > self._size and not self._room(at + need, timeout):
            return False
        self._at, self._place = at, size
        return True

    def _room(self, end, timeout):
        """Waits until the ring has room up to the position end."""
        self._look()
        until = None if timeout is None else time.monotonic() + timeout
        pause, asked = 0.00005, time.monotonic()
        while end - self._taken > self._size:
            if self.drop_when_full:
                return False
            if until is not None and time.monotonic() >= until:
                raise Full("the ring %s was full for %g s" % (self._name, timeout))
            time.sleep(pause)
            pause = min(2 * pause, 0.01)
            self._reading()
            if time.monotonic() - asked > 0.1:
                asked = time.monotonic()
                self._lives()
            self._look()
        return True

    def _look(self):
        """Loads the taken position and checks it."""
        taken = self._words[_TAKEN]
        if taken % 16 or self._position % 16 or not self._taken <= taken <= self._position <= taken + self._size:
            raise Broken("ring %s: the taken position %d cannot be" % (self._name, taken))
        self._taken = taken
        if not _ORDERED:
            self._memory.barrier()

    def _note(self, next):
        """Records the next event in the mark that is not valid now, its position first."""
        self._mark ^= 2
        self._next = next
        if not _ORDERED:
            self._memory.barrier()
        self._words[_MARKS + self._mark] = self._position
        if not _ORDERED:
            self._memory.barrier()
        self._words[_MARKS + self._mark + 1] = next

    def _reading(self):
        state = self._ints[_CONSUMER]
        if state == 3:
            raise Refused("the readout unit has refused what stood in the ring " + self._name)
        if state != 1:
            raise Closed("the readout unit has closed the ring " + self._name)

    def _lives(self):
        if not self._memory.taken(1):
            raise Closed("the readout unit of the ring %s has died" % self._name)

    def _attach(self):
        path = self._open()
        try:
            self._words, self._ints, self._bytes = self._memory.words, self._memory.ints, self._memory.bytes
            self._size, self._taken = self._memory.size - _HEADER, 0
            self._check(path)
            self._lives()
            if not self._memory.take(0):
                raise Attached("another front-end fills the ring " + self._name)
            if self._ints[_STATE] == 2:
                raise Ended("the run of the ring %s has ended: the next run has a new one" % self._name)
            self._reading()
            self._resume()
        except BaseException:
            self._forget()
            raise
        self._sign()
        self._ints[_PID] = os.getpid() & 0xFFFFFFFF
        self._ints[_SILENT] = self._silent
        self._ints[_STATE] = 1  # before the number: a reader that sees the number sees this state
        if not _ORDERED:
            self._memory.barrier()
        self._words[_ATTACHED] += 1

    def _open(self):
        """Opens the memory that the card names."""
        path = self._name if "/" in self._name else "/dev/shm/" + self._name
        try:
            self._memory = segment.Memory(path)
        except FileNotFoundError:
            raise NoRing("no readout unit has made the ring %s: does its run use this input?" % path) from None
        except (segment.Foreign, segment.Hidden):
            raise Broken("%s is not the ring of a process of this user" % path) from None
        except segment.Ended:
            raise NoRing("the process that made the ring %s has ended, or is of another container" % path) from None
        return path

    def _check(self, path):
        if self._size < 256 << 10 or self._size % 4096:
            raise Broken("%s: %d bytes are no ring" % (path, self._memory.size))
        magic, version, source, data, capacity, run, largest = struct.unpack_from("<8sIIQQQI", self._bytes, 0)
        if (magic, version, data, capacity) != (b"RNGLRING", 1, _HEADER, self._size) or largest < MAX_FRAGMENT or (
                3 * (16 + largest) > self._size):
            raise Broken("%s is no ring of fragments of version 1" % path)
        self.source, self.run, self._largest = source, run, largest
        self._revised, self._ranges, self._gave = bool(self._ints[_FEATURES] & 1), 0, 0
        if self._follow and not self._ints[_FEATURES] & 2:
            raise Broken("the readout unit of %s is of a release that tells nothing of the run in a ring" % path)

    def _resume(self):
        """Sets the next event to that of the mark at the written position; if both are there, to the higher one."""
        self._position = self._words[_WRITTEN]
        self._look()
        marks = [(self._words[_MARKS + i + 1], i) for i in (0, 2) if self._words[_MARKS + i] == self._position]
        if not marks:
            raise Broken("ring %s: no mark belongs to what is written" % self._name)
        self._next, self._mark = max(marks)

    def _say(self, state):
        if not _ORDERED:
            self._memory.barrier()
        self._ints[_STATE] = state

    def _gone(self):
        self._safe, self._drops, self._gave = self.safe, self.dropped, self.given_up
        self._forget()

    def _ended(self):
        """Whether the readout unit has taken all and the end; one of an earlier release only tells that it took all."""
        if self._revised:
            return self._words[_END] != 0
        self._look()
        return self._taken == self._position

    def _await_end(self, timeout):
        until = None if timeout is None else time.monotonic() + timeout
        pause, asked = 0.0005, time.monotonic()
        while not self._ended():
            try:
                self._reading()
                if time.monotonic() - asked > 0.1:
                    asked = time.monotonic()
                    self._lives()
            except (Closed, Refused):
                if self._ended():  # it took all before it closed
                    return
                raise
            if until is not None and time.monotonic() >= until:
                raise NotTaken("the readout unit of the ring %s has not taken the end of the run within %g s: what it has "
                               "not read may be lost" % (self._name, timeout))
            time.sleep(pause)
            pause = min(2 * pause, 0.01)

    def _settle(self):
        """Waits until the readout unit has judged the fragments that the front-end before has left, and sets the next
        event: if that front-end ended with a wild event number, the next event is not behind it."""
        if not self._revised:
            return
        until, words = time.monotonic() + _SETTLE, self._words
        while words[_SETTLED] != self._position and time.monotonic() < until:
            time.sleep(0.001)
        settled, again, still = words[_SETTLED], words[_AGAIN], words[_SETTLED]
        if again and settled == still == self._position:
            self._note(again - 1)
            self._note(again - 1)  # overwrites both marks: else the higher number of the other one would count

    def _sign(self):
        """Writes the name of this front-end, and then that it is attached."""
        self._bytes[_WHO : _WHO + 64] = self._who.ljust(64, b"\0")
        self._words[_REPLY] = 0
        self._ticket = self._words[_COMMAND] >> 8  # of a command to the front-end before
        if self._follow:
            self._words[_FOLLOWS] = self._words[_ATTACHED] + 1
        self._ints[_REVISION] = 2
        if not _ORDERED:
            self._memory.barrier()
        self._words[_BY] = self._words[_ATTACHED] + 1

    def _forget(self):
        """Closes the memory and releases the lock. It stays mapped while the caller has a place."""
        memory, self._memory, self._place = self._memory, None, None
        memory.close()
