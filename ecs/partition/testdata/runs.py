"""runs.py ADDRESS PREFIX: what runs.c does."""

import os
import sys

from ringlet.stream import GivenUp, Stream


def follow(stream):
    event, run, sends = stream.next, 0, False
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
        if command.kind == "prepare" and (command.run != run or event < stream.next):  # each run counts anew
            event, run = stream.next, command.run
        stream.answer(command)
        if command.kind == "end":
            return stream.close(timeout=60)


while True:
    try:
        follow(Stream(sys.argv[1], follow=True))
    except (GivenUp, TimeoutError) as error:
        print(error, file=sys.stderr)
