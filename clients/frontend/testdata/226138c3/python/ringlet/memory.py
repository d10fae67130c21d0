"""Remote memory for a program on the host of a member, which has opened a door: ringlet mem door NAME.

    with Door("mine", timeout=10) as door:                  # wait up to 10 s for a free door
        count = door.open("count@owner")                    # a segment
        before = count.add(0, 1)                            # a word, in one step
        count.write(4096, b"bytes")
        known = count.wait(0, known)                        # sleep until somebody notifies the page

These calls wait until the transfer is over. Whoever wants many under way prepares requests about the bytes of
door.data, starts all that are prepared by one store, and waits for each:

        tickets = [count.prepare(WRITE, remote=64 * i, local=64 * i, length=64) for i in range(100)]
        door.start()
        for ticket in tickets:
            door.wait(ticket)

A transfer that was not done is Refused, or Unknown where nobody knows whether it was done. Up to 1024 may be under way.

Python 3.9 or newer on Linux, x86-64 or arm64; the standard library only. A Door is for one thread. The layout is
docs/format/door.md, the manual docs/memory.md.

Limits. Python has no atomic instructions: this module stores aligned words of 8 bytes, which CPython does by one
instruction, and takes a lock in between where the order of stores matters (shm.py says more).
"""

import collections
import ctypes
import errno
import fcntl
import mmap
import os
import struct
import threading
import time

from . import output, segment

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
_LOCK = struct.Struct("hhqqi4x")  # struct flock

_libc = ctypes.CDLL(None, use_errno=True)
_PATIENCE = (ctypes.c_long * 2)(0, 100_000_000)  # struct timespec

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
    """A step at a door that failed."""


class NoDoor(DoorError):
    """No door of that name is free in time."""


class Closed(DoorError):
    """The door was closed, or its member has died: open another one."""


class Broken(DoorError):
    """What stands in the memory is no door of this version."""


class TransferError(DoorError):
    """A transfer that was not done; cause is the number of docs/format/door.md."""

    def __init__(self, cause):
        super().__init__(_CAUSES.get(cause, "cause %d" % cause))
        self.cause = cause


class Refused(TransferError):
    """Nothing of it was done, or, where partial is set, perhaps a part of it."""

    partial = False


class Unknown(TransferError):
    """Nobody knows whether it was done."""


Piece = collections.namedtuple("Piece", "remote local length")
Piece.__doc__ = "A piece of a list: offset in the segment, offset in door.data, bytes."


class Segment:
    """A segment of another process. Calls are in the ordering context 0, but for prepare's."""

    def __init__(self, door, handle):
        self._door, self.handle = door, handle

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def size(self):
        """Of the segment, bytes."""
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
        """Adds to a word of 8 bytes in one step, and returns the word before."""
        return self._do(ADD, remote=offset, a=delta % 2**64)

    def swap(self, offset, word):
        """Puts a word in the place of another, and returns that."""
        return self._do(SWAP, remote=offset, a=word)

    def compare_and_swap(self, offset, expected, word):
        """Puts a word in the place of another if that is as expected, and returns the word before."""
        return self._do(COMPARE, remote=offset, a=expected, b=word)

    def notify(self, offset):
        """Counts a notice at the page of an offset, wakes who waits there, and returns the number of notices."""
        return self._do(NOTIFY, remote=offset)

    def wait(self, offset, known=0, timeout=0):
        """Waits until the page of an offset has had more notices than known, and returns how many. timeout: seconds,
        then Unknown; 0 waits for ever."""
        return self._do(WAIT, remote=offset, a=known, time_ms=int(timeout * 1000))

    def fence(self, context=0):
        """Waits until everything before it in a context is over, and tells of writes to combining pages."""
        self._do(FENCE, context=context)

    def close(self):
        """Gives the segment back."""
        if self.handle is not None and self._door._words is not None:
            handle, self.handle = self.handle, None
            self._door.wait(self._door.prepare(LEAVE, segment=handle))

    def prepare(self, operation, **fields):
        """Door.prepare for this segment."""
        return self._door.prepare(operation, segment=self.handle, **fields)

    def _do(self, operation, **fields):
        return self._door.wait(self.prepare(operation, **fields))


class Door:
    """A door that this program has. name: what stands behind ringlet mem door, or the path of a door. timeout: seconds
    to wait for a free one; None waits for ever. data is a memoryview of what transfers are about; calls that copy use
    its last 4096 bytes."""

    def __init__(self, name, timeout=None):
        if not output._FUTEX:
            raise Broken("this module knows the futex of x86-64 and arm64 alone")
        self._prepared = self._begun = 0
        self._words = self._memory = None
        self._lock = threading.Lock()
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
        """Prepares a transfer, and returns its ticket. It waits while the one of 1024 requests before is under way."""
        self._here()
        ticket = self._prepared
        if ticket >= _DESCRIPTORS:
            try:
                self.wait(ticket - _DESCRIPTORS)
            except TransferError:
                pass  # whoever prepared it did not ask
        at = _RING + ticket % _DESCRIPTORS * 64
        _REQUEST.pack_into(self._memory, at, operation, flags, context, segment, remote, local, length, a, b, time_ms)
        self._prepared = ticket + 1
        return ticket

    def pieces(self, local, pieces):
        """Writes a list of Pieces to data, for a request with the flag LIST, whose length is their number."""
        for i, piece in enumerate(pieces):
            _PIECE.pack_into(self.data, local + 16 * i, *piece)

    def start(self):
        """Starts all that is prepared, by one store."""
        self._here()
        begun, self._begun = self._begun, self._prepared
        if begun == self._begun:
            return
        self._fence()
        self._words[_STARTED] = self._begun
        self._fence()
        if begun < self._words[_WAKE] <= self._begun:
            self._ring()

    def wait(self, ticket, timeout=None):
        """Waits until a transfer is over, and returns its result: the handle, the size, the word before, the number of
        notices. timeout: seconds, then TimeoutError: the transfer goes on; None waits as long as the door is open."""
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
            self._fence()
            rung, opened = self._ints[_COMPLETED], self._words[_DOOR]
            if self._words[word + 1] >> 16 == wanted:
                self._ints[_COMPLETED + 1] = 0
                return self._result(word)
            if self._prepared - ticket > _DESCRIPTORS:
                raise DoorError("the result of ticket %d is gone: 1024 others were prepared since" % ticket)
            if opened != 1:
                why = ", since what this program wrote cannot be" if opened == 3 else ""
                raise Closed("the door was closed" + why)
            late = self._sleep(rung)
            self._ints[_COMPLETED + 1] = 0
            if late and not self._locked(1) and self._words[word + 1] >> 16 != wanted:
                raise Closed("the process that opened the door has died")
            if until is not None and time.monotonic() >= until and self._words[word + 1] >> 16 != wanted:
                raise TimeoutError("the transfer is still under way after %g s" % timeout)

    def close(self):
        """Leaves the door. What is under way ends. Twice is once."""
        if self._words is None:
            return
        self._words[_STATE] = 2
        self._fence()
        self._ring()
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

    def _fence(self):
        with self._lock:
            pass

    def _ring(self):
        if not self._ints[_WORK + 1]:
            return
        self._ints[_WORK] = self._ints[_WORK] + 1 & 0xFFFFFFFF
        self._futex(_WORK, 1, 2**31 - 1, None)

    def _sleep(self, rung):
        """Sleeps until the bell rings; true: it did not for 100 ms."""
        return self._futex(_COMPLETED, 0, rung, ctypes.byref(_PATIENCE)) != 0 and ctypes.get_errno() == errno.ETIMEDOUT

    def _futex(self, word, operation, value, patience):
        at = ctypes.c_void_p(self._address + 4 * word)
        return _libc.syscall(output._FUTEX, at, operation, ctypes.c_uint(value), patience, None, 0)

    def _locked(self, byte):
        lock = fcntl.fcntl(self._file, fcntl.F_OFD_GETLK, _LOCK.pack(fcntl.F_WRLCK, 0, byte, 1, 0))
        return _LOCK.unpack(lock)[0] != fcntl.F_UNLCK

    def _attach(self, path):
        """Takes the door of a path; false: there is none that is free."""
        if not self._open(path):
            return False
        try:
            self._memory = mmap.mmap(self._file, 0)
            self._bytes = memoryview(self._memory)
            self._words, self._ints = self._bytes.cast("Q"), self._bytes.cast("I")
            self.data = self._bytes[_DATA:]
            self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
            self._scratch = len(self.data) - 4096
            head = (b"RNGLMEMD", 1, _DESCRIPTORS, _RING, _WORDS, _DATA, len(self.data), 64)
            if _HEAD.unpack_from(self._memory, 0) != head:
                raise Broken("%s is no door of version 1" % path)
            free = self._locked(1)
            if free:
                try:
                    fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _LOCK.pack(fcntl.F_WRLCK, 0, 0, 1, 0))
                except OSError as error:
                    if error.errno not in (errno.EAGAIN, errno.EACCES):
                        raise
                    free = False
            if not free or self._words[_ATTACHED] or self._words[_DOOR] != 1:
                self._forget()
                return False
        except BaseException:
            self._forget()
            raise
        self._words[_PID] = os.getpid()
        self._words[_STATE] = 1
        self._fence()
        self._words[_ATTACHED] = 1
        self._fence()
        self._ring()
        return True

    def _open(self, path):
        """Opens the memory that the card names. False: there is none."""
        try:
            self._file, size = segment.opened(path)
        except (FileNotFoundError, segment.Ended):
            return False
        except segment.Foreign:
            raise Broken("%s is not the door of a process of this user" % path) from None
        if not _DATA + 8192 <= size <= _DATA + 2**30:
            os.close(self._file)
            raise Broken("%s: %d bytes are no door" % (path, size))
        return True

    def _forget(self):
        """Closes the memory. Who still has a part of data keeps it mapped, but not the lock."""
        memory, self._memory = self._memory, None
        views = (getattr(self, "data", None), self._words, getattr(self, "_ints", None), getattr(self, "_bytes", None))
        self._words = None
        for view in views:
            try:
                if view is not None:
                    view.release()
            except BufferError:
                pass
        try:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _LOCK.pack(fcntl.F_UNLCK, 0, 0, 1, 0))
            if memory is not None:
                memory.close()
        except BufferError:
            pass
        os.close(self._file)
