package watchdog

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// docs/operating.md names these.
const (
	// ExitCode is the exit code of a process that the watchdog has ended.
	ExitCode = 70
	// StallTicks is how many ticks a loop may stand still.
	StallTicks = 60
	// GraceTicks is how many ticks a process has to end after its parent is gone.
	GraceTicks = 10

	defaultTickInterval = time.Second
)

// Config of a Watcher. The zero value is the one that docs/operating.md describes.
type Config struct {
	TickInterval           time.Duration // 0: a second
	StallTicks, GraceTicks int           // 0: the constants above
	Out                    io.Writer     // nil: standard error
	// ParentGone tells that the parent is gone. Nil: isOrphaned.
	ParentGone func() bool
}

// A Watcher watches this process. A nil Watcher watches nothing.
type Watcher struct {
	cfg Config

	endRequested atomic.Bool // the process is to end at once

	mu     sync.Mutex // guards the rest
	names  []string
	probes []*probe
}

// probe probes one loop again and again.
type probe struct {
	runningNumber atomic.Uint64 // number of the probe under way; 0: none
	request       chan struct{}
}

// parentPID is the process that started this one, from ChildEnv; 0 without it.
var parentPID = sync.OnceValue(func() int {
	pid, _ := strconv.Atoi(os.Getenv(parentVariable))
	_ = os.Unsetenv(parentVariable) // this process is another parent to its own children
	return pid
})

const parentVariable = "RINGLET_PARENT"

// ChildEnv is the environment variable by which a child knows its parent.
func ChildEnv() string { return parentVariable + "=" + strconv.Itoa(os.Getpid()) }

// isOrphaned tells that the parent, which has set ChildEnv, is gone.
func isOrphaned() bool { return parentPID() != 0 && os.Getppid() != parentPID() }

// Start starts a Watcher, which watches until the process has ended.
func Start(cfg Config) *Watcher {
	if cfg.TickInterval == 0 {
		cfg.TickInterval = defaultTickInterval
	}
	if cfg.StallTicks == 0 {
		cfg.StallTicks = StallTicks
	}
	if cfg.GraceTicks == 0 {
		cfg.GraceTicks = GraceTicks
	}
	if cfg.Out == nil {
		cfg.Out = os.Stderr
	}
	if cfg.ParentGone == nil {
		parentPID()
		cfg.ParentGone = isOrphaned
	}
	d := &Watcher{cfg: cfg}
	go d.watchLoop()
	return d
}

// AddLoop adds a loop, with a function that takes the loop's locks and waits for nothing else. One goroutine calls it,
// once in a tick, at any time until the process ends.
func (d *Watcher) AddLoop(name string, at func()) {
	if d == nil {
		return
	}
	l := &probe{request: make(chan struct{}, 1)}
	go func() {
		for n := uint64(1); ; n++ {
			<-l.request
			l.runningNumber.Store(n)
			at()
			l.runningNumber.Store(0)
		}
	}()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names, d.probes = append(d.names, name), append(d.probes, l)
}

// RequestEnd requests the end of the process at once. If it has not ended after GraceTicks, the watchdog ends it, and
// writes the stacks of its goroutines.
func (d *Watcher) RequestEnd() {
	if d != nil {
		d.endRequested.Store(true)
	}
}

// watchLoop runs on a thread of its own, so that it does not depend on other goroutines.
func (d *Watcher) watchLoop() {
	runtime.LockOSThread()
	c := core{stallTicks: d.cfg.StallTicks, endGraceTicks: d.cfg.GraceTicks}
	var under []uint64
	for {
		time.Sleep(d.cfg.TickInterval)
		d.mu.Lock()
		looks := d.probes
		d.mu.Unlock()
		under = under[:0]
		for _, l := range looks {
			now := l.runningNumber.Load()
			if under = append(under, now); now == 0 {
				select {
				case l.request <- struct{}{}:
				default:
				}
			}
		}
		switch v, which := c.tick(under, d.endRequested.Load() || d.cfg.ParentGone()); v {
		case tickStalled:
			d.mu.Lock()
			name := d.names[which]
			d.mu.Unlock()
			d.endProcess(fmt.Sprintf("%s stands still: it has not answered for %v of this process's own time. The "+
				"process ends itself, so that others can go on; the stacks of its goroutines are below, for a report of this "+
				"fault", name, time.Duration(d.cfg.StallTicks)*d.cfg.TickInterval), true)
		case tickOrphan:
			if d.endRequested.Load() {
				d.endProcess(fmt.Sprintf("the process was told twice to end, and did not within %v: it ends itself; the stacks "+
					"of its goroutines are below, for a report of this fault", time.Duration(d.cfg.GraceTicks)*d.cfg.TickInterval),
					true)
			}
			d.endProcess(fmt.Sprintf("the process that started this one is gone, and this one did not end within %v: it ends "+
				"itself", time.Duration(d.cfg.GraceTicks)*d.cfg.TickInterval), false)
		case tickAlive:
		}
	}
}

// lastWordsSeconds bounds how long the process may take to write why it ends, in s of processor time and of the clock.
const lastWordsSeconds = 5

// maxStackBytes bounds the stacks that are written, in bytes.
const maxStackBytes = 256 << 10

// endProcess writes why, and ends the process. The write may hang: reading the stacks stops all goroutines, and the
// output may have no reader. So the kernel kills a process that then loops, and a timer ends one that waits.
func (d *Watcher) endProcess(why string, stacks bool) {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) == nil {
		used := uint64(u.Utime.Sec + u.Stime.Sec)
		_ = unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: used + lastWordsSeconds, Max: used + lastWordsSeconds})
	}
	said := make(chan struct{})
	go func() {
		defer close(said)
		fmt.Fprintf(d.cfg.Out, "ringlet: %s\n", why)
		if stacks {
			buf := make([]byte, maxStackBytes)
			_, _ = d.cfg.Out.Write(append(buf[:runtime.Stack(buf, true)], '\n'))
		}
	}()
	select {
	case <-said:
	case <-time.After(lastWordsSeconds * time.Second):
	}
	os.Exit(ExitCode)
}
