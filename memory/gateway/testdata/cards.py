"""cards.py DIR: what opening says of cards that name no memory which this process may see."""

import errno
import os
import sys

from ringlet import memory, shm

CARD = b"ringlet-segment 2 /proc/4194399/fd/7 100000 1 2\n"
LINK = "/memfd:ringlet-segment:another's"
OS = {"readlink": os.readlink, "open": os.open}


def fails(number):
    def call(*_):
        raise OSError(number, os.strerror(number))

    return call


def instead(call):
    """Opens a card as it is, and what it names in another way."""
    return lambda path, *rest: (call if path.startswith("/proc/") else OS["open"])(path, *rest)


def says(what, opens, **patched):
    before = len(os.listdir("/proc/self/fd"))
    for name, call in patched.items():
        setattr(os, name, call)
    try:
        opens()
        said = "open"
    except Exception as error:
        said = type(error).__name__
    for name, call in OS.items():
        setattr(os, name, call)
    left = len(os.listdir("/proc/self/fd")) - before
    print("%s: %s%s" % (what, said, "" if left == 0 else ", %d files left open" % left))


card, plain, link = (os.path.join(sys.argv[1], name) for name in ("card", "plain", "link"))
for path, text in (card, CARD), (plain, bytes(100)):
    with open(path, "wb") as file:
        file.write(text)
    os.chmod(path, 0o600)
os.symlink(card, link)

for kind, opens in ("door", lambda path: memory.Door(path, timeout=0)), ("ring", lambda path: shm.Ring(path, timeout=0)):
    for number in errno.ENOENT, errno.EACCES, errno.ESRCH, errno.EINVAL:
        name = errno.errorcode[number]
        says("%s, link %s" % (kind, name), lambda: opens(card), readlink=fails(number))
        says("%s, memory %s" % (kind, name), lambda: opens(card), readlink=lambda _: LINK, open=instead(fails(number)))
    says("%s, not sealed" % kind, lambda: opens(card), readlink=lambda _: LINK, open=instead(lambda _, *rest: OS["open"](plain, *rest)))
    says("%s, a link" % kind, lambda: opens(link))
