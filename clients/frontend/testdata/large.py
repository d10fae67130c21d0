"""Sends events of 3 MB, less their number, and checks that a larger fragment is refused."""

import sys

from ringlet.stream import Stream

with Stream(sys.argv[1], timeout=60) as s:
    assert s.largest == 3_000_000, s.largest
    try:
        s.send(0, bytes(3_000_001))
        sys.exit("a fragment that is too large is sent")
    except ValueError as error:
        assert "?max=" in str(error), error
    for e in range(int(sys.argv[2])):
        s.send(e, bytes([(e * 7 + 13) & 255]) * (3_000_000 - e))
