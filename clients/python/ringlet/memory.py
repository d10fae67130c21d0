"""Remote memory for a program on the host of a member, which has opened a gateway: ringlet mem door NAME.

    with Door("mine", timeout=10) as door:                  # wait up to 10 s for a free gateway
        count = door.open("count@owner")                    # a segment
        before = count.add(0, 1)                            # adds to a word atomically
        count.write(4096, b"bytes")
        known = count.wait(0, known)                        # sleep until another process notifies the page

These calls wait until the transfer is over. For many transfers at a time, prepare requests about the bytes of
door.data, start all of them by one store, and wait for each:

        tickets = [count.prepare(WRITE, remote=64 * i, local=64 * i, length=64) for i in range(100)]
        door.start()
        for ticket in tickets:
            door.wait(ticket)

A failed transfer raises Refused, or Unknown if it is not known whether it was done. Up to 1024 may be under way.

Python 3.9 or newer on Linux, x86-64 or arm64; the standard library only. A Door is for one thread. The layout is
docs/format/door.md, the manual docs/memory.md.

Limits: those of segment.py.
"""

import collections
import os
import struct
import time

from . import segment

IMPORT, LEAVE, SIZE, WRITE, READ, ADD, SWAP, COMPARE, NOTIFY, WAIT, FENCE = range(1, 12)
LIST, NOTICE, ALONE = 1, 2, 4  # flags

_DESCRIPTORS, _RING, _WORDS = 1024, 4096, 4096 + 1024 * 64
_DATA = _WORDS + _DESCRIPTORS * 16
_REQUEST = struct.Struct("<BBBxIQIIQQI20x")
_PIECE = struct.Struct("<QII")
_HEAD = struct.Struct("<8s7Q")
# Words of 8 bytes, by their number; bells, of two words of 4 bytes, by theirs.
_STATE, _PID, _ATTACHED, _STARTED, _WAKE, _DOOR = 8, 9, 10, 16, 24, 32
_WORK, _COMPLETED = 80, 96
_MASK = 2**48 - 1

_CAUSES = {
    1: "no node that was asked exports that name",
    2: "the export is withdrawn: import the name again",
    3: "the bytes do not lie in the segment",
    4: "the owner does not open these pages for it",
    5: "a word is 8 bytes long and stands at a multiple of 8",
    6: "the owner has no room for it: ask again later",
    7: "it was cancelled",
    8: "the peer does not speak this version of the messages of memory",
    9: "its time is over",
    10: "an earlier write of the same context failed: ask for a fence",
    11: "the link to the owner is over",
    12: "the import, the door or its space is closed",
    13: "several nodes export that name: import name@node",
    32: "there is no such operation",
    33: "a flag that the operation does not have, or a byte that must be 0",
    34: "there are ordering contexts 0 to 15",
    35: "1 to 4096 bytes, a name of 1 to 255, or a list of 1 to 64 pieces",
    36: "the local bytes do not lie in the data area",
    37: "the handle is of no segment that is imported",
    38: "the descriptor of that place is still under way",
    39: "64 segments are imported",
    40: "16 waits are under way",
}


class DoorError(Exception):
    """A step at a gateway that failed."""


class NoDoor(DoorError):
    """No gateway of that name is free in time."""


class Closed(DoorError):
    """The gateway was closed, or its member has died: open another one."""


class Broken(DoorError):
    """The memory is no gateway of this version."""


class TransferError(DoorError):
    """A transfer that was not done; cause is the number of docs/format/door.md."""

    def __init__(self, cause):
        super().__init__(_CAUSES.get(cause, "cause %d" % cause))
        self.cause = cause


class Refused(TransferError):
    """The transfer was not done; with partial set, a part of it may be done."""

    partial = False


class Unknown(TransferError):
    """It is not known whether the transfer was done."""


Piece = collections.namedtuple("Piece", "remote local length")
Piece.__doc__ = "A piece of a list: offset in the segment, offset in door.data, bytes."


class Segment:
    """A segment of another process. All calls but prepare use the ordering context 0."""

    def __init__(self, door, handle):
        self._door, self.handle = door, handle

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def size(self):
        """Size of the segment in bytes."""
        return self._do(SIZE)

    def write(self, offset, data):
        """Writes bytes, 4096 at a time."""
        place, view = self._door._scratch, memoryview(data).cast("B")
        for at in range(0, len(view), 4096):
            part = view[at : at + 4096]
            self._door.data[place : place + len(part)] = part
            self._do(WRITE, remote=offset + at, local=place, length=len(part))

    def read(self, offset, length):
        """Reads bytes, 4096 at a time."""
        place, found = self._door._scratch, []
        for at in range(0, length, 4096):
            n = min(4096, length - at)
            self._do(READ, remote=offset + at, local=place, length=n)
            found.append(bytes(self._door.data[place : place + n]))
        return b"".join(found)

    def add(self, offset, delta):
        """Adds to a word of 8 bytes atomically, and returns the word before."""
        return self._do(ADD, remote=offset, a=delta % 2**64)

    def swap(self, offset, word):
        """Replaces a word, and returns the old one."""
        return self._do(SWAP, remote=offset, a=word)

    def compare_and_swap(self, offset, expected, word):
        """Replaces a word if it equals expected, and returns the word before."""
        return self._do(COMPARE, remote=offset, a=expected, b=word)

    def notify(self, offset):
        """Counts a notice at the page of an offset, wakes its waiters, and returns the number of notices."""
        return self._do(NOTIFY, remote=offset)

    def wait(self, offset, known=0, timeout=0):
        """Waits until the page of an offset has had more notices than known, and returns how many. timeout: seconds,
        then Unknown; 0 waits for ever."""
        return self._do(WAIT, remote=offset, a=known, time_ms=int(timeout * 1000))

    def fence(self, context=0):
        """Waits until all earlier requests of a context are over, and raises the errors of writes to combining pages."""
        self._do(FENCE, context=context)

    def close(self):
        """Releases the segment."""
        if self.handle is not None and self._door._words is not None:
            handle, self.handle = self.handle, None
            self._door.wait(self._door.prepare(LEAVE, segment=handle))

    def prepare(self, operation, **fields):
        """Door.prepare for this segment."""
        return self._door.prepare(operation, segment=self.handle, **fields)

    def _do(self, operation, **fields):
        return self._door.wait(self.prepare(operation, **fields))


class Door:
    """A gateway that this program uses. name: the NAME of ringlet mem door NAME, or a path. timeout: seconds to wait for
    a free one; None waits for ever. data is a memoryview of the data area of transfers; calls that copy use its last
    4096 bytes."""

    def __init__(self, name, timeout=None):
        if not segment.FUTEX:
            raise Broken("this module knows the futex of x86-64 and arm64 alone")
        self._prepared = self._begun = 0
        self._words = self._memory = None
        until, pause = None if timeout is None else time.monotonic() + timeout, 0.001
        paths = [name] if "/" in name else ["/dev/shm/ringlet-door-%s-%d" % (name, i) for i in range(8)]
        while not any(self._attach(path) for path in paths):
            if until is not None and time.monotonic() >= until:
                raise NoDoor("no door %s is free: has a member opened one (ringlet mem door)?" % name)
            time.sleep(pause)
            pause = min(2 * pause, 0.1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def open(self, name):
        """Imports NAME or NAME@NODE: a Segment."""
        text = name.encode()
        self.data[self._scratch : self._scratch + min(len(text), 4096)] = text[:4096]
        return Segment(self, self.wait(self.prepare(IMPORT, local=self._scratch, length=len(text))))

    def prepare(self, operation, flags=0, context=0, segment=0, remote=0, local=0, length=0, a=0, b=0, time_ms=0):
        """Prepares a transfer, and returns its ticket. It waits while the request 1024 before this one is under way."""
        self._here()
        ticket = self._prepared
        if ticket >= _DESCRIPTORS:
            try:
                self.wait(ticket - _DESCRIPTORS)
            except TransferError:
                pass  # the caller has not asked for the result of that old request
        at = _RING + ticket % _DESCRIPTORS * 64
        _REQUEST.pack_into(self._memory.bytes, at, operation, flags, context, segment, remote, local, length, a, b, time_ms)
        self._prepared = ticket + 1
        return ticket

    def pieces(self, local, pieces):
        """Writes a list of Pieces to data, for a request with the flag LIST, whose length is their number."""
        for i, piece in enumerate(pieces):
            _PIECE.pack_into(self.data, local + 16 * i, *piece)

    def start(self):
        """Starts all prepared requests, by one store."""
        self._here()
        begun, self._begun = self._begun, self._prepared
        if begun == self._begun:
            return
        self._memory.barrier()
        self._words[_STARTED] = self._begun
        self._memory.barrier()
        if begun < self._words[_WAKE] <= self._begun:
            self._memory.ring(_WORK)

    def wait(self, ticket, timeout=None):
        """Waits until a transfer is over, and returns its result: the handle, the size, the word before, the number of
        notices. timeout: seconds, then TimeoutError: the transfer goes on; None waits while the gateway is open."""
        self._here()
        if ticket >= self._begun:
            self.start()
        until = None if timeout is None else time.monotonic() + timeout
        word, wanted = (_WORDS + ticket % _DESCRIPTORS * 16) // 8, ticket + 1 & _MASK
        for _ in range(200):
            if self._words[word + 1] >> 16 == wanted:
                return self._result(word)
        while True:
            self._ints[_COMPLETED + 1] = 1  # this client is the only one that waits
            self._memory.barrier()
            rung, opened = self._ints[_COMPLETED], self._words[_DOOR]
            if self._words[word + 1] >> 16 == wanted:
                self._ints[_COMPLETED + 1] = 0
                return self._result(word)
            if self._prepared - ticket > _DESCRIPTORS:
                raise DoorError("the result of ticket %d is gone: 1024 others were prepared since" % ticket)
            if opened != 1:
                why = ", since what this program wrote cannot be" if opened == 3 else ""
                raise Closed("the door was closed" + why)
            late = self._memory.sleep(_COMPLETED, rung)
            self._ints[_COMPLETED + 1] = 0
            if late and not self._memory.taken(1) and self._words[word + 1] >> 16 != wanted:
                raise Closed("the process that opened the door has died")
            if until is not None and time.monotonic() >= until and self._words[word + 1] >> 16 != wanted:
                raise TimeoutError("the transfer is still under way after %g s" % timeout)

    def close(self):
        """Detaches from the gateway, which ends the transfers under way. May be called twice."""
        if self._words is None:
            return
        self._words[_STATE] = 2
        self._memory.barrier()
        self._memory.ring(_WORK)
        self._forget()

    # What only this module uses.

    def _here(self):
        if self._words is None:
            raise Closed("the door is closed")

    def _result(self, word):
        what = self._words[word + 1]
        outcome, cause = what & 0xFF, what >> 8 & 0xFF
        if outcome == 1:
            return self._words[word]
        if outcome in (2, 4):
            error = Refused(cause)
            error.partial = outcome == 4
            raise error
        raise Unknown(cause)

    def _attach(self, path):
        """Takes the gateway at a path; false: it is not free."""
        try:
            memory = self._memory = segment.Memory(path)
        except (FileNotFoundError, segment.Ended):
            return False
        except segment.Foreign:
            raise Broken("%s is not the door of a process of this user" % path) from None
        self._words, self._ints, self.data = memory.words, memory.ints, memory.bytes[_DATA:]
        try:
            if not _DATA + 8192 <= memory.size <= _DATA + 2**30:
                raise Broken("%s: %d bytes are no door" % (path, memory.size))
            self._scratch = len(self.data) - 4096
            head = (b"RNGLMEMD", 1, _DESCRIPTORS, _RING, _WORDS, _DATA, len(self.data), 64)
            if _HEAD.unpack_from(memory.bytes, 0) != head:
                raise Broken("%s is no door of version 1" % path)
            if not memory.taken(1) or not memory.take(0) or self._words[_ATTACHED] or self._words[_DOOR] != 1:
                self._forget()
                return False
        except BaseException:
            self._forget()
            raise
        self._words[_PID] = os.getpid()
        self._words[_STATE] = 1
        self._memory.barrier()
        self._words[_ATTACHED] = 1
        self._memory.barrier()
        self._memory.ring(_WORK)
        return True

    def _forget(self):
        """Closes the memory and releases the lock. Memory stays mapped while the caller has a part of data."""
        memory, self._memory, self._words = self._memory, None, None
        if memory is None:
            return
        try:
            self.data.release()
        except BufferError:
            pass
        memory.close()
