package frames

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A front-end that dies and comes again meets its own dead connection, if Ringlet has no room to read that to its end.

const (
	// maxTakeoverWait is how long a newcomer waits until a connection that seems dead is read to its end.
	maxTakeoverWait = time.Second
	// probeTimeout is how long the other end of a connection has to refuse what is sent to it: a round trip on a site.
	probeTimeout = 100 * time.Millisecond
	takeoverPoll = 5 * time.Millisecond // between two looks
)

// errReplaced ends a session of which the connection is dead and the front-end has come again.
var errReplaced = errors.New("another front-end has come for this source, and the connection of the one before is " +
	"dead: what it had sent and nobody had read is missing, unless the new one sends it again")

// takeOver attaches the front-end, or returns the refusal. One that is attached and seems dead is let go of: at best
// when all that it has sent is read; after a while without that, since what is not acknowledged comes again. One that
// lives stays.
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

// seemsDead says that the session is to end, or that it has no room and cannot know.
func (s *session) seemsDead() bool { return s.storeFull.Load() || pollEvents(s.conn) != 0 }

// isDead asks the other end. A process that is gone leaves its last data to its kernel, which keeps the end behind them
// for as long as there is no room; but the kernel refuses what is sent to such a process. So an acknowledgement is sent
// once more. A front-end that has closed its own direction only takes it.
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

// tryEvict ends a session of which the connection is dead, where it has no room to read on; false: it takes too long.
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

// pollEvents is what the kernel knows of the end of a connection, as bits of poll(2). It knows nothing of a pipe.
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
	if err != nil { // Ringlet has closed it
		return unix.POLLNVAL
	}
	return bits
}
