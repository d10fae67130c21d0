"""runs.py ADDRESS PREFIX: what runs.c does."""

import os
import sys

from ringlet.stream import GivenUp, Stream


def follow(stream):
    event, sends = stream.next, False
    while True:
        try:
            command = stream.command(timeout=0.001)
        except TimeoutError:
            if sends:
                stream.send(event, b"fragment")
                event += 1
            continue
        os.write(1, b"%s%s %d\n" % (sys.argv[2].encode(), command.kind.encode(), command.run))
        sends = command.kind in ("begin", "resume")
        if command.kind == "prepare":
            event = max(event, stream.next)
        stream.answer(command)
        if command.kind == "end":
            return stream.close(timeout=60)


while True:
    try:
        follow(Stream(sys.argv[1], follow=True))
    except (GivenUp, TimeoutError) as error:
        print(error, file=sys.stderr)
