"""Writes a file of frames (docs/format/frames.md): what a plane measured another day, to be played by play.py.

    python3 record.py FILE PLANE EVENTS
"""

import struct
import sys

from telescope import fragment

path, plane, events = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with open(path, "wb") as file:
    name = b"plane %d" % plane
    file.write(struct.pack("<4sBBHQQ", b"RLFH", 1, 255, 0xFFFF, 0, len(name)) + name)
    for event in range(events):
        data = fragment(event, plane)
        file.write(struct.pack("<QIBBHI", event, len(data), 1, 0, 0x5246, 0) + data)
    file.write(struct.pack("<QIBBHI", events, 0, 1 | 2, 0, 0x5246, 0))
