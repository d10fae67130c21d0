package frames

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A front-end that dies and reconnects finds its own dead connection attached, if Ringlet had no room to read that
// connection to its end.

const (
	// maxTakeoverWait is how long a new connection waits until a connection that seems dead is read to its end.
	maxTakeoverWait = time.Second
	// probeTimeout is how long the peer's kernel may take to reset a connection whose process is gone: a round trip on a
	// site.
	probeTimeout = 100 * time.Millisecond
	takeoverPoll = 5 * time.Millisecond // between two checks
)

// errReplaced ends a session whose connection is dead while a front-end has come anew.
var errReplaced = errors.New("another front-end has come for this source, and the connection of the one before is " +
	"dead: fragments sent and not read are missing, unless the new one sends them again")

// takeOver attaches the front-end, or returns the refusal. If the attached front-end seems dead, it waits until all
// that the dead one had sent is read; after takeoverTimeout it gives the rest up, since the front-end sends again what
// was not acknowledged. A front-end that lives stays attached.
func (s *session) takeOver(h hello) *answer {
	f := s.feed
	for until := time.Now().Add(f.takeoverTimeout); ; {
		refusal, before := s.attach(h)
		if before == nil || !before.seemsDead() {
			return refusal
		}
		if time.Now().Before(until) && f.sleep(takeoverPoll) {
			continue
		}
		if before.isDead() && before.tryEvict() {
			refusal, _ = s.attach(h)
		}
		return refusal
	}
}

// seemsDead says that the connection shows its end, or that a full store keeps receive from seeing it.
func (s *session) seemsDead() bool { return s.storeFull.Load() || pollEvents(s.conn) != 0 }

// isDead probes the peer. The kernel of a process that is gone keeps the end of the connection after the process's
// last data for as long as Ringlet has no room for those; but it resets the connection when bytes arrive for such a
// process. So isDead sends the last acknowledgement once more. A front-end that lives and has only closed its own
// direction accepts it.
func (s *session) isDead() bool {
	wake(s.ackRepeat)
	for until := time.Now().Add(probeTimeout); ; {
		if pollEvents(s.conn)&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0 {
			return true
		}
		if time.Now().After(until) || !s.feed.sleep(takeoverPoll) {
			return false
		}
	}
}

// tryEvict ends a session whose connection is dead and which waits for room; false: the session takes too long to end.
func (s *session) tryEvict() bool {
	s.evict()
	t := time.NewTimer(lingerTimeout)
	defer t.Stop()
	select {
	case <-s.detachDone:
		return true
	case <-t.C:
	case <-s.feed.ctx.Done():
	}
	return false
}

// pollEvents returns what the kernel knows of the end of a connection, as bits of poll(2); 0 for a pipe.
func pollEvents(c frontendConn) (bits int16) {
	conn, ok := c.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := conn.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
			if n, err := unix.Poll(fds, 0); n > 0 && err == nil {
				bits = fds[0].Revents
			}
		})
	}
	if err != nil { // Ringlet has closed the connection
		return unix.POLLNVAL
	}
	return bits
}
