"""behind.py ADDRESS: sends one event, hears of the end of the run, and closes when the readout unit is gone, perhaps."""

import sys

from ringlet.stream import Stream

stream = Stream(sys.argv[1], follow=True, timeout=60)
kind = ""
while kind != "end":
    command = stream.command(timeout=60)
    kind = command.kind
    if kind == "begin":
        stream.send(0, b"fragment")
    stream.answer(command)
stream.close()
