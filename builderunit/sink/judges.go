package sink

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ringlet/event/selection"
	"ringlet/filter"
)

// Pipeline of a MEP that is judged:
//
//	1 claim, submit (sequential)          a free job has a copy; there are so many, and claimJob waits for one
//	2 judge         (parallel: workers)   a filter of the worker's own says accepted or rejected of each event; or a
//	                                      Panel does, which is processes of others (docs/design/053)
//	3 finish        (under mu)            onVerdicts is called, once. A MEP whose worker is beyond the deadline is
//	                                      finished by the watchdog: it passes by time-out
//
// A filter that cannot keep up holds the jobs. Memory of a job is its own: a filter that hangs reads bytes that nobody
// else writes.

// queuedPerWorker is how many MEPs may wait for a worker, for each: enough that none is idle while the finisher sleeps.
const queuedPerWorker = 16

// maxJobBytes bounds the memory of jobs where MEPs are large; a job for each worker, and one more, there always are.
const maxJobBytes = 256 << 20

// ExternalFilter is filters that are not goroutines of this process.
type ExternalFilter interface {
	// Serve judges the cases that come, until ctx is done. Each goes to done once, with a verdict for each event; when ctx
	// is done, a case may stay behind. It returns when it uses none any more.
	Serve(ctx context.Context, cases chan *filter.Case, done func(*filter.Case))
	// MaxCases is how many cases it may have in hand.
	MaxCases() int
	// JudgeTimes are how long it had events in hand, of all of them together and at most.
	JudgeTimes() (judging, longest time.Duration)
}

// FilterConfig is what a Filtered is made with: with Filters, or with a Panel.
type FilterConfig struct {
	// Filters judge, each in a goroutine of its own.
	Filters       []filter.Filter
	External      ExternalFilter
	EventDeadline time.Duration // for one event, from when its filter begins
	MaxMEPBytes   int           // the largest MEP there can be, bytes; 0: not known
	// MaxRegions is how many MEPs may have a region of interest judged at a time. There is a job for each, whatever it
	// takes: they hold slots of the builder unit, and their regions are parts of these.
	MaxRegions int
	// OnDecision gets each MEP that the output has, and of each that was rejected by its region of interest, how
	// long after its last byte: of n events in a row, from the place i in the MEP on, that have one verdict. It must not
	// wait, and may be called by several at once. nil: nobody is told.
	OnDecision func(m Meta, i, n int, v filter.Verdict, took time.Duration)
	Log        *slog.Logger
}

// judges are the filters of a builder unit, and the MEPs that they judge.
type judges struct {
	// immutable
	cfg        FilterConfig
	onVerdicts func(j *filterJob, verdicts []filter.Verdict) // what a job's verdicts lead to; the caller holds mu
	freeJobs   chan *filterJob                               // without work
	caseQueue  chan *filter.Case                             // with room for all jobs
	quit       context.Context
	cancel     context.CancelFunc
	wg         sync.WaitGroup // workers and watchdog, or the Panel

	workers []worker

	mu        sync.Mutex // guards what follows, and the jobs' open
	jobDone   sync.Cond  // a job was finished; of mu
	jobs      []*filterJob
	submitted uint64 // jobs that were submitted
	scratch   []filter.Verdict
	err       error // nothing more is judged; final
	closed    bool

	count     counted[FilterStats] // without the times in filters
	warnError sync.Once
}

// filterJob is a MEP on its way. It belongs to whoever took it from free or queue.
type filterJob struct {
	filter.Case
	packet       selection.Packet
	meta         Meta
	ctx          context.Context // of its Write
	judgedEvents atomic.Int64    // events of which Verdicts tells: those the worker does not touch again
	number       uint64          // of the Write; guarded by mu
	isUnfinished bool            // it is filled, and not finished; guarded by mu

	client RegionClient // whose region of interest it is, of what lies in slot; nil: it is a MEP for the output
	slot   int
}

// mep is the MEP without its mark.
func (j *filterJob) mep() []byte { return j.Entry[:len(j.Entry)-markBytes] }

// worker is what the watchdog sees of one.
type worker struct {
	filter   filter.Filter
	event    selection.Event           // at hand; the worker's alone
	current  atomic.Pointer[filterJob] // nil: it is not judging
	deadline atomic.Int64              // ns since started
	started  time.Time                 // immutable
	times    eventTimes
}

// jobCount is how many jobs there are: some for those who judge, and some that wait.
func jobCount(cfg *FilterConfig) int {
	n := len(cfg.Filters)
	total := n*queuedPerWorker + n // the second n may be with filters that hang
	if cfg.External != nil {
		n, total = 1, cfg.External.MaxCases()+queuedPerWorker
	}
	if cfg.MaxMEPBytes > 0 {
		total = max(n+1, min(total, maxJobBytes/cfg.MaxMEPBytes))
	}
	if cfg.MaxRegions > 0 {
		total = max(total, cfg.MaxRegions+n)
	}
	return total
}

// start lets the filters judge. onVerdicts is called with the verdicts of each job.
func (f *judges) start(cfg FilterConfig, onVerdicts func(*filterJob, []filter.Verdict)) {
	total := jobCount(&cfg)
	f.cfg, f.onVerdicts = cfg, onVerdicts
	f.freeJobs, f.caseQueue = make(chan *filterJob, total), make(chan *filter.Case, total)
	f.workers = make([]worker, len(cfg.Filters))
	f.quit, f.cancel = context.WithCancel(context.Background())
	f.jobDone.L = &f.mu
	for i := range total {
		j := &filterJob{}
		j.Index = i
		f.jobs = append(f.jobs, j)
		f.freeJobs <- j
	}
	if cfg.External != nil {
		f.wg.Go(func() { cfg.External.Serve(f.quit, f.caseQueue, f.finishCase) })
		return
	}
	for i := range f.workers {
		w := &f.workers[i]
		w.filter, w.started = cfg.Filters[i], time.Now()
		w.times.waitTimes, w.times.judgeTimes = newTimeHistogram(), newTimeHistogram()
		f.wg.Go(func() { f.runWorker(w) })
	}
	f.wg.Go(f.runWatchdog)
}

// claimJob waits for a free job, which ctx bounds.
func (f *judges) claimJob(ctx context.Context) (j *filterJob, err error) {
	select {
	case j = <-f.freeJobs:
		return j, nil
	default:
	}
	at := time.Now()
	select {
	case j = <-f.freeJobs:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	f.count.update(func(s *FilterStats) { s.WaitTime += time.Since(at) })
	return j, nil
}

// submit has a job judged that is filled.
func (f *judges) submit(j *filterJob) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		f.freeJobs <- j
		return f.err
	}
	f.submitted++
	j.number, j.isUnfinished = f.submitted, true
	f.caseQueue <- &j.Case // there is room for all
	return nil
}

// fill makes it the job of a MEP.
func (j *filterJob) fill(ctx context.Context, m Meta, mep []byte) {
	j.meta, j.ctx = m, ctx
	if m.CompletedAt.IsZero() {
		j.meta.CompletedAt = time.Now()
	}
	j.Meta = selection.Meta{Run: m.Run, MEP: m.MEP, Attempt: m.Attempt}
	j.FirstEvent, j.Events = m.FirstEvent, m.Events
	j.Entry = slices.Grow(append(j.Entry[:0], mep...), markBytes)[:len(mep)+markBytes]
	encodeMark(j.Entry[len(mep):], m)
	j.Verdicts = slices.Grow(j.Verdicts[:0], m.Events)[:m.Events]
	clear(j.Verdicts)
	j.TimesReturned, j.client = 0, nil
	j.judgedEvents.Store(0)
}

// runWorker judges MEPs until there will be no more.
func (f *judges) runWorker(w *worker) {
	for {
		select {
		case <-f.quit.Done():
			return
		case c := <-f.caseQueue:
			j := f.jobs[c.Index]
			f.judge(w, j)
			f.finishCase(c)
		}
	}
}

// judge asks the worker's filter of each event.
func (f *judges) judge(w *worker, j *filterJob) {
	if err := f.parse(j); err != nil {
		f.warnOnce(err)
		j.FillVerdicts(0, filter.Verdict{Decision: filter.Failed})
		j.judgedEvents.Store(int64(j.Events))
		return
	}
	i := 0
	for w.event = range j.packet.Events() {
		v := f.judgeEvent(w, j)
		if v.Decision == filter.TimedOut && !f.isOpen(j) {
			return // the watchdog was here: nobody asks any more
		}
		j.Verdicts[i] = v
		i++
		j.judgedEvents.Store(int64(i))
	}
}

// parse views the MEP of a job.
func (f *judges) parse(j *filterJob) error {
	if err := j.packet.Parse(j.Meta, j.mep()); err != nil {
		return err
	}
	if n := j.packet.NumEvents(); n != j.Events {
		return fmt.Errorf("MEP %d has %d events, and %d are told of", j.MEP, n, j.Events)
	}
	return nil
}

// warnOnce logs the first error of a filter.
func (f *judges) warnOnce(err error) {
	f.warnError.Do(func() {
		f.cfg.Log.Warn("the filter could not judge an event, which passes; further ones are counted", "err", err)
	})
}

// judgeEvent asks of one event. What a filter says too late does not count, even if the watchdog has not come by.
func (f *judges) judgeEvent(w *worker, j *filterJob) filter.Verdict {
	begun := time.Now()
	deadline := begun.Add(f.cfg.EventDeadline)
	w.deadline.Store(int64(deadline.Sub(w.started)))
	w.current.Store(j)
	v, err := f.runFilter(w, deadline)
	w.current.Store(nil)
	now := time.Now()
	w.times.record(begun.Sub(j.meta.CompletedAt), now.Sub(begun))
	if err != nil {
		f.warnOnce(err)
	}
	return filter.FinalVerdict(v, err, deadline, now)
}

// runFilter asks the filter of an event. A filter that panics could not judge it.
func (f *judges) runFilter(w *worker, deadline time.Time) (v filter.Verdict, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("event %d: the filter failed: %v", w.event.Number, r)
		}
	}()
	return w.filter.Judge(deadline, &w.event)
}

// isOpen tells whether a job is not finished.
func (f *judges) isOpen(j *filterJob) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return j.isUnfinished
}

// finishCase takes a case back, with its verdicts, and finishes it, unless that was done.
func (f *judges) finishCase(c *filter.Case) {
	j := f.jobs[c.Index]
	f.mu.Lock()
	f.finishLocked(j, j.Verdicts)
	f.mu.Unlock()
	f.freeJobs <- j
}

func (f *judges) finishLocked(j *filterJob, verdicts []filter.Verdict) {
	if !j.isUnfinished {
		return
	}
	f.onVerdicts(j, verdicts)
	j.isUnfinished = false
	f.jobDone.Broadcast()
}

// runWatchdog finishes what is with workers beyond their deadline. When all workers are, what waits passes too.
func (f *judges) runWatchdog() {
	tick := time.NewTicker(max(time.Millisecond, f.cfg.EventDeadline/4))
	defer tick.Stop()
	for {
		select {
		case <-f.quit.Done():
			return
		case <-tick.C:
		}
		stuck := 0
		for i := range f.workers {
			if f.finishOverdue(&f.workers[i]) {
				stuck++
			}
		}
		f.count.update(func(s *FilterStats) { s.StuckWorkers = stuck })
		for stuck == len(f.workers) && f.timeOutWaiting() {
		}
	}
}

// finishOverdue tells whether a worker is beyond its deadline; the MEP in its hand is finished then.
func (f *judges) finishOverdue(w *worker) bool {
	if !w.isOverdue() {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	// Whatever the worker judges now is not finished before the worker has passed mu, and of that the deadline is set
	// before: so both are of one MEP.
	j := w.current.Load()
	if j == nil || !w.isOverdue() {
		return false
	}
	f.finishLocked(j, f.overdueVerdicts(j))
	return true
}

// overdueVerdicts is the verdicts of a job whose worker is beyond its deadline: the event at hand and those behind it
// pass. The caller holds mu.
func (f *judges) overdueVerdicts(j *filterJob) []filter.Verdict {
	n := int(j.judgedEvents.Load())
	f.scratch = append(f.scratch[:0], j.Verdicts[:n]...)
	for range j.Events - n {
		f.scratch = append(f.scratch, filter.Verdict{Decision: filter.TimedOut})
	}
	return f.scratch
}

// isOverdue tells whether the worker is beyond its deadline.
func (w *worker) isOverdue() bool {
	return w.current.Load() != nil && int64(time.Since(w.started)) > w.deadline.Load()
}

// timeOutWaiting finishes a MEP that waits for a worker. It is false when none does.
func (f *judges) timeOutWaiting() bool {
	select {
	case c := <-f.caseQueue:
		c.FillVerdicts(0, filter.Verdict{Decision: filter.TimedOut})
		f.finishCase(c)
		return true
	default:
		return false
	}
}

// waitForDecisions waits until the MEPs for the output that were submitted have their decisions.
func (f *judges) waitForDecisions() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for last := f.submitted; f.hasOpenUpTo(last) && f.err == nil; {
		f.jobDone.Wait()
	}
	return f.err
}

func (f *judges) hasOpenUpTo(last uint64) bool {
	for _, j := range f.jobs {
		if j.isUnfinished && j.client == nil && j.number <= last {
			return true
		}
	}
	return false
}

// stop ends the workers. One whose filter hangs is left behind: nothing in Go can end it.
func (f *judges) stop() {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return
	}
	f.closed = true
	if f.err == nil {
		f.err = errFilterClosed
	}
	f.jobDone.Broadcast()
	f.mu.Unlock()
	f.cancel()
	ended := make(chan struct{})
	go func() {
		f.wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(f.cfg.EventDeadline + stopTimeout):
		f.cfg.Log.Warn("a filter did not come back from an event; its goroutine is left behind", "deadline",
			f.cfg.EventDeadline)
	}
}

// stopTimeout is how long workers are waited for beyond their deadline.
const stopTimeout = time.Second
