package sink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ringlet/event/selection"
	"ringlet/trigger"
)

// Pipeline of a MEP that is filtered before an output takes it (docs/design/053-filter.md):
//
//	1 Write   (sequential: whoever writes)  a free job takes a copy; there are so many, and Write waits for one
//	2 judge   (parallel: workers)           a filter of the worker's own says accepted or rejected of each event; or a
//	                                        panel does, which is processes of others (docs/design/056)
//	3 settle  (under mu)                    the output takes the MEP, with its decision. A MEP whose worker is beyond
//	                                        the deadline is settled by the watchdog: it passes by time-out
//	4 Flush   (parallel: another goroutine) waits for the jobs whose Write has returned, then flushes the output
//
// A filter that cannot keep up holds the jobs, so Write waits, and what waits for a sink is the builder unit's to hold
// or to discard. Memory of a job is its own: a filter that hangs reads bytes that nobody else writes.

// waiting is how many MEPs may wait for a worker, for each: enough that none is idle while the finisher sleeps.
const waiting = 16

// jobBytes bounds the memory of jobs where MEPs are large; a job for each worker, and one more, there always are.
const jobBytes = 256 << 20

// Panel is filters that are not goroutines of this process.
type Panel interface {
	// Serve judges the cases that come, until ctx is done. Each goes to done once, with a verdict for each event; when ctx
	// is done, a case may stay behind. It returns when it uses none any more.
	Serve(ctx context.Context, cases chan *trigger.Case, done func(*trigger.Case))
	// Seats is how many cases it may have in hand.
	Seats() int
	// Times are how long it had events in hand, of all of them together and at most.
	Times() (judging, longest time.Duration)
}

// FilterConfig is what a Filtered is made with: with Filters, or with a Panel.
type FilterConfig struct {
	// Filters judge, each in a goroutine of its own.
	Filters  []trigger.Filter
	Panel    Panel
	Deadline time.Duration // for one event, from when its filter begins
	MostMEP  int           // the largest MEP there can be, bytes; 0: not known
	// Decided is told of each MEP that the output has, how long after its last byte: of n events in a row, from the place
	// i in the MEP on, that have one verdict. It must not wait. nil: nobody is told.
	Decided func(m Meta, i, n int, v trigger.Verdict, took time.Duration)
	Log     *slog.Logger
}

// Filtered is the sink that has a filter judge the events of each MEP, and gives it to another sink with the decision:
// a MEP is rejected if all its events are.
type Filtered struct {
	// immutable
	to    Sink
	cfg   FilterConfig
	free  chan *candidate    // without work
	todo  chan *trigger.Case // with room for all jobs
	quit  context.Context
	leave context.CancelFunc
	wg    sync.WaitGroup // workers and watchdog, or the panel

	workers []worker

	mu      sync.Mutex // guards what follows, the jobs' settled, and writing to the output
	settles sync.Cond  // a job was settled; of mu
	jobs    []*candidate
	written uint64 // jobs that Write has filled
	scratch []trigger.Verdict
	err     error // of the output; final
	closed  bool

	count filterCounts
}

// candidate is a MEP on its way. It belongs to whoever took it from free or todo.
type candidate struct {
	trigger.Case
	packet selection.Packet
	meta   Meta
	ctx    context.Context // of its Write
	judged atomic.Int64    // events of which Verdicts tells: those the worker does not touch again
	number uint64          // of the Write; guarded by mu
	open   bool            // it is filled, and not settled; guarded by mu
}

// mep is the MEP without its mark.
func (j *candidate) mep() []byte { return j.Entry[:len(j.Entry)-markBytes] }

// worker is what the watchdog sees of one.
type worker struct {
	filter trigger.Filter
	judges atomic.Pointer[candidate] // nil: it is not judging
	until  atomic.Int64              // deadline, ns since began
	began  time.Time                 // immutable
	times  eventTimes
}

// jobsOf is how many jobs there are: some for those who judge, and some that wait.
func jobsOf(cfg *FilterConfig) int {
	n := len(cfg.Filters)
	all := n*waiting + n // the second n may be with filters that hang
	if cfg.Panel != nil {
		n, all = 1, cfg.Panel.Seats()+waiting
	}
	if cfg.MostMEP > 0 {
		all = max(n+1, min(all, jobBytes/cfg.MostMEP))
	}
	return all
}

// NewFiltered puts filters before a sink, which is its own from now on.
func NewFiltered(to Sink, cfg FilterConfig) *Filtered {
	all := jobsOf(&cfg)
	f := &Filtered{
		to:      to,
		cfg:     cfg,
		free:    make(chan *candidate, all),
		todo:    make(chan *trigger.Case, all),
		workers: make([]worker, len(cfg.Filters)),
	}
	f.quit, f.leave = context.WithCancel(context.Background())
	f.settles.L = &f.mu
	for i := range all {
		j := &candidate{}
		j.Place = i
		f.jobs = append(f.jobs, j)
		f.free <- j
	}
	if cfg.Panel != nil {
		f.wg.Go(func() { cfg.Panel.Serve(f.quit, f.todo, f.done) })
		return f
	}
	for i := range f.workers {
		w := &f.workers[i]
		w.filter, w.began = cfg.Filters[i], time.Now()
		w.times.waits, w.times.in = newTimes(), newTimes()
		f.wg.Go(func() { f.work(w) })
	}
	f.wg.Go(f.watch)
	return f
}

// Panel is the filters that are not goroutines; nil: there are none.
func (f *Filtered) Panel() Panel { return f.cfg.Panel }

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
	j.fill(ctx, m, mep)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		f.free <- j
		return f.err
	}
	f.written++
	j.number, j.open = f.written, true
	f.todo <- &j.Case // there is room for all
	return nil
}

// fill makes it the job of a MEP.
func (j *candidate) fill(ctx context.Context, m Meta, mep []byte) {
	j.meta, j.ctx = m, ctx
	if m.Whole.IsZero() {
		j.meta.Whole = time.Now()
	}
	j.Meta = selection.Meta{Run: m.Run, MEP: m.MEP, Attempt: m.Attempt}
	j.First, j.Events = m.FirstEvent, m.Events
	j.Entry = slices.Grow(append(j.Entry[:0], mep...), markBytes)[:len(mep)+markBytes]
	putMark(j.Entry[len(mep):], m)
	j.Verdicts = slices.Grow(j.Verdicts[:0], m.Events)[:m.Events]
	clear(j.Verdicts)
	j.Returned = 0
	j.judged.Store(0)
}

// work judges MEPs until there will be no more.
func (f *Filtered) work(w *worker) {
	for {
		select {
		case <-f.quit.Done():
			return
		case c := <-f.todo:
			j := f.jobs[c.Place]
			f.judge(w, j)
			f.done(c)
		}
	}
}

// judge asks the worker's filter of each event.
func (f *Filtered) judge(w *worker, j *candidate) {
	if err := f.parse(j); err != nil {
		f.failed(err)
		j.Spread(0, trigger.Verdict{Decision: trigger.Failed})
		j.judged.Store(int64(j.Events))
		return
	}
	i := 0
	for e := range j.packet.Events() {
		v := f.judgeOne(w, j, &e)
		if v.Decision == trigger.TimedOut && !f.stillOpen(j) {
			return // the watchdog was here: nobody asks any more
		}
		j.Verdicts[i] = v
		i++
		j.judged.Store(int64(i))
	}
}

// parse views the MEP of a job.
func (f *Filtered) parse(j *candidate) error {
	if err := j.packet.Parse(j.Meta, j.mep()); err != nil {
		return err
	}
	if n := j.packet.N(); n != j.Events {
		return fmt.Errorf("MEP %d has %d events, and %d are told of", j.MEP, n, j.Events)
	}
	return nil
}

// failed counts an error of a filter, and tells of the first one.
func (f *Filtered) failed(err error) {
	if f.count.errors.Add(1) == 1 {
		f.cfg.Log.Warn("the filter could not judge an event, which passes; further ones are counted", "err", err)
	}
}

// judgeOne asks of one event. What a filter says too late does not count, even if the watchdog has not come by.
func (f *Filtered) judgeOne(w *worker, j *candidate, e *selection.Event) trigger.Verdict {
	begun := time.Now()
	deadline := begun.Add(f.cfg.Deadline)
	w.until.Store(int64(deadline.Sub(w.began)))
	w.judges.Store(j)
	v, err := f.ask(w, deadline, e)
	w.judges.Store(nil)
	now := time.Now()
	w.times.took(begun.Sub(j.meta.Whole), now.Sub(begun))
	f.count.took(now.Sub(begun))
	if err != nil {
		f.failed(err)
	}
	return trigger.Settle(v, err, deadline, now)
}

// ask asks the filter of an event. A filter that panics could not judge it.
func (f *Filtered) ask(w *worker, deadline time.Time, e *selection.Event) (v trigger.Verdict, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("event %d: the filter failed: %v", e.Number, r)
		}
	}()
	return w.filter.Judge(deadline, e)
}

// stillOpen tells whether a job is not settled.
func (f *Filtered) stillOpen(j *candidate) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return j.open
}

// done takes a case back, with its verdicts, and gives the MEP to the output, unless that was done.
func (f *Filtered) done(c *trigger.Case) {
	j := f.jobs[c.Place]
	f.mu.Lock()
	f.settleLocked(j, j.Verdicts)
	f.mu.Unlock()
	f.free <- j
}

func (f *Filtered) settleLocked(j *candidate, verdicts []trigger.Verdict) {
	if !j.open {
		return
	}
	j.meta.Decision = trigger.Together(verdicts)
	if f.err == nil {
		f.err = f.to.Write(j.ctx, j.meta, j.mep())
	}
	if f.err == nil {
		f.tell(j, verdicts)
	}
	j.open = false
	f.settles.Broadcast()
}

// tell counts what was decided, and tells of it: of events in a row that have one verdict at once.
func (f *Filtered) tell(j *candidate, verdicts []trigger.Verdict) {
	took := time.Since(j.meta.Whole)
	for i := 0; i < len(verdicts); {
		v, n := verdicts[i], 1
		for i+n < len(verdicts) && verdicts[i+n] == v {
			n++
		}
		f.count.decided[v.Decision].Add(uint64(n))
		if v.Decision == trigger.Rejected && j.meta.Decision.Keeps() {
			f.count.carried.Add(uint64(n))
		}
		if f.cfg.Decided != nil {
			f.cfg.Decided(j.meta, i, n, v, took)
		}
		i += n
	}
}

// watch settles what is with workers beyond their deadline. When all workers are, what waits passes too.
func (f *Filtered) watch() {
	tick := time.NewTicker(max(time.Millisecond, f.cfg.Deadline/4))
	defer tick.Stop()
	for {
		select {
		case <-f.quit.Done():
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
	f.settleLocked(j, f.overdue(j))
	return true
}

// overdue is the verdicts of a job whose worker is beyond its deadline: the event at hand and those behind it pass. The
// caller holds mu.
func (f *Filtered) overdue(j *candidate) []trigger.Verdict {
	n := int(j.judged.Load())
	f.scratch = append(f.scratch[:0], j.Verdicts[:n]...)
	for range j.Events - n {
		f.scratch = append(f.scratch, trigger.Verdict{Decision: trigger.TimedOut})
	}
	return f.scratch
}

// late tells whether the worker is beyond its deadline.
func (w *worker) late() bool {
	return w.judges.Load() != nil && int64(time.Since(w.began)) > w.until.Load()
}

// pass settles a MEP that waits for a worker. It is false when none does.
func (f *Filtered) pass() bool {
	select {
	case c := <-f.todo:
		c.Spread(0, trigger.Verdict{Decision: trigger.TimedOut})
		f.done(c)
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
	f.leave()
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
