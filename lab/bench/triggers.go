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

	"ringlet/internal/pace"
)

// What triggers an engine: software, a rate, or an external line.
const (
	bySoftware = "software"
	byRate     = "rate"
	byLine     = "unix:" // and the path of a socket
)

// triggers tell an engine to begin. One goroutine uses it.
type triggers interface {
	// begin is called before each measurement.
	begin()
	// wait waits for one, and takes it; false: it is over before.
	wait(ctx context.Context, over *atomic.Bool) bool
	// due takes one that has come; running says that transfers are under way.
	due(running bool) bool
	// lost counts those that the generator could not place, since the engine took none for long.
	lost() uint64
	close() error
}

// openTrigger makes one. A line has its socket made, which must not be there before.
func openTrigger(how string, rate float64) (triggers, error) {
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
func (softwareTrigger) wait(ctx context.Context, over *atomic.Bool) bool {
	return ctx.Err() == nil && !over.Load()
}
func (softwareTrigger) due(running bool) bool { return !running }
func (softwareTrigger) lost() uint64          { return 0 }
func (softwareTrigger) close() error          { return nil }

// rateBacklog is what a generator makes up for, as a source that is held to a rate does.
const rateBacklog = 100 * time.Millisecond

// rateTrigger is a generator of programmable frequency. It waits while the engine is busy.
type rateTrigger struct {
	rate float64
	pace *pace.Pacer
	gone time.Duration // that it could not make up for
}

func (r *rateTrigger) begin() { r.pace, r.gone = pace.At(r.rate, rateBacklog), 0 }

func (r *rateTrigger) wait(ctx context.Context, over *atomic.Bool) bool {
	gone, due := whenDue(ctx, r.pace, over)
	r.gone += gone
	if due {
		r.pace.Went(1)
	}
	return due
}

func (r *rateTrigger) due(bool) bool {
	wait, gone := r.pace.Early(time.Now())
	r.gone += gone
	if wait > 0 {
		return false
	}
	r.pace.Went(1)
	return true
}

func (r *rateTrigger) lost() uint64 { return uint64(r.gone.Seconds() * r.rate) }
func (r *rateTrigger) close() error { return nil }

// lineTrigger is a socket: each datagram that comes is a trigger. Where the engine takes none the kernel's queue fills,
// and whoever sends there waits: that is the busy line.
type lineTrigger struct {
	path string
	conn *net.UnixConn
	came chan struct{} // of capacity 1
	end  chan struct{}
	read errgroup.Group
}

func openLine(path string) (*lineTrigger, error) {
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("bench: the line for triggers, %s: %w: give a path where there is no file yet", path, err)
	}
	l := &lineTrigger{
		path: path,
		conn: conn,
		came: make(chan struct{}, 1),
		end:  make(chan struct{}),
	}
	l.read.Go(l.listen)
	return l, nil
}

func (l *lineTrigger) begin() {} // what came before is not lost

func (l *lineTrigger) listen() error {
	var b [1]byte
	for {
		if _, err := l.conn.Read(b[:]); err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			return fmt.Errorf("bench: the line for triggers, %s: %w", l.path, err)
		}
		select {
		case l.came <- struct{}{}:
		case <-l.end:
			return nil
		}
	}
}

func (l *lineTrigger) wait(ctx context.Context, over *atomic.Bool) bool {
	look := time.NewTicker(nap)
	defer look.Stop()
	for !over.Load() {
		select {
		case <-l.came:
			return true
		case <-ctx.Done():
			return false
		case <-look.C:
		}
	}
	return false
}

func (l *lineTrigger) due(bool) bool {
	select {
	case <-l.came:
		return true
	default:
		return false
	}
}

func (l *lineTrigger) lost() uint64 { return 0 }

func (l *lineTrigger) close() error {
	close(l.end)
	err := l.conn.Close()
	return errors.Join(err, l.read.Wait(), os.Remove(l.path))
}
