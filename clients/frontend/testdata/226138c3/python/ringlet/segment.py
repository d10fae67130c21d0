"""The memory that the card of a segment names: docs/format/segment.md. The modules of this package open it here.

Python 3.9 or newer on Linux; the standard library only.
"""

import errno
import fcntl
import os
import re
import stat

_CARD = re.compile(rb"ringlet-segment 2 (/proc/\d+/fd/\d+) (\d+) (\d+) (\d+)\n")
_SEALS = 0x0002 | 0x0004  # F_SEAL_SHRINK, F_SEAL_GROW
_GET_SEALS = 1034


class Foreign(Exception):
    """What stands at the path is no card of a process of this user, or names memory that is not this user's."""


class Ended(Exception):
    """The process that made the segment has ended, or is of another container."""


class Hidden(Ended):
    """A process has that number whose memory this one may not look at: the maker's, or another since it ended."""


def opened(path):
    """The open file of a segment's memory, and its size in bytes. FileNotFoundError: there is no card."""
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
    except OSError:  # the number is that of another process by now, whose memory this one may not see
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
    """Whether nobody can cut the memory of an open file short, or lengthen it."""
    try:
        return fcntl.fcntl(file, _GET_SEALS) & _SEALS == _SEALS
    except OSError:  # it is no memory
        return False
