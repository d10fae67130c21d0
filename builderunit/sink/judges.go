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
//	1 claim, submit (sequential)          copies the MEP into a free job; if there is none, claimJob waits for one
//	2 judge         (parallel: workers)   the filter of the worker accepts or rejects each event; or external filters
//	                                      do, in processes of users (docs/design/056)
//	3 finish        (under mu)            calls onVerdicts, once. If a worker is beyond its deadline, the watchdog
//	                                      finishes its MEP: the events pass by time-out
//
// A filter that cannot keep up keeps all jobs busy. Each job has memory of its own, so that no other goroutine writes
// the bytes that a hanging filter reads.

// queuedPerWorker is how many MEPs per worker may wait: enough that no worker is idle while the finisher sleeps.
const queuedPerWorker = 16

// maxJobBytes bounds the memory of jobs if MEPs are large; there is at least one job for each worker, and one more.
const maxJobBytes = 256 << 20

// ExternalFilter is filters that run outside of this process.
type ExternalFilter interface {
	// Serve judges the cases that come, until ctx ends. It calls done once for each case, with a verdict for each event;
	// when ctx ends, some cases may be without. It returns when it uses no case any more.
	Serve(ctx context.Context, cases chan *filter.Case, done func(*filter.Case))
	// MaxCases is how many cases Serve has at most at a time.
	MaxCases() int
	// JudgeTimes returns how long it judged events, in sum and for the longest one.
	JudgeTimes() (judging, longest time.Duration)
}

// FilterConfig is the configuration of a FilterSink: with Filters, or with External.
type FilterConfig struct {
	// Filters judge events, each in a goroutine of its own.
	Filters       []filter.Filter
	External      ExternalFilter
	EventDeadline time.Duration // for one event, from when its filter begins
	MaxMEPBytes   int           // size of the largest MEP, in bytes; 0: unknown
	// MaxRegions is how many MEPs may have a region of interest judged at a time. There is a job for each, whatever
	// memory it takes: they are limited by slots of the builder unit, and their regions are parts of these.
	MaxRegions int
	// OnDecision is called for each MEP that the output has, and for each that was rejected by its region of interest:
	// with n consecutive events from place i of the MEP on that have one verdict, and the time since its last byte. It
	// must not wait, and may be called by several goroutines at once. nil: decisions are not reported.
	OnDecision func(m Meta, i, n int, v filter.Verdict, took time.Duration)
	Log        *slog.Logger
}

// judges are the filters of a builder unit, and the MEPs that they judge.
type judges struct {
	// immutable
	cfg        FilterConfig
	onVerdicts func(j *filterJob, verdicts []filter.Verdict) // acts on a job's verdicts; the caller holds mu
	freeJobs   chan *filterJob                               // jobs without work
	caseQueue  chan *filter.Case                             // with room for all jobs
	quit       context.Context
	cancel     context.CancelFunc
	wg         sync.WaitGroup // workers and watchdog, or External

	workers []worker

	mu        sync.Mutex // guards what follows, and the jobs' open
	jobDone   sync.Cond  // signals that a job was finished; uses mu
	jobs      []*filterJob
	submitted uint64 // jobs that were submitted
	scratch   []filter.Verdict
	err       error // no more MEPs are judged; final
	closed    bool

	count     counted[FilterStats] // without the times in filters
	warnError sync.Once
}

// filterJob is a MEP on its way through the filters. The goroutine that took it from freeJobs or caseQueue owns it.
type filterJob struct {
	filter.Case
	packet       selection.Packet
	meta         Meta
	ctx          context.Context // of the Write that brought the MEP
	judgedEvents atomic.Int64    // events whose Verdicts are final: the worker does not touch these again
	number       uint64          // counts the calls of Write: the number of the one that brought the MEP; guarded by mu
	isUnfinished bool            // it is submitted and not finished; guarded by mu

	client RegionClient // it gets the verdicts on the region in slot; nil: the job is a MEP for the output
	slot   int
}

// mep returns the MEP without its mark.
func (j *filterJob) mep() []byte { return j.Entry[:len(j.Entry)-markBytes] }

// worker is one filter with the state that the watchdog sees.
type worker struct {
	filter   filter.Filter
	event    selection.Event           // being judged; only the worker uses it
	current  atomic.Pointer[filterJob] // nil: it is not judging
	deadline atomic.Int64              // ns since started
	started  time.Time                 // immutable
	times    eventTimes
}

// jobCount returns how many jobs there are: some being judged, and some waiting.
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

// start starts the filters. onVerdicts is called with the verdicts of each job.
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

// claimJob waits for a free job until ctx ends.
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

// submit queues a filled job.
func (f *judges) submit(j *filterJob) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		f.freeJobs <- j
		return f.err
	}
	f.submitted++
	j.number, j.isUnfinished = f.submitted, true
	f.caseQueue <- &j.Case // caseQueue has room for all jobs
	return nil
}

// fill copies a MEP into the job.
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

// runWorker judges MEPs until stop.
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

// judge asks the worker's filter about each event.
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
			return // the watchdog has finished the job
		}
		j.Verdicts[i] = v
		i++
		j.judgedEvents.Store(int64(i))
	}
}

// parse finds the events of a job's MEP.
func (f *judges) parse(j *filterJob) error {
	if err := j.packet.Parse(j.Meta, j.mep()); err != nil {
		return err
	}
	if n := j.packet.NumEvents(); n != j.Events {
		return fmt.Errorf("MEP %d has %d events, and its metadata says %d", j.MEP, n, j.Events)
	}
	return nil
}

// warnOnce logs the first error of a filter.
func (f *judges) warnOnce(err error) {
	f.warnError.Do(func() {
		f.cfg.Log.Warn("the filter could not judge an event, which passes; further ones are counted", "err", err)
	})
}

// judgeEvent asks the filter about one event. A verdict after the deadline does not count, even if the watchdog has
// not noticed yet.
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

// runFilter calls the filter for an event. A panic counts as a failure to judge.
func (f *judges) runFilter(w *worker, deadline time.Time) (v filter.Verdict, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("event %d: the filter failed: %v", w.event.Number, r)
		}
	}()
	return w.filter.Judge(deadline, &w.event)
}

// isOpen says whether a job is not finished.
func (f *judges) isOpen(j *filterJob) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return j.isUnfinished
}

// finishCase takes a case with its verdicts back, and finishes its job unless the watchdog has.
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

// runWatchdog finishes the jobs of workers beyond their deadline. If all workers are, the waiting jobs pass, too.
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

// finishOverdue says whether a worker is beyond its deadline, and if so finishes the job that it judges.
func (f *judges) finishOverdue(w *worker) bool {
	if !w.isOverdue() {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	// The worker must pass mu before its next job is current, and sets the deadline before: so job and deadline belong
	// together.
	j := w.current.Load()
	if j == nil || !w.isOverdue() {
		return false
	}
	f.finishLocked(j, f.overdueVerdicts(j))
	return true
}

// overdueVerdicts returns the verdicts of a job whose worker is beyond its deadline: the event being judged and those
// after it pass. The caller holds mu.
func (f *judges) overdueVerdicts(j *filterJob) []filter.Verdict {
	n := int(j.judgedEvents.Load())
	f.scratch = append(f.scratch[:0], j.Verdicts[:n]...)
	for range j.Events - n {
		f.scratch = append(f.scratch, filter.Verdict{Decision: filter.TimedOut})
	}
	return f.scratch
}

// isOverdue says whether the worker is beyond its deadline.
func (w *worker) isOverdue() bool {
	return w.current.Load() != nil && int64(time.Since(w.started)) > w.deadline.Load()
}

// timeOutWaiting finishes a job that waits for a worker; false if none waits.
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

// waitForDecisions waits until the submitted MEPs for the output have their decisions.
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

// stop ends the workers. A worker whose filter hangs stays: Go cannot end its goroutine.
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

// stopTimeout is how long stop waits for workers beyond their deadline.
const stopTimeout = time.Second
