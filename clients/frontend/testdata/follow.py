"""follow.py ADDRESS: what follow.c does."""

import sys

from ringlet.stream import Stream

stream = Stream(sys.argv[1], name="follower", follow=True, timeout=60)
event = 0
while True:
    command = stream.command(timeout=60)
    print(command.kind, command.run, command.source, command.name, len(command.config), command.config[:3].decode(),
          flush=True)
    if command.kind == "prepare":
        stream.answer(command, failed="no gas")
    if command.kind == "begin":
        for _ in range(100):
            stream.send(event, b"fragment")
            event += 1
    if command.kind == "end":
        stream.send(event, b"fragment")
        stream.answer(command)
        stream.close(timeout=60)
        break
    stream.answer(command)
