package sink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"ringlet/event/selection"
	"ringlet/trigger"
)

// Pipeline of a MEP that is filtered before an output takes it (docs/design/053-filter.md):
//
//	1 Write   (sequential: whoever writes)  a free job takes a copy; there are so many, and Write waits for one
//	2 judge   (parallel: workers)           a filter of the worker's own says accepted or rejected
//	3 settle  (under mu)                    the output takes the MEP, with its decision. A MEP whose worker is beyond
//	                                        the deadline is settled by the watchdog: it passes by time-out
//	4 Flush   (parallel: another goroutine) waits for the jobs whose Write has returned, then flushes the output
//
// A filter that cannot keep up holds the jobs, so Write waits, and what waits for a sink is the builder unit's to hold
// or to discard. Memory of a job is its own: a filter that hangs reads bytes that nobody else writes.

// waiting is how many MEPs may wait for a worker, for each: enough that none is idle while the finisher sleeps.
const waiting = 16

// FilterConfig is what a Filtered is made with.
type FilterConfig struct {
	// Filters judge, each in a goroutine of its own.
	Filters  []trigger.Filter
	Deadline time.Duration // for one event, from when its filter begins
	// Decided is told of each MEP that the output has, how long after its last byte. It must not wait. nil: nobody is told.
	Decided func(m Meta, v trigger.Verdict, took time.Duration)
	Log     *slog.Logger
}

// Filtered is the sink that has a filter judge each MEP, which holds one event, and gives it to another sink with the
// decision.
type Filtered struct {
	// immutable
	to   Sink
	cfg  FilterConfig
	free chan *candidate // without work
	todo chan *candidate // with room for all jobs
	quit chan struct{}
	wg   sync.WaitGroup // workers and watchdog

	workers []worker

	mu      sync.Mutex // guards what follows, the jobs' settled, and writing to the output
	settles sync.Cond  // a job was settled; of mu
	jobs    []*candidate
	written uint64 // jobs that Write has filled
	err     error  // of the output; final
	closed  bool

	count filterCounts
}

// candidate is a MEP on its way. It belongs to whoever took it from free or todo.
type candidate struct {
	packet selection.Packet
	meta   Meta
	ctx    context.Context // of its Write
	mep    []byte
	number uint64 // of the Write; guarded by mu
	open   bool   // it is filled, and not settled; guarded by mu
}

// worker is what the watchdog sees of one.
type worker struct {
	filter trigger.Filter
	judges atomic.Pointer[candidate] // nil: it is not judging
	until  atomic.Int64              // deadline, ns since began
	began  time.Time                 // immutable
}

// NewFiltered puts filters before a sink, which is its own from now on.
func NewFiltered(to Sink, cfg FilterConfig) *Filtered {
	n := len(cfg.Filters)
	all := n*waiting + n // the second n may be with filters that hang
	f := &Filtered{
		to:      to,
		cfg:     cfg,
		free:    make(chan *candidate, all),
		todo:    make(chan *candidate, all),
		quit:    make(chan struct{}),
		workers: make([]worker, n),
	}
	f.settles.L = &f.mu
	f.count.waits, f.count.in = hdr.New(1, longestTime, 3), hdr.New(1, longestTime, 3)
	for range all {
		j := &candidate{}
		f.jobs = append(f.jobs, j)
		f.free <- j
	}
	for i := range f.workers {
		w := &f.workers[i]
		w.filter, w.began = cfg.Filters[i], time.Now()
		f.wg.Go(func() { f.work(w) })
	}
	f.wg.Go(f.watch)
	return f
}

// Inner is the sink behind the filters.
func (f *Filtered) Inner() Sink { return f.to }

// Write takes a copy of a MEP for the filters, and waits while too many are there.
func (f *Filtered) Write(ctx context.Context, m Meta, mep []byte) error {
	var j *candidate
	select {
	case j = <-f.free:
	default:
		at := time.Now()
		select {
		case j = <-f.free:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		f.count.held.Add(int64(time.Since(at)))
	}
	j.meta, j.ctx, j.mep = m, ctx, append(j.mep[:0], mep...)
	if m.Whole.IsZero() {
		j.meta.Whole = time.Now()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		f.free <- j
		return f.err
	}
	f.written++
	j.number, j.open = f.written, true
	f.todo <- j // there is room for all
	return nil
}

// work judges MEPs until there will be no more.
func (f *Filtered) work(w *worker) {
	for {
		select {
		case <-f.quit:
			return
		case j := <-f.todo:
			v := f.judge(w, j)
			f.settle(j, v)
			f.free <- j
		}
	}
}

// judge asks the worker's filter. What it says too late does not count, even if the watchdog has not come by.
func (f *Filtered) judge(w *worker, j *candidate) trigger.Verdict {
	begun := time.Now()
	deadline := begun.Add(f.cfg.Deadline)
	w.until.Store(int64(deadline.Sub(w.began)))
	w.judges.Store(j)
	v, err := f.ask(w, j, deadline)
	w.judges.Store(nil)
	now := time.Now()
	f.count.took(begun.Sub(j.meta.Whole), now.Sub(begun))
	if err != nil && f.count.errors.Add(1) == 1 {
		f.cfg.Log.Warn("the filter could not judge an event, which passes; further ones are counted", "err", err)
	}
	return trigger.Settle(v, err, deadline, now)
}

// ask asks the filter of the event of a MEP. A filter that panics could not judge it.
func (f *Filtered) ask(w *worker, j *candidate, deadline time.Time) (v trigger.Verdict, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("MEP %d: the filter failed: %v", j.meta.MEP, r)
		}
	}()
	shown := selection.Meta{Run: j.meta.Run, MEP: j.meta.MEP, Attempt: j.meta.Attempt}
	if err := j.packet.Parse(shown, j.mep); err != nil {
		return v, err
	}
	if n := j.packet.N(); n != 1 {
		return v, fmt.Errorf("MEP %d has %d events, and a decision is about one", j.meta.MEP, n)
	}
	for e := range j.packet.Events() {
		v, err = w.filter.Judge(deadline, &e)
	}
	return v, err
}

// settle gives a MEP to the output, unless that was done.
func (f *Filtered) settle(j *candidate, v trigger.Verdict) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settleLocked(j, v)
}

func (f *Filtered) settleLocked(j *candidate, v trigger.Verdict) {
	if !j.open {
		return
	}
	j.meta.Decision = v.Decision
	if f.err == nil {
		f.err = f.to.Write(j.ctx, j.meta, j.mep)
	}
	if f.err == nil {
		f.count.decided[v.Decision].Add(uint64(j.meta.Events))
		if f.cfg.Decided != nil {
			f.cfg.Decided(j.meta, v, time.Since(j.meta.Whole))
		}
	}
	j.open = false
	f.settles.Broadcast()
}

// watch settles what is with workers beyond their deadline. When all workers are, what waits passes too.
func (f *Filtered) watch() {
	tick := time.NewTicker(max(time.Millisecond, f.cfg.Deadline/4))
	defer tick.Stop()
	for {
		select {
		case <-f.quit:
			return
		case <-tick.C:
		}
		stuck := 0
		for i := range f.workers {
			if f.late(&f.workers[i]) {
				stuck++
			}
		}
		f.count.stuck.Store(int64(stuck))
		for stuck == len(f.workers) && f.pass() {
		}
	}
}

// late tells whether a worker is beyond its deadline; the MEP in its hand is settled then.
func (f *Filtered) late(w *worker) bool {
	if !w.late() {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	// Whatever the worker judges now is not settled before the worker has passed mu, and of that the deadline is told
	// before: so both are of one MEP.
	j := w.judges.Load()
	if j == nil || !w.late() {
		return false
	}
	f.settleLocked(j, trigger.Verdict{Decision: trigger.TimedOut})
	return true
}

// late tells whether the worker is beyond its deadline.
func (w *worker) late() bool {
	return w.judges.Load() != nil && int64(time.Since(w.began)) > w.until.Load()
}

// pass settles a MEP that waits for a worker. It is false when none does.
func (f *Filtered) pass() bool {
	select {
	case j := <-f.todo:
		f.settle(j, trigger.Verdict{Decision: trigger.TimedOut})
		f.free <- j
		return true
	default:
		return false
	}
}

// Flush waits until the MEPs whose Write has returned have their decisions, and flushes the output.
func (f *Filtered) Flush() error {
	f.mu.Lock()
	for last := f.written; f.openUpTo(last) && f.err == nil; {
		f.settles.Wait()
	}
	err := f.err
	f.mu.Unlock()
	if err != nil {
		return err
	}
	return f.to.Flush()
}

func (f *Filtered) openUpTo(last uint64) bool {
	for _, j := range f.jobs {
		if j.open && j.number <= last {
			return true
		}
	}
	return false
}

// Finish waits for the decisions and makes the output whole.
func (f *Filtered) Finish() (Result, error) {
	if err := f.Flush(); err != nil {
		f.stop()
		r, also := f.to.Finish()
		return r, errors.Join(err, also)
	}
	f.stop()
	return f.to.Finish()
}

// Abort gives up what has no decision yet, and the output.
func (f *Filtered) Abort() error {
	f.stop()
	return f.to.Abort()
}

// stop ends the workers. One whose filter hangs is left behind: nothing in Go can end it.
func (f *Filtered) stop() {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return
	}
	f.closed = true
	if f.err == nil {
		f.err = errFilterClosed
	}
	f.settles.Broadcast()
	f.mu.Unlock()
	close(f.quit)
	ended := make(chan struct{})
	go func() {
		f.wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(f.cfg.Deadline + stopTime):
		f.cfg.Log.Warn("a filter did not come back from an event; its goroutine is left behind", "deadline", f.cfg.Deadline)
	}
}

// stopTime is how long workers are waited for beyond their deadline.
const stopTime = time.Second

// Written passes on how far the output is, so that progress is seen through a filter.
func (f *Filtered) Written() uint64 {
	n := f.count.settled()
	if w, ok := f.to.(interface{ Written() uint64 }); ok {
		n += w.Written()
	}
	return n
}
