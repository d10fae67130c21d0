"""The memory of a segment, which a card names: docs/format/segment.md. The other modules of this package open it here,
and use its words, bells and locks.

Python 3.9 or newer on Linux; the standard library only.

Limits. Python has no atomic instructions: these modules store aligned words of 8 bytes, which CPython does by one
instruction. On x86-64 the processor keeps the order of stores. On arm64, and if a load must come after a store, these
modules take a lock in between to keep the order. This works with CPython as it is built today; the language does not
promise it.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import re
import stat
import struct
import threading

ORDERED = platform.machine() in ("x86_64", "AMD64")  # the processor keeps the order of stores
FUTEX = {"x86_64": 202, "aarch64": 98}.get(platform.machine())  # number of the call; None: bells cannot be used

_CARD = re.compile(rb"ringlet-segment 2 (/proc/\d+/fd/\d+) (\d+) (\d+) (\d+)\n")
_SEALS = 0x0002 | 0x0004  # F_SEAL_SHRINK, F_SEAL_GROW
_GET_SEALS = 1034
_LOCK = struct.Struct("hhqqi4x")  # struct flock
_PATIENCE = (ctypes.c_long * 2)(0, 100_000_000)  # struct timespec
_libc = ctypes.CDLL(None, use_errno=True)


class Foreign(Exception):
    """The file at the path is no card of a process of this user, or names another user's memory."""


class Ended(Exception):
    """The process that made the segment has ended, or is of another container."""


class Hidden(Ended):
    """The process with that number forbids a look at its memory: it is the maker, or another one since."""


def opened(path):
    """Returns the open file of a segment's memory, and its size in bytes. FileNotFoundError: there is no card."""
    try:
        card = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.ELOOP):
            raise
        raise Foreign from None
    try:
        st, text = os.fstat(card), os.read(card, 200)
    finally:
        os.close(card)
    found = _CARD.fullmatch(text)
    if not stat.S_ISREG(st.st_mode) or st.st_uid != os.geteuid() or st.st_mode & 0o077 or not found:
        raise Foreign
    where, size, device, inode = os.fsdecode(found[1]), int(found[2]), int(found[3]), int(found[4])
    try:
        link = os.readlink(where)
    except PermissionError:
        raise Hidden from None
    except OSError:
        raise Ended from None
    if not link.startswith("/memfd:ringlet-segment:"):
        raise Ended
    try:
        file = os.open(where, os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:  # another process has the number by now, and this one may not see its memory
        raise Ended from None
    try:
        st = os.fstat(file)
        if st.st_uid != os.geteuid() or not _sealed(file):
            raise Foreign
        if (st.st_size, st.st_dev, st.st_ino) != (size, device, inode):
            raise Ended
    except BaseException:
        os.close(file)
        raise
    return file, size


def _sealed(file):
    """Whether the memory of an open file is sealed: no process can cut it short or lengthen it."""
    try:
        return fcntl.fcntl(file, _GET_SEALS) & _SEALS == _SEALS
    except OSError:  # it is no memory
        return False


class Memory:
    """The memory of a segment, mapped: bytes, words (of 8 bytes), ints (of 4), size, and the open file. Bells are named by
    the number of their first word of 4 bytes. Errors are those of opened."""

    def __init__(self, path, writable=True):
        self.file, self.size = opened(path)
        try:
            if self.size == 0:
                raise Foreign
            self._map = mmap.mmap(self.file, self.size, prot=mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0))
        except BaseException:
            os.close(self.file)
            raise
        self.bytes, self.words, self.ints = memoryview(self._map), None, None
        self._turn = threading.Lock()
        if writable:
            whole = self.bytes[: self.size & ~7]
            self.words, self.ints = whole.cast("Q"), whole.cast("I")
            self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))

    def fence(self):
        """Keeps the order of stores where the processor does not."""
        if not ORDERED:
            self.barrier()

    def barrier(self):
        """Keeps the order of a store and a load after it: a lock taken twice."""
        for _ in range(2):
            self._turn.acquire()
            self._turn.release()

    def ring(self, bell):
        """Wakes processes that sleep on a bell; store the change before. Without futex, the others poll."""
        self.barrier()
        if self.ints[bell + 1] and FUTEX:
            self.ints[bell] = self.ints[bell] + 1 & 0xFFFFFFFF
            self._futex(bell, 1, 2**31 - 1, None)

    def sleep(self, bell, rung):
        """Sleeps on a bell, whose first word was rung before it was looked; true: it did not ring for 100 ms."""
        return self._futex(bell, 0, rung, ctypes.byref(_PATIENCE)) != 0 and ctypes.get_errno() == errno.ETIMEDOUT

    def _futex(self, bell, operation, value, patience):
        at = ctypes.c_void_p(self._address + 4 * bell)
        return _libc.syscall(FUTEX, at, operation, ctypes.c_uint(value), patience, None, 0)

    def take(self, byte):
        """Takes the lock of a byte, which says that this process lives; false: another process has it."""
        try:
            fcntl.fcntl(self.file, fcntl.F_OFD_SETLK, _LOCK.pack(fcntl.F_WRLCK, 0, byte, 1, 0))
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            return False
        return True

    def free(self, byte=0, count=0):
        """Releases the locks of count bytes; 0: of all from byte on."""
        fcntl.fcntl(self.file, fcntl.F_OFD_SETLK, _LOCK.pack(fcntl.F_UNLCK, 0, byte, count, 0))

    def taken(self, byte):
        """Whether another process has the lock of a byte."""
        lock = fcntl.fcntl(self.file, fcntl.F_OFD_GETLK, _LOCK.pack(fcntl.F_WRLCK, 0, byte, 1, 0))
        return _LOCK.unpack(lock)[0] != fcntl.F_UNLCK

    def close(self):
        """Closes the memory and releases the locks. It stays mapped while the caller has a part of it."""
        self.free()
        for view in (self.words, self.ints, self.bytes):
            try:
                if view is not None:
                    view.release()
            except BufferError:
                pass
        try:
            self._map.close()
        except BufferError:
            pass
        os.close(self.file)
