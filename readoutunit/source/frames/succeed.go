package frames

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A front-end that dies and comes again meets its own dead connection, if Ringlet has no room to read that to its end.

const (
	// yieldMost is how long a newcomer waits until a connection that seems dead is read to its end.
	yieldMost = time.Second
	// probeMost is how long the other end of a connection has to refuse what is sent to it: a round trip on a site.
	probeMost = 100 * time.Millisecond
	yieldStep = 5 * time.Millisecond // between two looks
)

// errReplaced ends a session of which the connection is dead and the front-end has come again.
var errReplaced = errors.New("another front-end has come for this source, and the connection of the one before is " +
	"dead: what it had sent and nobody had read is missing, unless the new one sends it again")

// takeOver attaches the front-end, or returns the refusal. One that is attached and seems dead is let go of: at best
// when all that it has sent is read; after a while without that, since what is not acknowledged comes again. One that
// lives stays.
func (s *session) takeOver(h hello) *answer {
	f := s.feed
	for until := time.Now().Add(f.yield); ; {
		refusal, before := s.attach(h)
		if before == nil || !before.seemsDead() {
			return refusal
		}
		if time.Now().Before(until) && f.pause(yieldStep) {
			continue
		}
		if before.isDead() && before.endSoon() {
			refusal, _ = s.attach(h)
		}
		return refusal
	}
}

// seemsDead says that the session is to end, or that it has no room and cannot know.
func (s *session) seemsDead() bool { return s.waits.Load() || polled(s.c) != 0 }

// isDead asks the other end. A process that is gone leaves its last data to its kernel, which keeps the end behind them
// for as long as there is no room; but the kernel refuses what is sent to such a process. So an acknowledgement is sent
// once more. A front-end that has closed its own direction only takes it.
func (s *session) isDead() bool {
	wake(s.ask)
	for until := time.Now().Add(probeMost); ; {
		if polled(s.c)&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0 {
			return true
		}
		if time.Now().After(until) || !s.feed.pause(yieldStep) {
			return false
		}
	}
}

// endSoon ends a session of which the connection is dead, where it has no room to read on; false: it takes too long.
func (s *session) endSoon() bool {
	s.leave()
	t := time.NewTimer(lingerMost)
	defer t.Stop()
	select {
	case <-s.left:
		return true
	case <-t.C:
	case <-s.feed.ctx.Done():
	}
	return false
}

// polled is what the kernel knows of the end of a connection, as bits of poll(2). It knows nothing of a pipe.
func polled(c carrier) (bits int16) {
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
