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

// maxWorkers is how many processes may judge for one builder unit.
const maxWorkers = 16

// WorkerMemory is what the memory of a worker takes, bytes, where a MEP has that many at most: for the MEP that the
// process has just done with, the next one, and what is left over where the buffer ends.
func WorkerMemory(mostMEP int) int { return max(1<<20, 3*(mostMEP+shmem.PageSize)) }

// absenceGrace is how long events wait where no process takes them: a process that was restarted is there in a second.
const absenceGrace = 2 * time.Second

// segmentPrefix begins the names of workers' segments; behind it stand the filter's, and the numbers of builder unit
// and worker.
const segmentPrefix = "ringlet-filter-"

// Config is what a Pool is made with.
type Config struct {
	Name       string // of the filter
	Builder    int    // index of the builder unit
	Run        uint32
	Deadline   time.Duration // for one event
	MaxMEPSize int           // bytes; 0: not known
	Log        *slog.Logger

	segmentDir string // of the segments' names; empty: shmem.DefaultDir
}

// Pool is the processes that judge for one builder unit. There is always one worker more than there are processes,
// until there are maxWorkers: so the memory follows from how many there are.
type Pool struct {
	// immutable
	cfg              Config
	cases            chan *filter.Case
	done             func(*filter.Case)
	vacancy          chan struct{} // of one place: the right to have a worker without a process
	acceptingChanged chan struct{} // of one place: whether a process takes events has changed

	mu                 sync.Mutex       // guards what follows
	usedNumbers        [maxWorkers]bool // numbers of workers that there are
	acceptingWorkers   int              // workers whose process takes events
	noneAcceptingSince time.Time        // accepting is 0 from then on
	warnings           map[string]int
	openErr            error // why the last worker's memory could not be made; nil: it could
	counts             counts
}

// New makes one. Nothing is opened before Serve.
func New(cfg Config) *Pool {
	if cfg.segmentDir == "" {
		cfg.segmentDir = shmem.DefaultDir
	}
	return &Pool{
		cfg:              cfg,
		vacancy:          make(chan struct{}, 1),
		acceptingChanged: make(chan struct{}, 1),
		warnings:         map[string]int{},
	}
}

// MaxCases is how many cases processes may have at a time, as long as MEPs are small.
func (p *Pool) MaxCases() int { return 4 * maxCases }

// Serve has processes judge the cases that come, until ctx is done, and gives each to done once. When it returns nobody
// uses a case any more.
func (p *Pool) Serve(ctx context.Context, cases chan *filter.Case, done func(*filter.Case)) {
	p.cases, p.done, p.noneAcceptingSince = cases, done, time.Now()
	var wg sync.WaitGroup
	for range maxWorkers {
		l := &worker{pool: p}
		l.pollFunc, l.aliveFunc = l.pollAnswers, func() error { return errRecheck }
		wg.Go(func() { l.run(ctx) })
	}
	p.watchAbsence(ctx)
	wg.Wait()
}

// allocateNumber takes the lowest number of a worker that is free: filters that choose among builder units go by it.
func (p *Pool) allocateNumber() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.usedNumbers[:], false)
	p.usedNumbers[i] = true
	return i
}

func (p *Pool) freeNumber(i int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.usedNumbers[i] = false
}

// recordOpen takes whether a worker's memory could be made.
func (p *Pool) recordOpen(err error) error {
	if errors.Is(err, shmem.ErrExists) {
		err = fmt.Errorf("%w: another run on this host has a filter of this name; give this one another name", err)
	}
	p.mu.Lock()
	p.openErr = err
	p.mu.Unlock()
	if err != nil {
		p.warn("the memory for a filter process could not be made", "err", err)
	}
	return err
}

// watchAbsence passes what waits while no process takes events.
func (p *Pool) watchAbsence(ctx context.Context) {
	alarmed := false
	timer := time.NewTimer(absenceGrace)
	defer timer.Stop()
	for {
		absent, wait := p.noProcess(time.Now())
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
			p.logNoProcess()
		}
		if wait > 0 {
			timer.Reset(wait)
		}
		select {
		case c := <-cases:
			p.passUnjudged(c)
		case <-p.acceptingChanged:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// noProcess says that no process has taken events for longer than absenceGrace; else how long until that will be, 0 if
// there is one.
func (p *Pool) noProcess(now time.Time) (absent bool, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.acceptingWorkers > 0 {
		return false, 0
	}
	wait = max(absenceGrace, p.cfg.Deadline) - now.Sub(p.noneAcceptingSince)
	return wait <= 0, wait
}

// logNoProcess says what to do.
func (p *Pool) logNoProcess() {
	p.mu.Lock()
	here, unfit := p.counts.processes, p.openErr
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

// passUnjudged has a case pass.
func (p *Pool) passUnjudged(c *filter.Case) {
	c.FillVerdicts(0, filter.Verdict{Decision: filter.TimedOut})
	p.mu.Lock()
	p.counts.unjudgedEvents += uint64(c.Events)
	p.mu.Unlock()
	p.done(c)
}

// requeue has others judge cases. One that came back too often passes.
func (p *Pool) requeue(cases []*filter.Case) {
	for _, c := range cases {
		if c.TimesReturned > maxReturns {
			c.FillVerdicts(0, filter.Verdict{Decision: filter.Failed})
			p.done(c)
			continue
		}
		p.mu.Lock()
		p.counts.returnedEvents += uint64(c.Events)
		p.mu.Unlock()
		p.cases <- c // there is room for all
	}
}

// addAccepting counts workers whose process takes events.
func (p *Pool) addAccepting(by int) {
	if by == 0 {
		return
	}
	p.mu.Lock()
	p.acceptingWorkers += by
	p.noneAcceptingSince = time.Now()
	p.mu.Unlock()
	select {
	case p.acceptingChanged <- struct{}{}:
	default:
	}
}

// maxWarnings is how often a Pool logs one kind of fault: a filter that falls over with every event would fill the
// disk.
const maxWarnings = 10

// warn logs a fault of a process.
func (p *Pool) warn(kind string, args ...any) {
	p.mu.Lock()
	p.warnings[kind]++
	n := p.warnings[kind]
	p.mu.Unlock()
	if n > maxWarnings {
		return
	}
	if n == maxWarnings {
		kind += " (further ones are counted)"
	}
	p.cfg.Log.Warn(kind, append([]any{"filter", p.cfg.Name, "builder", p.cfg.Builder}, args...)...)
}
