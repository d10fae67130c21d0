"""Send fragments to a readout unit over a stream: tcp:, unix:, or the standard output of a program (exec:).

The bytes are those of docs/format/frames.md, version 2. Python 3.8 or later; the standard library only.

    from ringlet.stream import Stream

    with Stream("tcp:localhost:9000", name="telescope") as s:
        for event in range(s.next, 1000):
            s.send(event, read_out(event))

The stream keeps fragments that are not safe. When the connection breaks, it connects again and sends those that the
readout unit does not have, so each fragment is in the run once. A program that dies and is started again within a run
begins at s.next. Fragments have no checksum: CRC-32C takes too long in Python.
"""

import collections
import hashlib
import hmac
import os
import socket
import struct
import threading
import time
import warnings

_VERSION = 2
_HELLO = struct.Struct("<4sBBHQHHI")
_OPTION = struct.Struct("<HH")
_HEAD = struct.Struct("<4sBBHQQ")  # of an answer; all that one of version 1 has
_REST = struct.Struct("<II")
_ACCEPTED, _OUTCOME, _GIVEN_UP, _END_TAKEN, _COMMAND, _PROVE, _SOURCE, _CONFIG, _BUSY = 0, 1, 7, 8, 9, 10, 11, 12, 13
_FRAME = struct.Struct("<QIBBHI")
_MARK = 0x5246
_UNCHECKED, _END, _TYPED, _TRIGGER, _STAMP, _MESSAGE = 1, 2, 4, 8, 16, 32
_WORD = struct.Struct("<Q")
_FOLLOW = 0x8004  # option: it follows the run, and cannot do without
_READY, _FAILED, _DONE, _SAY_BUSY, _SAY_FREE = 1, 2, 3, 4, 5
_COMMANDS = "prepare", "begin", "pause", "resume", "end"
_MOST = 1 << 30  # bytes of a fragment; the readout unit says how many it takes
_BATCH = 1 << 18  # bytes that are sent at once
_SENTENCE = 512  # bytes of the longest sentence of an answer
_NONCE = 24  # bytes of a front-end's
_RANGES = 256  # that are remembered of what was given up

# Seconds that close waits without a timeout: while the readout unit tells nothing new; without a readout unit; without
# one, when all is safe. And the seconds of leave.
_CLOSE, _ALONE, _SAFE, _LEAVE = 300, 60, 5, 5


class Refused(Exception):
    """The readout unit refuses this front-end; with code 10, this front-end refuses the readout unit. See
    docs/format/frames.md."""

    def __init__(self, code, sentence):
        super().__init__(sentence if code == _PROVE else "the readout unit refuses this front-end: " + sentence)
        self.code = code


class GivenUp(Exception):
    """All sent fragments have their outcome, but some are in no file of the run: ranges says which, and why.

    ranges is a list of (first event, event behind the last, fragments, reason, sentence); the reasons are those of
    docs/format/frames.md.
    """

    def __init__(self, ranges):
        n = sum(r[2] for r in ranges)
        super().__init__("%d fragments that were sent are not in the run; the first of them: %s"
                         % (n, ranges[0][4]))
        self.ranges = ranges


Command = collections.namedtuple("Command", "kind run source name config ticket connection")
Command.__doc__ = """What the run tells its front-ends: kind is prepare, begin, pause, resume or end.

run is its number, source the id of the source, name how the run calls it, perhaps nothing; config is the front-end's
part of the configuration, bytes, as the input names it by ?config=. The rest is for answer."""


class Stream:
    """A stream of fragments. One thread calls send and close; any may read next, acked and given_up.

    address  tcp:host:port, unix:path, or exec: for a program that a readout unit runs; of tcp:host1:port,host2:port
             each attempt takes the next, since a readout unit may move to another host
    source   id of the source, None: the input's
    type     type of the fragments' banks, None: 51 (TestDet)
    run      number of the run, 0: any
    name     of the front-end, for logs and for operators
    keep     bytes that are kept until they are safe
    timeout  seconds to wait for the readout unit, None: for ever; then TimeoutError
    label    how people call the source, unless the input has a name for it (?name=): letters, digits, _ and -
    secret   file with the secret that an input tcp: with ?secret=FILE asks for; None: the file that the environment
             variable RINGLET_SECRET_FILE names, or none
    follow   the run: command says what it wants, and answer must answer it; take a stream for each run
    """

    def __init__(self, address, source=None, type=None, run=0, name="", keep=64 << 20, timeout=None, secret=None,
                 label="", follow=False):
        self._address = address
        self._turn = 0  # which address of a list is next
        self._secret = _read_secret(address, secret)
        self._options = b""
        for kind, text in ((1, name), (2, label)):
            word = text.encode()[:64].decode(errors="ignore").encode()  # whole characters
            self._options += _OPTION.pack(kind, len(word)) + word if word else b""
        if follow:
            self._options += _OPTION.pack(_FOLLOW, 0)
        self._commands, self._source, self._connections = collections.deque(maxlen=64), (0, ""), 0
        self._config = b""
        self._busy, self._hears = 0, False  # why the readout unit is busy; it says so, and wants to hear it
        self._own, self._said, self._word = False, False, None  # this front-end is busy; so says the last word, a batch
        self._says = (255 if type is None else type, 0xFFFF if source is None else source, run)
        self._most = keep
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)  # a fragment has its outcome, or the stream has failed
        self._filled = threading.Condition(self._lock)  # there are bytes to send, or the connection is broken
        self._parts, self._size = [], 0  # fragments that are not in a batch yet
        # batches (last event, bytes, data) that are not safe: a large fragment's data are its own, and not copied
        self._kept = collections.deque()
        self._unsent = collections.deque()  # those of them that are not sent yet
        self._bytes = 0  # of all
        self._first = None  # first event that was sent
        self._last = 0  # one above the last event that was sent
        self._behind = 0  # one above the last event that is kept, or the end
        self._largest = 65535
        self._idle = False  # the sender waits
        self._closed = False
        self._leaving = False  # the sender ends when all is sent
        self._left = False  # all was sent, and the readout unit has read it
        self._broken = False
        self._error = None
        self._conn = None
        self._alone = None  # time since which there is no connection
        self._heard = 0.0  # time of the last news from Ringlet
        self._end = None  # end of the run that Ringlet has taken
        self._told_end = False  # this connection has told the end of the run
        self._number = 0  # of the run
        self._given = []  # ranges given up in this run
        self._before = []  # ranges given up in other runs
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
            lost = self.leave()
            if lost:
                warnings.warn("the stream is left because of %s: %s" % (kind.__name__, lost), RuntimeWarning,
                              stacklevel=2)

    @property
    def largest(self):
        """Bytes of the largest fragment that Ringlet takes."""
        return self._largest

    @property
    def given_up(self):
        """The fragments of this stream that Ringlet has given up so far: a list like GivenUp.ranges."""
        with self._lock:
            return [r for r in self._before + self._given
                    if self._first is not None and r[0] < self._last and r[1] > self._first]

    def send(self, event, data, type=None, timeout=None, trigger=None, stamp=None):
        """Send the fragment of an event, or keep it until there is a connection. It has at most largest bytes: 65,535, or as
        many as ?max= behind the address of the input says.

        Event numbers must grow, and begin at next or above. send waits while fragments that are not safe fill the memory;
        after timeout seconds it raises TimeoutError. Any other error says that the stream cannot go on.

        trigger  number of the trigger, 64 bits: with ?number=trigger behind the address of the input, events are matched
                 by it
        stamp    time of the fragment, ns since 1970, UTC
        """
        n = len(data)
        if n > self._largest:
            raise ValueError("the fragment of event %d has %d bytes, and %d are the most: put ?max=%d or more behind the "
                             "address of the input, and keep three times as much" % (event, n, self._largest, n))
        if not 0 <= event < (1 << 64) - 1:
            raise ValueError("an event's number is from 0 to 2^64-2")
        if event < self._last:
            raise ValueError("event %d comes behind event %d: event numbers must grow" % (event, self._last - 1))
        if event < self.next:
            raise ValueError("event %d is not sent: Ringlet has taken the events below %d of this run already. Begin "
                             "at next, or begin a new run to number anew" % (event, self.next))
        flags, words = _UNCHECKED, b""
        if type is not None:
            flags |= _TYPED
        if trigger is not None:
            flags, words = flags | _TRIGGER, _WORD.pack(trigger)
        if stamp is not None:
            flags, words = flags | _STAMP, words + _WORD.pack(stamp)
        self._put(event, _FRAME.pack(event, n, flags, type or 0, _MARK, 0) + words, bytes(data), timeout)
        if self._first is None:
            self._first = event
        self._last = event + 1

    def command(self, timeout=None):
        """Wait for the next command of the run, in a stream with follow; after timeout seconds raise TimeoutError.

        After a break of the connection it is prepare again, with the number of the run.
        """
        until = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            while not self._commands:
                if self._closed:
                    raise ValueError("the stream is closed")
                self._wait(until, "the run has told nothing new")
            return self._commands.popleft()

    def answer(self, command, failed=None):
        """Answer a command: the front-end is where it leads, or failed says why it cannot go there. It does not wait."""
        why = b"" if failed is None else str(failed).encode()[:_SENTENCE]
        kind = _FAILED if failed is not None else _DONE if command.kind == "end" else _READY
        frame = _FRAME.pack(command.ticket, len(why), _UNCHECKED | _MESSAGE, kind, _MARK, 0) + why
        with self._lock:
            if command.connection != self._connections:
                return  # the connection is another one: the readout unit asks again
            self._seal()
            self._unsent.append((0, frame, b""))  # behind all fragments so far, and not kept
            self._idle = False
            self._filled.notify()

    @property
    def busy(self):
        """Why the readout unit is busy, in a stream with follow: 1 builder units do not take what it has, 2 memory of a
        source is nearly full, 4 a front-end says that it is busy; their sum. 0: it is free, or there is no connection."""
        return self._busy

    def wait_free(self, timeout=None):
        """Wait until the readout unit is free, in a stream with follow; after timeout seconds raise TimeoutError."""
        until = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            while self._busy:
                if self._closed:
                    raise ValueError("the stream is closed")
                self._wait(until, "the readout unit is busy still")

    def set_busy(self, busy=True):
        """Say whether this front-end is busy, in a stream with follow: then its readout unit is, too, and says so to whoever
        throttles the trigger. The word follows what was sent before, and is said again after a break. It does not wait."""
        with self._lock:
            self._own = bool(busy)
            self._say()

    def _say(self):
        """Say whether this front-end is busy, if the readout unit wants to hear it and has not, with the lock held."""
        if self._word is not None and self._unsent and self._unsent[-1] is self._word:
            self._unsent.pop()  # it is not sent yet, and no longer true
            self._word, self._said = None, not self._said
        if self._hears and self._own != self._said:
            kind = _SAY_BUSY if self._own else _SAY_FREE
            self._seal()
            self._word, self._said = (0, _FRAME.pack(0, 0, _UNCHECKED | _MESSAGE, kind, _MARK, 0), b""), self._own
            self._unsent.append(self._word)
            self._idle = False
            self._filled.notify()

    def close(self, timeout=None):
        """Declare the end of the run behind the last event; wait until Ringlet has taken it, and all has its outcome.

        It returns if all events are safe, and raises GivenUp if some are in no file of the run. After timeout seconds
        it raises TimeoutError, which says what may be lost. Without a timeout it raises it when the readout unit has told
        nothing new for 5 minutes, or when there is no readout unit for one minute (5 seconds, if all is safe).
        """
        until = None if timeout is None else time.monotonic() + timeout
        self._heard = time.monotonic()
        try:
            end = max(self._last, self.next)
            header = _FRAME.pack(end, 0, _UNCHECKED | _END, 0, _MARK, 0)
            with self._lock:
                self._await(end, until, lambda: self._bytes == 0 or self._bytes + len(header) <= self._most)
            self._put(end, header, b"", 0)
            with self._lock:
                self._await(end, until, lambda: (self._end == end or self._told_end and self._alone is not None)
                            and self._lacks() is None)  # of a run that has ended and is gone, nobody takes an end
        finally:
            self.abort()
        if self.given_up:
            raise GivenUp(self.given_up)

    def _await(self, end, until, done):
        """Wait until done() is true, with the lock held. After the time, the error says what may be lost."""
        while not done():
            lacks = self._lacks()
            if lacks is None:
                sentence = ("the run ends at event %d, and the end is not known to be taken; all events below %d are "
                            "safe" % (end, self.acked))
            else:
                sentence = "the run ends at event %d, and events from %d on are not known to be safe" % (end, lacks)
            limit = until
            if self._alone is not None:
                sentence = "there is no readout unit at %s: %s" % (self._address, sentence)
                if until is None:
                    limit = self._alone + (_SAFE if lacks is None else _ALONE)
            elif until is None:
                limit = self._heard + _CLOSE
            self._wait(limit, sentence)

    def _lacks(self):
        """The first event that is kept and has no outcome, with the lock held; None if there is none."""
        at = self.acked
        for first, behind, n, _, _ in sorted(self._given):
            event = self._kept_from(at)
            if event is None or event < first:
                return event
            if behind - first == n:
                at = max(at, behind)
        return self._kept_from(at)

    def _kept_from(self, event):
        """The first fragment that is kept of an event from one on, with the lock held."""
        for last, data, _ in [*self._kept, (self._behind, b"".join(self._parts), b"")]:
            at = 0
            while last > event and at < len(data):
                number, size, flags, _, _, _ = _FRAME.unpack_from(data, at)
                if number >= event and not flags & _END:
                    return number
                at += _bytes_of(size, flags)
        return None

    def leave(self, timeout=_LEAVE):
        """Close the stream without declaring the end of the run: for a program that ends before the run does.

        It waits until the readout unit has all sent fragments, for timeout seconds at most. It returns a sentence that
        says how many may be lost, or None.
        """
        with self._lock:
            self._leaving = True
            self._filled.notify()
        self._sender.join(timeout)
        with self._lock:
            lacks = None if self._left else self._lacks()
        self.abort()
        if lacks is None:
            return None
        why = "" if self._error is None else ": %s" % self._error
        return "events %d to %d were accepted and may be lost%s" % (lacks, self._last - 1, why)

    def abort(self):
        """Close the stream at once, without declaring the end of the run. Fragments that are not safe may be lost."""
        with self._lock:
            self._closed = True
            self._changed.notify_all()
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
            self._bytes += size
            if size >= _BATCH:
                self._seal()
                self._behind = event + 1
                self._add(header, data)
            else:
                self._parts += header, data
                self._size += size
                self._behind = event + 1
                if self._size >= _BATCH:
                    self._seal()
            if self._idle:
                self._idle = False
                self._filled.notify()

    def _wait(self, until, sentence):
        """Wait for a change, with the lock held. The caller checks its condition before it takes an error."""
        if self._error is not None:
            raise self._error
        left = None if until is None else until - time.monotonic()
        if left is not None and left <= 0 or not self._changed.wait(left):
            raise TimeoutError(sentence)

    def _seal(self):
        """Make a batch of the fragments in _parts, with the lock held."""
        if self._parts:
            self._add(b"".join(self._parts), b"")
            self._parts, self._size = [], 0

    def _add(self, frames, data):
        batch = (self._behind, frames, data)
        self._kept.append(batch)
        self._unsent.append(batch)

    def _rest(self, event):
        """The kept batches with events from event on, with the lock held: those that a new run needs."""
        rest = collections.deque(b for b in self._kept if b[0] > event)
        if rest:
            last, data, large = rest.popleft()
            at = 0
            while at < len(data):
                number, size, flags, _, _, _ = _FRAME.unpack_from(data, at)
                if number >= event:
                    break
                at += _bytes_of(size, flags)
            rest.appendleft((last, data[at:], large))
        return rest

    def _run(self, conn):
        """Send until the stream is closed or fails."""
        try:
            while conn is not None:
                self._converse(conn)
                with self._lock:
                    self._alone = time.monotonic()
                    self._busy = 0
                    self._changed.notify_all()
                if self._closed or self._left or self._error is not None:
                    return
                if self._address == "exec:":
                    raise ConnectionError("the readout unit is gone")
                conn = self._connect(None)
        except Exception as error:  # send and close raise it
            self._fail(error)

    def _fail(self, error):
        with self._lock:
            if self._error is None:
                self._error = error
            self._changed.notify_all()
            self._filled.notify()

    def _converse(self, conn):
        """Send batches, while another thread reads answers, until the connection breaks."""
        listener = threading.Thread(target=self._listen, args=(conn,), name="ringlet answers", daemon=True)
        listener.start()
        try:
            while True:
                with self._lock:
                    while not (self._unsent or self._parts or self._broken or self._closed or self._leaving):
                        self._idle = True
                        self._filled.wait()
                    self._idle = False
                    if self._broken or self._closed:
                        return
                    if not self._unsent:
                        self._seal()
                    batch = self._unsent.popleft() if self._unsent else None
                if batch is None:  # the stream is left; the readout unit closes when it has read all
                    conn.finish()
                    listener.join(timeout=_LEAVE)
                    with self._lock:
                        self._left = self._broken and not self._closed and self._error is None
                    return
                conn.sendall(batch[1])
                conn.sendall(batch[2])
        except OSError:
            conn.patience(1)  # the last answer may say why
            listener.join(timeout=2)
        finally:
            conn.close()
            listener.join(timeout=2)

    def _listen(self, conn):
        """Read answers until the connection breaks."""
        try:
            while True:
                code, a, b, c, d, sentence = _answer(conn)
                with self._lock:
                    if code != _OUTCOME or a > self.acked:
                        self._heard = time.monotonic()
                    if code == _OUTCOME:
                        self.acked = max(self.acked, a)
                        while self._kept and self._kept[0][0] <= self.acked:
                            batch = self._kept.popleft()
                            self._bytes -= len(batch[1]) + len(batch[2])
                    elif code == _GIVEN_UP and a < b:
                        _note(self._given, (a, b, d, c, sentence))
                    elif code == _END_TAKEN:
                        self._end = a
                    elif code == _SOURCE:
                        self._source, self._config = (a, sentence.partition("\n")[0]), b""
                    elif code == _CONFIG:
                        self._config += sentence.encode(errors="surrogateescape")
                    elif code == _BUSY:
                        self._busy, self._hears = a, True
                        self._say()
                    elif code == _COMMAND and 0 < c <= len(_COMMANDS):
                        self._told_end = self._told_end or _COMMANDS[c - 1] == "end"
                        self._commands.append(Command(_COMMANDS[c - 1], b, *self._source, self._config, a,
                                                      self._connections))
                    self._changed.notify_all()
        except Refused as error:
            self._fail(error)
        except OSError:
            pass
        with self._lock:
            self._broken = True
            self._filled.notify()

    def _connect(self, until):
        """Try to connect until the readout unit accepts; None when the stream is closed."""
        pause, why = 0.02, None
        while not self._closed:
            conn = None
            try:
                conn = _open(self._address, self._turn)
                answer = self._greet(conn)
                if answer[0] != _ACCEPTED:
                    raise ConnectionError("the first answer has the code %d" % answer[0])
                conn.patience(None)
                self._accepted(conn, *answer[1:5])
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
            self._turn += 1
            if until is not None and time.monotonic() + pause > until:
                raise TimeoutError("no stream to %s: %s" % (self._address, why))
            time.sleep(pause)
            pause = min(2 * pause, 1)
        return None

    def _greet(self, conn):
        """Send the hello; with a secret, check the readout unit's proof and send this front-end's. Returns the last
        answer."""
        options = self._options
        if self._secret is not None:
            options += _OPTION.pack(3, _NONCE) + os.urandom(_NONCE)
        hello = _HELLO.pack(b"RLFH", _VERSION, *self._says, len(options), 0, 0) + options
        conn.sendall(hello)
        answer = _answer(conn)
        if self._secret is None:
            return answer
        if answer[0] != _PROVE:
            raise Refused(_PROVE, "the readout unit asks for no secret, and this front-end has one, which proves who that "
                                  "is: put ?secret=FILE behind the address of the input, or leave it out here")
        text = struct.pack("<QQII", *answer[1:5]) + hello
        own = hmac.new(self._secret, b"RLFS" + text, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(own.encode(), answer[5].encode()):
            raise Refused(_PROVE, "the readout unit does not prove that it has the secret of this front-end: give both "
                                  "the same file, and look who listens at the address")
        conn.sendall(b"RLFP" + hmac.new(self._secret, b"RLFP" + text, hashlib.sha256).digest())
        return _answer(conn)

    def _accepted(self, conn, event, number, window, largest):
        with self._lock:
            if number == 0 or number != self._number:  # fragments without an outcome are sent in the new run
                for first, behind, n, reason, sentence in self._given:
                    behind = min(behind, self.acked)
                    if first < behind:
                        _note(self._before, (first, behind, min(n, behind - first), reason, sentence))
            self._given = []  # the readout unit sends them again
            self._number, self._end = number, None
            self._commands.clear()
            self._told_end = False
            self._connections += 1
            self._busy, self._hears, self._said, self._word = 0, False, False, None
            # The readout unit may wait with a fragment for the two behind it, to see whether its number is right.
            self._largest = min(largest, _MOST, max(65535, self._most // 3 - 36))
            self.next = event
            self._broken = False
            self._alone = None
            self._heard = time.monotonic()
            self._conn = conn
            self._unsent = self._rest(max(event, self.acked))
            self._changed.notify_all()
            if self._closed:
                conn.close()


def _bytes_of(size, flags):
    """The size of a frame with size bytes of data."""
    return _FRAME.size + size + (8 if flags & _TRIGGER else 0) + (8 if flags & _STAMP else 0)


def _read_secret(address, name):
    """The secret of a stream over TCP: the content of its file without line ends behind it; None if it has none."""
    name = name or os.environ.get("RINGLET_SECRET_FILE")
    if not name or not address.startswith("tcp:"):
        return None
    with open(name, "rb") as file:
        secret = file.read(259).rstrip(b"\r\n")
    if not 16 <= len(secret) <= 256:
        raise ValueError("%s holds no secret of 16 to 256 bytes: give the file that the input has" % name)
    return secret


def _note(ranges, new):
    """Record a range that was given up. The number of ranges is bounded: the last one absorbs further ones."""
    if ranges:
        first, behind, n, reason, sentence = ranges[-1]
        touches = behind == new[0] and reason == new[3]
        if touches or len(ranges) >= _RANGES:
            first, behind, n = min(first, new[0]), max(behind, new[1]), n + new[2]
            ranges[-1] = (first, behind, n, reason if reason == new[3] else 0,
                          ("%d fragments of events %d to %d: %s" % (n, first, behind - 1, new[4]))[:_SENTENCE])
            return
    ranges.append(new)


def _answer(conn):
    """Read an answer: code, a, b, c, d and sentence, as in the document. A refusal is raised."""
    head = conn.read(_HEAD.size)
    magic, version, code, length, a, b = _HEAD.unpack(head)
    if magic != b"RLFA" or version not in (1, _VERSION):
        raise Refused(2, "it answers with %r, which is no answer of version %d" % (head[:5], _VERSION))
    if length > _SENTENCE:
        raise Refused(6, "it answers with a sentence of %d bytes: %d are the most" % (length, _SENTENCE))
    c, d = _REST.unpack(conn.read(_REST.size)) if version == _VERSION else (0, 0)
    sentence = conn.read(length).decode(errors="surrogateescape" if code == _CONFIG else "replace") if length else ""
    if _OUTCOME < code < _GIVEN_UP:
        raise Refused(code, sentence)
    if version == 1:
        raise Refused(2, "it speaks version 1 of the format alone: it is of an older release than this client")
    return code, a, b, c, d, sentence


def _open(address, turn):
    kind, _, at = address.partition(":")
    if kind == "exec":
        return _Pipes()
    if kind == "tcp":
        several = at.split(",")
        host, _, port = several[turn % len(several)].rpartition(":")
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

    def finish(self):
        self._s.shutdown(socket.SHUT_WR)

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
            self._s.shutdown(socket.SHUT_RDWR)  # wakes the reading thread
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

    def finish(self):
        with self._lock:  # two threads may close
            out, self._out = self._out, -1
        if out >= 0:
            os.close(out)

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
        self.finish()
