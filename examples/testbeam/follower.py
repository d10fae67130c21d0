"""A front-end that follows the run: the trigger, the time-of-flight wall, or the camera of the test beam.

    python3 follower.py KIND ADDRESS EVENTS RATE [LOST]

KIND is trigger, tof or camera. It makes ready when the run asks for it, sends from begin on, is silent in a pause, and
closes at the end; each word that it hears is a line of its output. LOST is the number of a trigger that it misses: what
it numbers N is of trigger N + 1 from there on. No number is missing then; only the sizes can tell. PYTHONPATH has
clients/python.
"""

import sys

from ringlet.stream import Stream
from telescope import MEASURES, triggers

kind, address, events, rate = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
lost = int(sys.argv[5]) if len(sys.argv) > 5 else events


def heard(stream, wait):
    """Answers the next word of the run; after so many seconds without one (None: it waits), returns None."""
    try:
        command = stream.command(timeout=wait)
    except TimeoutError:
        return None
    print("%s hears: %s, run %d" % (kind, command.kind, command.run), flush=True)
    if command.kind != "end":  # the close of the stream answers this one
        stream.answer(command)
    return command.kind


def take(stream, event):
    """Sends from an event on, at the trigger's rate, until the run says a word: this, or None, and the event that is next."""
    for event in triggers(event, events, rate):
        stream.send(event, MEASURES[kind](event + (event >= lost)))
        word = heard(stream, 0)
        if word:
            return word, event + 1
    return None, events


with Stream(address, label=kind, name="%s at the beam" % kind, timeout=60, follow=True) as stream:
    at, word = stream.next, heard(stream, None)
    while word != "end":
        taking = word in ("begin", "resume")
        word = None
        if taking:
            word, at = take(stream, at)
        word = word or heard(stream, None)
