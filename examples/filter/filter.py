"""filter.py NAME: a filter of your own, for ringlet run --fragment-model velo --filter process:NAME.

It accepts events of the simulated vertex detector whose collision is within 40 mm of the detector's centre. Two hits that
a particle leaves in neighbouring sensors are on a line from the collision: where that line meets the beam is a guess. It
takes the place on which most guesses agree. docs/your-filter.md explains it."""
import collections
import struct
import sys

from ringlet.filter import Filter

STATIONS = range(-175, 306, 30)  # mm along the beam; those behind are further apart
PITCHES = [0.040 + 0.052 * i / 511 for i in range(512)]  # widths of the strips of a sector, from the inside out
RADII = [8 + sum(PITCHES[:i]) + PITCHES[i] / 2 for i in range(512)]


def hits(board):
    """The radii that a sensor was hit at, by sector."""
    sectors = collections.defaultdict(list)
    for cluster in struct.unpack_from("<%dH" % (board[2] & 127), board, 4):
        sector, strip = divmod(cluster & 2047, 512)
        sectors[sector].append(RADII[strip])
    return sectors


def collision(fragments):
    """Where the event collided, mm, and how many guesses agree."""
    guesses = collections.Counter()
    for half in (0, 1):  # boards 0, 2, 4 … are on the right, 1, 3, 5 … on the left, 15 mm behind
        before = hits(fragments[half].data)
        for station in range(len(STATIONS) - 1):
            here = hits(fragments[2 * station + 2 + half].data)
            for sector, radii in before.items():
                for r in radii:
                    for s in here[sector]:
                        if abs(s - r) > 0.5:
                            guesses[round((STATIONS[station] + 15 * half - r * 30 / (s - r)) / 2)] += 1
            before = here
    agree, best = max((guesses[k - 1] + guesses[k] + guesses[k + 1], k) for k in range(-100, 101))
    return 2 * best, agree


with Filter(sys.argv[1], timeout=60) as events:
    for event in events:
        z, agree = collision(event.fragments)
        if agree >= 10 and abs(z) <= 40:
            event.accept(bits=z + 200)
        else:
            event.reject(bits=z + 200)
    print("judged", events.judged, "events")
