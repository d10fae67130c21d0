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

// WorkerMemory returns how many bytes the memory of a worker takes, if MEPs have at most mostMEP bytes: for the MEP
// that the process has just judged, the next one, and the rest at the end of the buffer.
func WorkerMemory(mostMEP int) int { return max(1<<20, 3*(mostMEP+shmem.PageSize)) }

// absenceGrace is how long events wait while no process accepts them: a restarted process is there in a second.
const absenceGrace = 2 * time.Second

// segmentPrefix begins the names of workers' segments; the filter's name and the numbers of builder unit and worker
// follow.
const segmentPrefix = "ringlet-filter-"

// Config is the configuration of a Pool.
type Config struct {
	Name       string // of the filter
	Builder    int    // index of the builder unit
	Run        uint32
	Deadline   time.Duration // for one event
	MaxMEPSize int           // in bytes; 0: unknown
	Log        *slog.Logger

	segmentDir string // directory of the segments; empty: shmem.DefaultDir
}

// Pool is the processes that judge for one builder unit. There is always one worker more than there are processes, up
// to maxWorkers: so the memory depends on the number of processes.
type Pool struct {
	// immutable
	cfg              Config
	cases            chan *filter.Case
	done             func(*filter.Case)
	vacancy          chan struct{} // capacity 1: the right to have a worker without a process
	acceptingChanged chan struct{} // capacity 1: acceptingWorkers has changed

	mu                 sync.Mutex       // guards what follows
	usedNumbers        [maxWorkers]bool // numbers of the present workers
	acceptingWorkers   int              // workers whose process accepts events
	noneAcceptingSince time.Time        // since when acceptingWorkers is 0
	warnings           map[string]int
	openErr            error // why the last worker's memory could not be made; nil: it was made
	counts             counts
}

// New returns a Pool. Only Serve opens memory.
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

// MaxCases returns how many cases processes may have at a time, as long as MEPs are small.
func (p *Pool) MaxCases() int { return 4 * maxCases }

// Serve has processes judge the cases that come, until ctx ends, and calls done for each once. After it has returned
// no process uses a case.
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

// allocateNumber takes the lowest free number of a worker: filters that choose among builder units go by it.
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

// recordOpen records whether a worker's memory could be made, and logs an error.
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

// watchAbsence lets waiting events pass while no process accepts them.
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

// noProcess says whether no process has accepted events for longer than absenceGrace. If not, wait is how long until
// that will be, 0 if a process accepts.
func (p *Pool) noProcess(now time.Time) (absent bool, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.acceptingWorkers > 0 {
		return false, 0
	}
	wait = max(absenceGrace, p.cfg.Deadline) - now.Sub(p.noneAcceptingSince)
	return wait <= 0, wait
}

// logNoProcess logs why events pass, and what to do.
func (p *Pool) logNoProcess() {
	p.mu.Lock()
	here, unfit := p.counts.processes, p.openErr
	p.mu.Unlock()
	why := "no filter process is there: start one on this host, as this user"
	switch {
	case here > 0:
		why = "no filter process answers in time: find out why, end them, and start them again"
	case unfit != nil:
		why = "filter processes cannot attach: " + unfit.Error()
	}
	p.cfg.Log.Error("events pass by time-out, without a decision: "+why, "filter", p.cfg.Name,
		"such as", fmt.Sprintf("python3 filter.py %s", p.cfg.Name), "builder", p.cfg.Builder)
}

// passUnjudged lets a case pass by time-out.
func (p *Pool) passUnjudged(c *filter.Case) {
	c.FillVerdicts(0, filter.Verdict{Decision: filter.TimedOut})
	p.mu.Lock()
	p.counts.unjudgedEvents += uint64(c.Events)
	p.mu.Unlock()
	p.done(c)
}

// requeue has other processes judge cases. A case that was returned too often passes as failed.
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
		p.cases <- c // there is room for all cases
	}
}

// addAccepting changes the number of workers whose process accepts events.
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

// maxWarnings is how often a Pool logs one kind of fault: a filter that fails on every event would fill the disk.
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
