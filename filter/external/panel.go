package external

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"ringlet/filter"
	"ringlet/shmem"
)

// lanes is how many processes may judge for one builder unit.
const lanes = 16

// Memory is what the memory of a lane takes, bytes, where a MEP has that many at most: for the MEP that the process has
// just done with, the next one, and what is left over where the buffer ends.
func Memory(mostMEP int) int { return max(1<<20, 3*(mostMEP+shmem.PageSize)) }

// grace is how long events wait where no process takes them: a process that was restarted is there in a second.
const grace = 2 * time.Second

// segmentPrefix begins the names of lanes; behind it stand the filter's, and the numbers of builder unit and lane.
const segmentPrefix = "ringlet-filter-"

// Config is what a Panel is made with.
type Config struct {
	Name     string // of the filter
	Builder  int    // index of the builder unit
	Run      uint32
	Deadline time.Duration // for one event
	MostMEP  int           // bytes; 0: not known
	Log      *slog.Logger

	dir string // of the segments' names; empty: shmem.DefaultDir
}

// Panel is the processes that judge for one builder unit. There is always one lane more than there are processes, until
// there are lanes: so the memory follows from how many there are.
type Panel struct {
	// immutable
	cfg     Config
	cases   chan *filter.Case
	done    func(*filter.Case)
	vacancy chan struct{} // of one place: the right to have a lane without a process
	turned  chan struct{} // of one place: whether a process takes events has changed

	mu    sync.Mutex  // guards what follows
	used  [lanes]bool // numbers of lanes that there are
	takes int         // lanes whose process takes events
	since time.Time   // takes is 0 from then on
	said  map[string]int
	unfit error // why the last lane could not be made; nil: it could
	count counts
}

// New makes one. Nothing is opened before Serve.
func New(cfg Config) *Panel {
	if cfg.dir == "" {
		cfg.dir = shmem.DefaultDir
	}
	return &Panel{
		cfg:     cfg,
		vacancy: make(chan struct{}, 1),
		turned:  make(chan struct{}, 1),
		said:    map[string]int{},
	}
}

// Seats is how many cases processes may have at a time, as long as MEPs are small.
func (p *Panel) MaxCases() int { return 4 * depth }

// Serve has processes judge the cases that come, until ctx is done, and gives each to done once. When it returns nobody
// uses a case any more.
func (p *Panel) Serve(ctx context.Context, cases chan *filter.Case, done func(*filter.Case)) {
	p.cases, p.done, p.since = cases, done, time.Now()
	var wg sync.WaitGroup
	for range lanes {
		l := &lane{p: p}
		l.poll, l.alive = l.look, func() error { return errLook }
		wg.Go(func() { l.run(ctx) })
	}
	p.attend(ctx)
	wg.Wait()
}

// number takes the lowest number of a lane that is free: filters that choose among builder units go by it.
func (p *Panel) number() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.used[:], false)
	p.used[i] = true
	return i
}

func (p *Panel) freeNumber(i int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used[i] = false
}

// made takes whether a lane could be made.
func (p *Panel) made(err error) error {
	if errors.Is(err, shmem.ErrExists) {
		err = fmt.Errorf("%w: another run on this host has a filter of this name; give this one another name", err)
	}
	p.mu.Lock()
	p.unfit = err
	p.mu.Unlock()
	if err != nil {
		p.warn("a lane for filter processes could not be made", "err", err)
	}
	return err
}

// attend passes what waits while no process takes events.
func (p *Panel) attend(ctx context.Context) {
	alarmed := false
	timer := time.NewTimer(grace)
	defer timer.Stop()
	for {
		absent, wait := p.absent(time.Now())
		cases := p.cases
		switch {
		case !absent:
			cases = nil
			if alarmed && wait == 0 {
				p.cfg.Log.Info("a filter process takes events again", "filter", p.cfg.Name)
				alarmed = false
			}
		case !alarmed:
			alarmed = true
			p.alarm()
		}
		if wait > 0 {
			timer.Reset(wait)
		}
		select {
		case c := <-cases:
			p.unattended(c)
		case <-p.turned:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// absent says that no process has taken events for longer than grace; else how long until that will be, 0 if there is
// one.
func (p *Panel) absent(now time.Time) (absent bool, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.takes > 0 {
		return false, 0
	}
	wait = max(grace, p.cfg.Deadline) - now.Sub(p.since)
	return wait <= 0, wait
}

// alarm says what to do.
func (p *Panel) alarm() {
	p.mu.Lock()
	here, unfit := p.count.processes, p.unfit
	p.mu.Unlock()
	why := "no filter process is there: start one on this host, as this user"
	switch {
	case here > 0:
		why = "no filter process answers in time: see what they do, end them, and start them anew"
	case unfit != nil:
		why = "filter processes have no place: " + unfit.Error()
	}
	p.cfg.Log.Error("events pass by time-out, without a decision: "+why, "filter", p.cfg.Name,
		"such as", fmt.Sprintf("python3 filter.py %s", p.cfg.Name), "builder", p.cfg.Builder)
}

// unattended has a case pass.
func (p *Panel) unattended(c *filter.Case) {
	c.Spread(0, filter.Verdict{Decision: filter.TimedOut})
	p.mu.Lock()
	p.count.unattended += uint64(c.Events)
	p.mu.Unlock()
	p.done(c)
}

// giveBack has others judge cases. One that came back too often passes.
func (p *Panel) giveBack(cases []*filter.Case) {
	for _, c := range cases {
		if c.Returned > mostReturns {
			c.Spread(0, filter.Verdict{Decision: filter.Failed})
			p.done(c)
			continue
		}
		p.mu.Lock()
		p.count.returned += uint64(c.Events)
		p.mu.Unlock()
		p.cases <- c // there is room for all
	}
}

// turn counts lanes whose process takes events.
func (p *Panel) turn(by int) {
	if by == 0 {
		return
	}
	p.mu.Lock()
	p.takes += by
	p.since = time.Now()
	p.mu.Unlock()
	select {
	case p.turned <- struct{}{}:
	default:
	}
}

// mostSaid is how often a Panel logs one kind of fault: a filter that falls over with every event would fill the disk.
const mostSaid = 10

// warn logs a fault of a process.
func (p *Panel) warn(kind string, args ...any) {
	p.mu.Lock()
	p.said[kind]++
	n := p.said[kind]
	p.mu.Unlock()
	if n > mostSaid {
		return
	}
	if n == mostSaid {
		kind += " (further ones are counted)"
	}
	p.cfg.Log.Warn(kind, append([]any{"filter", p.cfg.Name, "builder", p.cfg.Builder}, args...)...)
}
