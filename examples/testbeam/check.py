"""Holds the converted events against what the planes measured, byte for byte, and draws the spectrum of the charges.

    python3 check.py EVENTS.jsonl NUMBER [--lossy PLANE] [--tap TAP.jsonl] [--more] [--lost TRIGGER]

Each of NUMBER events has one fragment of each of the four planes; of the lossy one they may be missing. With --more
there are trigger, tof and camera, too (sources 4 to 6), and tof has missed trigger TRIGGER. What the tap showed (ringlet
tap --data) must be what the file has of the same event.
"""

import argparse
import base64
import collections
import json
import struct
import sys

from telescope import MEASURES, fragment

parser = argparse.ArgumentParser()
parser.add_argument("rows")
parser.add_argument("events", type=int)
parser.add_argument("--lossy", type=int)
parser.add_argument("--tap")
parser.add_argument("--more", action="store_true")
parser.add_argument("--lost", type=int)
args = parser.parse_args()
names = list(MEASURES) if args.more else []
SOURCES = 4 + len(names)


def measured(event, source):
    """The fragment that the front-end of a source sent as that of an event."""
    if source < 4:
        return fragment(event, source)
    slipped = names[source - 4] == "tof" and args.lost is not None and event >= args.lost
    return MEASURES[names[source - 4]](event + slipped)



shown, again = {}, 0  # the fragments of an event as the tap had them, in one string: one of each plane in order
for line in open(args.tap) if args.tap else ():
    row = json.loads(line)
    if [f["source"] for f in row["sources"]] != list(range(SOURCES)):
        sys.exit("the tap showed event %d with other sources than the planes: %s" % (row["event"], line))
    again += row["event"] in shown
    shown[row["event"]] = ",".join("missing" if "missing" in f else f["data"] for f in row["sources"])

there, fragments, missing, compared = bytearray(SOURCES * args.events), 0, 0, 0
charges = collections.Counter()
for line in open(args.rows):
    row = json.loads(line)
    event, plane = key = row["event"], row["source"]
    if event >= args.events or plane >= SOURCES:
        sys.exit("event %d of plane %d is there, and nobody measured it" % key)
    if there[SOURCES * event + plane]:
        sys.exit("event %d of plane %d is there twice" % key)
    there[SOURCES * event + plane] = 1
    fragments += 1
    data = base64.b64decode(row["data"])
    if event in shown:
        if shown[event].split(",")[plane] != ("missing" if row["missing"] else data.hex()):
            sys.exit("the tap showed other bytes of event %d of plane %d than the file has" % key)
        compared += 1
    if row["missing"]:
        if plane != args.lossy:
            sys.exit("event %d of plane %d is missing" % key)
        missing += 1
        continue
    if data != measured(*key):
        sys.exit("event %d of plane %d is not what was measured" % key)
    if plane < 4:
        charges[struct.unpack_from("<2H", data)[1] // 10 * 10] += 1
if fragments != len(there):
    sys.exit("%d fragments are there, and %d were measured" % (fragments, len(there)))
if args.tap and (not shown or compared != SOURCES * len(shown)):
    sys.exit("the tap showed %d events, and %d of their fragments are in the file" % (len(shown), compared))
print("%d events of %d sources are there, each fragment once; %d fragments missing, all others as they were made" %
      (args.events, SOURCES, missing))
if args.tap:
    print("the tap showed %d of the events (%d again after a loss): the same bytes" % (len(shown), again))
print("charges of the first cluster:")
for charge, n in sorted(charges.items()):
    print("%5d %7d %s" % (charge, n, "#" * (60 * n // max(charges.values()))))
