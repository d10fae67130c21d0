"""Holds the converted events against what the planes measured, byte for byte, and draws the spectrum of the charges.

    python3 check.py EVENTS.jsonl NUMBER
"""

import base64
import collections
import json
import struct
import sys

from telescope import fragment

number = int(sys.argv[2])
there, missing, charges = set(), 0, collections.Counter()
for line in open(sys.argv[1]):
    row = json.loads(line)
    key = row["event"], row["source"]
    if key in there:
        sys.exit("event %d of plane %d is there twice" % key)
    there.add(key)
    if row["missing"]:
        if row["source"] != 2:  # UDP may lose
            sys.exit("event %d of plane %d is missing" % key)
        missing += 1
        continue
    data = base64.b64decode(row["data"])
    if data != fragment(*key):
        sys.exit("event %d of plane %d is not what was measured" % key)
    charges[struct.unpack_from("<2H", data)[1] // 10 * 10] += 1
if len(there) != 4 * number:
    sys.exit("%d fragments are there, and %d were measured" % (len(there), 4 * number))
print("%d events of 4 planes are there, %d fragments missing; charges of the first cluster:" % (number, missing))
for charge, n in sorted(charges.items()):
    print("%5d %7d %s" % (charge, n, "#" * (60 * n // max(charges.values()))))
