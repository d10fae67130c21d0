"""layout.py DOOR: what layout.c does, in Python."""

import sys

from ringlet import memory

door = memory.Door(sys.argv[1], timeout=20)
door.prepare(memory.WRITE, memory.LIST | memory.NOTICE | memory.ALONE, 15, 0x01020304, 0x1112131415161718, 0x21222324,
             0x31323334, time_ms=0x41424344)
door.prepare(memory.COMPARE, segment=0x105, remote=8, a=0x5152535455565758, b=0x6162636465666768)
door.prepare(memory.FENCE, context=1, segment=0xFFFFFFFF)
door.start()
for ticket in range(3):
    try:
        n = door.wait(ticket)
        print(0, 0, "%x" % n)
    except memory.Refused as error:
        print(3 if error.partial else 1, error.cause, "%x" % n)
    except memory.Unknown as error:
        print(2, error.cause, "%x" % n)
sys.stdout.flush()
door._forget()
