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

// The manual names these (docs/operating.md).
const (
	// Code is the exit code of a process that the watch has ended.
	Code = 70
	// Patience is how many ticks a loop may stand still.
	Patience = 60
	// Grace is how many ticks a process has to end after its parent is gone.
	Grace = 10

	everyTick = time.Second
)

// Config of a watch. The zero value is the one of the manual.
type Config struct {
	Tick            time.Duration // 0: a second
	Patience, Grace int           // ticks; 0: those above
	Out             io.Writer     // nil: standard error
	// Gone says that the parent is gone. Nil: orphaned says it.
	Gone func() bool
}

// A Dog watches this process. A nil Dog watches nothing.
type Dog struct {
	cfg Config

	told atomic.Bool // to end at once

	mu    sync.Mutex // guards the rest
	names []string
	looks []*looking
}

// looking has one thing looked at again and again.
type looking struct {
	under atomic.Uint64 // number of the look under way; 0: none
	ask   chan struct{}
}

// parent is the process that has started this one, by what it put into the environment; 0: it put nothing there.
var parent = sync.OnceValue(func() int {
	pid, _ := strconv.Atoi(os.Getenv(variable))
	_ = os.Unsetenv(variable) // who is started by this process has another parent
	return pid
})

const variable = "RINGLET_PARENT"

// Child is what whoever starts a process puts into its environment, so that it knows when its parent is gone.
func Child() string { return variable + "=" + strconv.Itoa(os.Getpid()) }

// orphaned says that the process which has started this one, and has put Child into its environment, is gone.
func orphaned() bool { return parent() != 0 && os.Getppid() != parent() }

// Start begins to watch. There is no end: it watches while the process ends, too.
func Start(cfg Config) *Dog {
	if cfg.Tick == 0 {
		cfg.Tick = everyTick
	}
	if cfg.Patience == 0 {
		cfg.Patience = Patience
	}
	if cfg.Grace == 0 {
		cfg.Grace = Grace
	}
	if cfg.Out == nil {
		cfg.Out = os.Stderr
	}
	if cfg.Gone == nil {
		parent()
		cfg.Gone = orphaned
	}
	d := &Dog{cfg: cfg}
	go d.watch()
	return d
}

// Look has something looked after, by a function that takes the locks there and waits for nothing else. It is called on
// one goroutine, once in a tick, and must bear that it is called at any time until the process ends.
func (d *Dog) Look(name string, at func()) {
	if d == nil {
		return
	}
	l := &looking{ask: make(chan struct{}, 1)}
	go func() {
		for n := uint64(1); ; n++ {
			<-l.ask
			l.under.Store(n)
			at()
			l.under.Store(0)
		}
	}()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names, d.looks = append(d.names, name), append(d.looks, l)
}

// Told says that somebody wants the process to end at once. If it has not after Grace ticks, it is ended, and says what
// its goroutines were at.
func (d *Dog) Told() {
	if d != nil {
		d.told.Store(true)
	}
}

// watch is on a thread of its own, so that no other goroutine has to make way for it.
func (d *Dog) watch() {
	runtime.LockOSThread()
	c := core{patience: d.cfg.Patience, grace: d.cfg.Grace}
	var under []uint64
	for {
		time.Sleep(d.cfg.Tick)
		d.mu.Lock()
		looks := d.looks
		d.mu.Unlock()
		under = under[:0]
		for _, l := range looks {
			now := l.under.Load()
			if under = append(under, now); now == 0 {
				select {
				case l.ask <- struct{}{}:
				default:
				}
			}
		}
		switch v, which := c.tick(under, d.told.Load() || d.cfg.Gone()); v {
		case stalled:
			d.mu.Lock()
			name := d.names[which]
			d.mu.Unlock()
			d.end(fmt.Sprintf("%s stands still: nothing of it has answered for %v of this process's own time. The process "+
				"ends itself, so that others can go on; what its goroutines were at is below, for a report of this fault",
				name, time.Duration(d.cfg.Patience)*d.cfg.Tick), true)
		case orphan:
			if d.told.Load() {
				d.end(fmt.Sprintf("the process was told twice to end, and did not within %v: it ends itself; what its "+
					"goroutines were at is below, for a report of this fault", time.Duration(d.cfg.Grace)*d.cfg.Tick), true)
			}
			d.end(fmt.Sprintf("the process that started this one is gone, and this one did not end within %v: it ends itself",
				time.Duration(d.cfg.Grace)*d.cfg.Tick), false)
		case alive:
		}
	}
}

// lastWords bounds how long the process may take to say why it ends, in s of the processor's time and of the clock.
const lastWords = 5

// mostStacks bounds what is told of goroutines, in bytes.
const mostStacks = 256 << 10

// end says why, and ends the process. The last words may hang: to see the goroutines means to stop them, and nobody may
// read what is said. So the kernel kills a process that then goes round in a loop, and a timer one that waits.
func (d *Dog) end(why string, stacks bool) {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) == nil {
		used := uint64(u.Utime.Sec + u.Stime.Sec)
		_ = unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: used + lastWords, Max: used + lastWords})
	}
	said := make(chan struct{})
	go func() {
		defer close(said)
		fmt.Fprintf(d.cfg.Out, "ringlet: %s\n", why)
		if stacks {
			buf := make([]byte, mostStacks)
			_, _ = d.cfg.Out.Write(append(buf[:runtime.Stack(buf, true)], '\n'))
		}
	}()
	select {
	case <-said:
	case <-time.After(lastWords * time.Second):
	}
	os.Exit(Code)
}
