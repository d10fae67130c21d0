"""Send fragments to a readout unit over a stream: tcp:, unix:, or the standard output of a program (exec:).

The bytes are those of docs/format/frames.md. Python 3.8 or later; the standard library only.

    from ringlet.stream import Stream

    with Stream("tcp:localhost:9000", name="telescope") as s:
        for event in range(s.next, 1000):
            s.send(event, read_out(event))

The stream keeps what is not safe. When the connection breaks, it connects again and sends what is not there, so each
fragment is in the run once. A program that dies and comes back within a run begins at s.next. Fragments have no
checksum of their own: CRC-32C takes too long in Python.
"""

import collections
import os
import socket
import struct
import threading
import time

_HELLO = struct.Struct("<4sBBHQQ")
_ANSWER = struct.Struct("<4sBBHQII")
_FRAME = struct.Struct("<QIBBHI")
_MARK = 0x5246
_UNCHECKED, _END, _TYPED = 1, 2, 4
_MOST = 65535  # bytes of a fragment
_BATCH = 1 << 18  # bytes that are sent at once


class Refused(Exception):
    """The readout unit refuses this front-end: code as in docs/format/frames.md, and why."""

    def __init__(self, code, sentence):
        super().__init__("the readout unit refuses this front-end: " + sentence)
        self.code = code


class Stream:
    """A stream of fragments. One thread calls send and close; any may read next and acked.

    address  tcp:host:port, unix:path, or exec: for a program that a readout unit runs
    source   id of the source, None: whichever the input has
    type     type of the fragments' banks, None: 51 (TestDet)
    run      number of the run, 0: any
    name     of the front-end, for logs
    keep     bytes that are kept until they are safe
    timeout  seconds to wait for the readout unit, None: for ever; then TimeoutError
    """

    def __init__(self, address, source=None, type=None, run=0, name="", keep=64 << 20, timeout=None):
        self._address = address
        label = name.encode()[:64]
        self._hello = _HELLO.pack(b"RLFH", 1, 255 if type is None else type, 0xFFFF if source is None else source, run,
                                  len(label)) + label
        self._most = keep
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)  # something is safe, or the stream has failed
        self._filled = threading.Condition(self._lock)  # something is to be sent, or the connection is broken
        self._parts, self._size, self._first = [], 0, 0  # fragments that are not in a batch yet
        self._kept = collections.deque()  # batches (last event, bytes) that are not safe
        self._unsent = collections.deque()  # those of them that are to be sent
        self._bytes = 0  # of all
        self._last = 0  # one above the last event
        self._idle = False  # the sender waits
        self._closed = False
        self._broken = False
        self._error = None
        self._conn = None
        self.next = 0
        self.acked = 0
        conn = self._connect(None if timeout is None else time.monotonic() + timeout)
        self._sender = threading.Thread(target=self._run, args=(conn,), name="ringlet stream", daemon=True)
        self._sender.start()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.close()
        else:
            self.abort()

    def send(self, event, data, type=None, timeout=None):
        """Send the fragment of an event, at most 65,535 bytes, or keep it until there is a connection.

        Event numbers must grow. send waits while all memory has fragments that are not safe; after timeout seconds it
        raises TimeoutError. Any other error says that the stream cannot go on.
        """
        n = len(data)
        if n > _MOST:
            raise ValueError("the fragment of event %d has %d bytes: %d are the most" % (event, n, _MOST))
        if not self._last <= event < (1 << 64) - 1:
            raise ValueError("event %d comes behind event %d: event numbers must grow" % (event, self._last - 1))
        if type is None:
            self._put(event, _FRAME.pack(event, n, _UNCHECKED, 0, _MARK, 0), bytes(data), timeout)
        else:
            self._put(event, _FRAME.pack(event, n, _UNCHECKED | _TYPED, type, _MARK, 0), bytes(data), timeout)

    def close(self, timeout=None):
        """Declare the end of the run behind the last event, and wait until all events are safe.

        After timeout seconds it raises TimeoutError: what is not below acked may be lost.
        """
        end = max(self._last, self.next)
        until = None if timeout is None else time.monotonic() + timeout
        try:
            self._put(end, _FRAME.pack(end, 0, _UNCHECKED | _END, 0, _MARK, 0), b"", timeout)
            with self._lock:
                while self.acked < end:
                    self._wait(until, "the run ends at event %d, and events from %d on are not known to be safe"
                               % (end, self.acked))
        finally:
            self.abort()

    def abort(self):
        """Close the stream without declaring the end of the run. What is not safe may be lost."""
        with self._lock:
            self._closed = True
            self._filled.notify()
            if self._conn is not None:
                self._conn.close()
        if self._sender is not threading.current_thread():
            self._sender.join(timeout=5)

    def _put(self, event, header, data, timeout):
        size = len(header) + len(data)
        with self._lock:
            if self._error is not None:
                raise self._error
            if self._bytes + size > self._most:
                until = None if timeout is None else time.monotonic() + timeout
                while self._bytes and self._bytes + size > self._most:
                    self._wait(until, "event %d was not sent, since nothing that was sent is safe yet" % event)
            self._parts += header, data
            self._size += size
            self._bytes += size
            self._last = event + 1
            if self._size >= _BATCH:
                self._seal()
            if self._idle:
                self._idle = False
                self._filled.notify()

    def _wait(self, until, sentence):
        """Wait for a change, with the lock held. The caller looks first whether it came before an error."""
        if self._error is not None:
            raise self._error
        left = None if until is None else until - time.monotonic()
        if left is not None and left <= 0 or not self._changed.wait(left):
            raise TimeoutError(sentence)

    def _seal(self):
        """Make a batch of what was put, with the lock held."""
        if self._parts:
            batch = (self._last, b"".join(self._parts))
            self._kept.append(batch)
            self._unsent.append(batch)
            self._parts, self._size = [], 0

    def _rest(self, event):
        """What is kept of events from one on, with the lock held. A new run has nothing, and wants no more than this."""
        rest = collections.deque(b for b in self._kept if b[0] > event)
        if rest:
            last, data = rest.popleft()
            at = 0
            while at < len(data):
                number, size, _, _, _, _ = _FRAME.unpack_from(data, at)
                if number >= event:
                    break
                at += _FRAME.size + size
            rest.appendleft((last, data[at:]))
        return rest

    def _run(self, conn):
        """Send until the stream is closed or fails."""
        try:
            while conn is not None:
                self._converse(conn)
                if self._closed or self._error is not None:
                    return
                if self._address == "exec:":
                    raise ConnectionError("the readout unit is gone")
                conn = self._connect(None)
        except Exception as error:  # told to whoever sends
            self._fail(error)

    def _fail(self, error):
        with self._lock:
            if self._error is None:
                self._error = error
            self._changed.notify_all()
            self._filled.notify()

    def _converse(self, conn):
        """Send what is there, while another thread takes acknowledgements, until the connection breaks."""
        listener = threading.Thread(target=self._listen, args=(conn,), name="ringlet answers", daemon=True)
        listener.start()
        try:
            while True:
                with self._lock:
                    while not self._unsent and not self._parts and not self._broken and not self._closed:
                        self._idle = True
                        self._filled.wait()
                    self._idle = False
                    if self._broken or self._closed:
                        return
                    if not self._unsent:
                        self._seal()
                    batch = self._unsent.popleft()
                conn.sendall(batch[1])
        except OSError:
            conn.patience(1)  # the last answer may say why
            listener.join(timeout=2)
        finally:
            conn.close()
            listener.join(timeout=2)

    def _listen(self, conn):
        """Take acknowledgements until the connection breaks."""
        try:
            while True:
                code, event = _answer(conn)
                if code != 1:
                    break
                with self._lock:
                    self.acked = max(self.acked, event)
                    while self._kept and self._kept[0][0] <= self.acked:
                        batch = self._kept.popleft()
                        self._bytes -= len(batch[1])
                    self._changed.notify_all()
        except Refused as error:
            self._fail(error)
        except OSError:
            pass
        with self._lock:
            self._broken = True
            self._filled.notify()

    def _connect(self, until):
        """Connect until it is accepted; None when the stream is closed."""
        pause, why = 0.02, None
        while not self._closed:
            conn = None
            try:
                conn = _open(self._address)
                conn.sendall(self._hello)
                code, event = _answer(conn)
                if code != 0:
                    raise ConnectionError("the first answer has the code %d" % code)
                conn.patience(None)
                with self._lock:
                    self.next = event
                    self._broken = False
                    self._conn = conn
                    self._unsent = self._rest(max(event, self.acked))
                return conn
            except Refused as error:
                conn.close()
                if error.code != 5:
                    raise
                why = error
            except OSError as error:
                if conn is not None:
                    conn.close()
                if self._address == "exec:":
                    raise
                why = error
            if until is not None and time.monotonic() + pause > until:
                raise TimeoutError("no stream to %s: %s" % (self._address, why))
            time.sleep(pause)
            pause = min(2 * pause, 1)
        return None


def _answer(conn):
    """Read an answer: its code, and its event number. A refusal is raised."""
    head = conn.read(_ANSWER.size)
    magic, version, code, length, event, _, _ = _ANSWER.unpack(head)
    if magic != b"RLFA" or version != 1:
        raise Refused(2, "it answers with %r, which is no answer of version 1" % head[:5])
    sentence = conn.read(length) if length else b""
    if code > 1:
        raise Refused(code, sentence.decode(errors="replace"))
    return code, event


def _open(address):
    kind, _, at = address.partition(":")
    if kind == "exec":
        return _Pipes()
    if kind == "tcp":
        host, _, port = at.rpartition(":")
        return _Socket(socket.create_connection((host.strip("[]"), int(port)), timeout=5))
    if kind == "unix":
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(5)
        try:
            s.connect(at)
        except OSError:
            s.close()
            raise
        return _Socket(s)
    raise ValueError("a stream cannot go to %r: give tcp:host:port, unix:path or exec:" % address)


class _Socket:
    def __init__(self, s):
        self._s = s
        self._s.settimeout(10)

    def patience(self, seconds):
        self._s.settimeout(seconds)

    def sendall(self, b):
        self._s.sendall(b)

    def read(self, n):
        got = b""
        while len(got) < n:
            more = self._s.recv(n - len(got))
            if not more:
                raise ConnectionError("the readout unit has closed the connection")
            got += more
        return got

    def close(self):
        try:
            self._s.shutdown(socket.SHUT_RDWR)  # wakes whoever reads
        except OSError:
            pass
        self._s.close()


class _Pipes:
    """Standard output and input. What the program prints from now on is in the log of the readout unit."""

    def __init__(self):
        self._lock = threading.Lock()
        self._out = os.dup(1)
        os.dup2(2, 1)

    def patience(self, seconds):
        pass

    def sendall(self, b):
        view = memoryview(b)
        while view:
            view = view[os.write(self._out, view):]

    def read(self, n):
        got = b""
        while len(got) < n:
            more = os.read(0, n - len(got))
            if not more:
                raise ConnectionError("the readout unit has closed the connection")
            got += more
        return got

    def close(self):
        with self._lock:  # two threads may close
            out, self._out = self._out, -1
        if out >= 0:
            os.close(out)
