"""A front-end without any client: one plane of the telescope, as EJFAT's UDP segments (docs/format/ejfat.md).

    python3 sender.py HOST:PORT PLANE EVENTS RATE

UDP promises nothing: what is lost on the way is a missing fragment.
"""

import socket
import struct
import sys

from telescope import fragment, triggers

address, plane, events, rate = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
host, port = address.rsplit(":", 1)
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for event in triggers(0, events, rate):
    data = fragment(event, plane)
    sock.sendto(struct.pack(">HHIIQ", 0x1000, plane, 0, len(data), event) + data, (host, int(port)))
