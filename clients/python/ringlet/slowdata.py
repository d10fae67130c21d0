"""Slow data: values with a name and a time, kept beside the events of a run.

    from ringlet import slowdata

    with slowdata.Sender("control:7900") as sender:
        sender.send("hall.temp", 21.5)

The address is that of --slow-data of ringlet control or ringlet run: HOST:PORT or unix:PATH. send returns when the value
is on the disk. The lines are docs/format/slowdata.md. A sender is for one thread."""

import json
import math
import socket
import time as clock


class Unkept(Exception):
    """The value is in no file; the text says why, and to send it again does not help."""


class Sender:
    """Sends values, one after the other, over a connection that it makes anew where it breaks."""

    def __init__(self, address):
        self.address = address
        self._socket = self._answers = None
        self._sent = 0  # lines on this connection

    def send(self, name, value, time=None, timeout=None):
        """Sends a value, a number or a text, and returns when it is on the disk.

        time is when it was so, in seconds since 1970; without it, now. Raises Unkept; ValueError if the value cannot be a
        line; and TimeoutError after timeout seconds (None: it waits for ever): the value may be kept or not, and can be
        sent again with the same time."""
        line = _line(name, value, clock.time() if time is None else time)
        deadline = None if timeout is None else clock.monotonic() + timeout
        why = None
        while True:
            try:
                return self._try(line, deadline)
            except OSError as error:  # the connection broke, or there is none yet
                self.close()
                why = error
            if deadline is not None and clock.monotonic() + 0.1 > deadline:
                raise TimeoutError("%s has not answered in %g s: %s" % (self.address, timeout, why)) from why
            clock.sleep(0.1)

    def _try(self, line, deadline):
        if self._socket is None:
            self._socket = _connect(self.address, _left(deadline))
            self._answers, self._sent = self._socket.makefile("rb"), 0
        self._socket.settimeout(_left(deadline))
        self._socket.sendall(line)
        self._sent += 1
        unkept = None
        while True:
            self._socket.settimeout(_left(deadline))
            words = self._answers.readline(16384).decode("utf-8", "replace").split(None, 2)
            if len(words) < 2:
                raise ConnectionError("the connection ended before an answer")
            if words[0] == "unkept" and words[1] == str(self._sent):
                unkept = words[2].rstrip() if len(words) > 2 else "without a reason"
            if words[0] == "done" and int(words[1]) >= self._sent:
                break
        if unkept is not None:
            raise Unkept(unkept)

    def close(self):
        """Closes the connection. The next send makes a new one."""
        if self._socket is not None:
            self._answers.close()
            self._socket.close()
        self._socket = self._answers = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _line(name, value, time):
    if not name or name.split() != [name] or name[0] == "#":
        raise ValueError("a name has at least one character and no blanks, and does not begin with #: %r" % (name,))
    if isinstance(value, str):
        text = json.dumps(value)
    elif math.isfinite(value):
        text = repr(float(value))
    else:
        raise ValueError("%s is no finite number: send a word for what the sensor says" % (value,))
    return ("%s %s %.6f\n" % (name, text, time)).encode()


def _left(deadline):
    return None if deadline is None else max(deadline - clock.monotonic(), 0.001)


def _connect(address, timeout):
    if address.startswith("unix:"):
        s = socket.socket(socket.AF_UNIX)
        try:
            s.settimeout(timeout)
            s.connect(address[5:])
        except OSError:
            s.close()
            raise
        return s
    host, _, port = address.rpartition(":")
    return socket.create_connection((host.strip("[]"), port), timeout)
