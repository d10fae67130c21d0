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

// What triggers an engine: software, a rate, or an external line.
const (
	bySoftware = "software"
	byRate     = "rate"
	byLine     = "unix:" // and the path of a socket
)

// triggerSource tell an engine to begin. One goroutine uses it.
type triggerSource interface {
	// begin is called before each measurement.
	begin()
	// awaitTrigger waits for one, and takes it; false: it is over before.
	awaitTrigger(ctx context.Context, over *atomic.Bool) bool
	// takeDue takes one that has come; running says that transfers are under way.
	takeDue(running bool) bool
	// lostTriggers counts those that the generator could not place, since the engine took none for long.
	lostTriggers() uint64
	// close tells how many had come that nobody took.
	close() (remaining uint64, err error)
}

// openTrigger makes one. A line has its socket made, which must not be there before.
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

// softwareTrigger is a program that triggers the engine, waits until that is idle, and triggers it again.
type softwareTrigger struct{}

func (softwareTrigger) begin() {}
func (softwareTrigger) awaitTrigger(ctx context.Context, over *atomic.Bool) bool {
	return ctx.Err() == nil && !over.Load()
}
func (softwareTrigger) takeDue(running bool) bool { return !running }
func (softwareTrigger) lostTriggers() uint64      { return 0 }
func (softwareTrigger) close() (uint64, error)    { return 0, nil }

// rateBacklog is what a generator makes up for, as a source that is held to a rate does.
const rateBacklog = 100 * time.Millisecond

// rateTrigger is a generator of programmable frequency. It waits while the engine is busy.
type rateTrigger struct {
	rate     float64
	pace     *schedule.Pacer
	lostTime time.Duration // that it could not make up for
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

// lineTrigger is a socket: each datagram that comes is a trigger. Where the engine takes none the kernel's queue fills,
// and whoever sends there waits: that is the busy line.
type lineTrigger struct {
	path         string
	conn         *net.UnixConn
	triggered    chan struct{} // of capacity 1
	end          chan struct{}
	heldTriggers uint64 // a datagram that listen had in its hands at the end
	read         errgroup.Group
}

func openLine(path string) (*lineTrigger, error) {
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("bench: the line for triggers, %s: %w: give a path where there is no file yet", path, err)
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

func (l *lineTrigger) begin() {} // what came before is not lost

func (l *lineTrigger) listen() error {
	var b [1]byte
	for {
		if _, err := l.conn.Read(b[:]); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) { // close set one
				return nil
			}
			return fmt.Errorf("bench: the line for triggers, %s: %w", l.path, err)
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

// close counts what is still on the line: in the hands of listen, behind it, and in the kernel's queue.
func (l *lineTrigger) close() (remaining uint64, err error) {
	close(l.end)
	err = errors.Join(l.conn.SetReadDeadline(time.Now()), l.read.Wait(), l.conn.SetReadDeadline(time.Time{}))
	queued, e := l.drainQueue()
	return l.heldTriggers + uint64(len(l.triggered)) + queued, errors.Join(err, e, l.conn.Close(), os.Remove(l.path))
}

// maxQueued ends the count of a line to which somebody sends for ever. No kernel's queue is that long.
const maxQueued = 1 << 16

// drainQueue takes what is in the kernel's queue, and waits for nothing.
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
