"""A bare socket that sends what frontend.py does, made beforehand: python3 bare.py host port events size."""

import socket
import sys
import time

events, size = int(sys.argv[3]), int(sys.argv[4])
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
piece = bytes((size + 20) * 200)
began = time.monotonic()
for _ in range(events // 200):
    s.sendall(piece)
s.shutdown(socket.SHUT_WR)
s.recv(1)
print("%.0f fragments/s" % (events / (time.monotonic() - began)))
