package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"ringlet/internal/schedule"
)

// Sources of triggers: software, a rate, or an external line.
const (
	bySoftware = "software"
	byRate     = "rate"
	byLine     = "unix:" // and the path of a socket
)

// triggerSource triggers an engine. One goroutine uses it.
type triggerSource interface {
	// begin is called before each measurement.
	begin()
	// awaitTrigger waits for a trigger and takes it; false: the measurement is over.
	awaitTrigger(ctx context.Context, over *atomic.Bool) bool
	// takeDue takes a trigger if one has come; running says that transfers are under way.
	takeDue(running bool) bool
	// lostTriggers counts the triggers that the generator dropped, since the engine took none for long.
	lostTriggers() uint64
	// close returns how many triggers had come that the engine did not take.
	close() (remaining uint64, err error)
}

// openTrigger makes a source of triggers. For a line it makes the socket, whose path must not exist.
func openTrigger(how string, rate float64) (triggerSource, error) {
	switch path, line := strings.CutPrefix(how, byLine); {
	case line:
		return openLine(path)
	case how == byRate:
		return &rateTrigger{rate: rate}, nil
	default:
		return softwareTrigger{}, nil
	}
}

// softwareTrigger is a program that triggers the engine again whenever the engine is idle.
type softwareTrigger struct{}

func (softwareTrigger) begin() {}
func (softwareTrigger) awaitTrigger(ctx context.Context, over *atomic.Bool) bool {
	return ctx.Err() == nil && !over.Load()
}
func (softwareTrigger) takeDue(running bool) bool { return !running }
func (softwareTrigger) lostTriggers() uint64      { return 0 }
func (softwareTrigger) close() (uint64, error)    { return 0, nil }

// rateBacklog is how late a trigger may be until the generator drops it, as for a source with a rate.
const rateBacklog = 100 * time.Millisecond

// rateTrigger is a generator of programmable frequency. It waits while the engine is busy.
type rateTrigger struct {
	rate     float64
	pace     *schedule.Pacer
	lostTime time.Duration // time that the generator could not make up for
}

func (r *rateTrigger) begin() { r.pace, r.lostTime = schedule.NewPacer(r.rate, rateBacklog), 0 }

func (r *rateTrigger) awaitTrigger(ctx context.Context, over *atomic.Bool) bool {
	gone, due := awaitDue(ctx, r.pace, over)
	r.lostTime += gone
	if due {
		r.pace.Advance(1)
	}
	return due
}

func (r *rateTrigger) takeDue(bool) bool {
	wait, gone := r.pace.NextWait(time.Now())
	r.lostTime += gone
	if wait > 0 {
		return false
	}
	r.pace.Advance(1)
	return true
}

func (r *rateTrigger) lostTriggers() uint64   { return uint64(r.lostTime.Seconds() * r.rate) }
func (r *rateTrigger) close() (uint64, error) { return 0, nil }

// lineTrigger takes triggers from a socket: each datagram is a trigger. If the engine takes none, the kernel's queue
// fills and the sender blocks, which stands for the document's busy line.
type lineTrigger struct {
	path         string
	conn         *net.UnixConn
	triggered    chan struct{} // of capacity 1
	end          chan struct{}
	heldTriggers uint64 // datagrams that listen had read but not handed over at the end
	read         errgroup.Group
}

func openLine(path string) (*lineTrigger, error) {
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("bench: cannot make the socket %s: %w: give a path where there is no file yet", path, err)
	}
	l := &lineTrigger{
		path:      path,
		conn:      conn,
		triggered: make(chan struct{}, 1),
		end:       make(chan struct{}),
	}
	l.read.Go(l.listen)
	return l, nil
}

func (l *lineTrigger) begin() {} // earlier triggers are kept

func (l *lineTrigger) listen() error {
	var b [1]byte
	for {
		if _, err := l.conn.Read(b[:]); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) { // close set it
				return nil
			}
			return fmt.Errorf("bench: cannot read triggers from the socket %s: %w", l.path, err)
		}
		select {
		case l.triggered <- struct{}{}:
		case <-l.end:
			l.heldTriggers = 1
			return nil
		}
	}
}

func (l *lineTrigger) awaitTrigger(ctx context.Context, over *atomic.Bool) bool {
	look := time.NewTicker(maxNap)
	defer look.Stop()
	for !over.Load() {
		select {
		case <-l.triggered:
			return true
		case <-ctx.Done():
			return false
		case <-look.C:
		}
	}
	return false
}

func (l *lineTrigger) takeDue(bool) bool {
	select {
	case <-l.triggered:
		return true
	default:
		return false
	}
}

func (l *lineTrigger) lostTriggers() uint64 { return 0 }

// close counts the triggers still in the socket: those that listen has read, and those in the kernel's queue.
func (l *lineTrigger) close() (remaining uint64, err error) {
	close(l.end)
	err = errors.Join(l.conn.SetReadDeadline(time.Now()), l.read.Wait(), l.conn.SetReadDeadline(time.Time{}))
	queued, e := l.drainQueue()
	return l.heldTriggers + uint64(len(l.triggered)) + queued, errors.Join(err, e, l.conn.Close(), os.Remove(l.path))
}

// maxQueued ends the count if a program goes on sending. No queue of the kernel is that long.
const maxQueued = 1 << 16

// drainQueue empties the kernel's queue without waiting, and counts.
func (l *lineTrigger) drainQueue() (n uint64, err error) {
	raw, err := l.conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var b [1]byte
	err = raw.Control(func(fd uintptr) {
		for n < maxQueued {
			switch _, _, e := unix.Recvfrom(int(fd), b[:], unix.MSG_DONTWAIT); e {
			case nil:
				n++
			case unix.EINTR:
			default: // the queue is empty
				return
			}
		}
	})
	return n, err
}
