"""use.py DOOR: what use.c does, in Python. It prints the same."""

import sys

from ringlet import memory


def refused(call, *args, **fields):
    try:
        call(*args, **fields)
    except memory.Refused as error:
        return "1 cause %d" % error.cause
    except memory.Unknown as error:
        return "2 cause %d" % error.cause


with memory.Door(sys.argv[1], timeout=20) as door:
    words = door.open("words@n0")
    print("size", words.size)
    print("import", refused(door.open, "none@n0"))
    there = bytes(i * 7 & 255 for i in range(10000))
    words.write(5000, there)
    print("same", int(words.read(5000, 10000) == there))
    print("add", words.add(64, 5))
    print("swap", words.swap(64, 9))
    print("compare", words.compare_and_swap(64, 9, 11))
    print("outside", refused(words.add, 1 << 20, 1))
    print("misaligned", refused(words.add, 65, 1))
    print("notify", words.notify(64))
    print("await", words.wait(64, 0))
    print("await late 1", refused(words.wait, 64, 1, timeout=0.02)[2:])
    words.fence(3)
    door.data[:150] = bytes(range(1, 151))
    door.pieces(1024, [memory.Piece(16384, 0, 100), memory.Piece(16384 + 200, 100, 50)])
    tickets = [
        words.prepare(memory.WAIT, remote=16384),
        words.prepare(memory.WRITE, flags=memory.LIST | memory.NOTICE, context=2, remote=16384, local=1024, length=2),
        words.prepare(memory.READ, context=2, remote=16384, local=2048, length=256),
    ]
    door.start()
    for ticket in tickets:
        door.wait(ticket, timeout=20)
    want = bytes(range(1, 101)) + bytes(100) + bytes(range(101, 151)) + bytes(6)
    print("list", int(bytes(door.data[2048:2304]) == want))
    door.data[:4096] = b"\x5a" * 4096
    for i in range(3000):
        ticket = words.prepare(memory.WRITE, remote=65536 + 32 * i, local=32 * (i % 64), length=32)
        if i % 100 == 99:
            door.start()
    door.wait(ticket, timeout=20)
    words.fence()
    try:
        door.wait(0)
    except memory.DoorError:
        print("old 1")
    handle = words.handle
    words.close()
    print("left", refused(memory.Segment(door, handle).add, 64, 1))
door.close()
try:
    words.size
except memory.Closed:
    print("closed 1")
