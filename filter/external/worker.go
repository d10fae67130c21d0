package external

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ringlet/event"
	"ringlet/filter"
	"ringlet/filter/decision"
	"ringlet/shmem"
	"ringlet/shmem/ring"
)

// Pipeline of a worker (sequential, one goroutine for each):
//
//	1 open    makes a buffer for MEPs, which this process writes, and a ring for answers, which the filter process writes
//	2 await   a process attaches: it becomes the producer of the ring
//	3 serve   writes MEPs while the process may have more; reads, copies and checks answers
//	4 close   the process has gone, was dismissed, or the run is over. The memory is made anew, so that the next process
//	          gets nothing of the one before
//
// The process may overwrite the memory of its worker at any time. The MEPs in it are copies, and this process reads
// nothing of them back.

// worker is the place for one process, with the memory that they share.
type worker struct {
	pool *Pool
	// functions, kept so that a wait allocates none
	pollFunc  func() (bool, error)
	aliveFunc func() error

	// of the present opening
	number         int
	caseWriter     *shmem.Writer
	answerSegment  *shmem.Segment
	answerRing     *ring.Consumer
	core           core
	pendingCase    *filter.Case   // taken from the queue, without room in the buffer yet
	returnedCases  []*filter.Case // scratch
	accepting      bool           // it counts in the pool's acceptingWorkers
	overdueSince   time.Time      // since when the process is overdue
	lastAliveCheck time.Time      // when the worker last checked that the process lives
	fullSince      time.Time      // since when the process has answered all and the buffer has no room; zero: it has room
	refusedSeen    uint64         // refused records of the ring at the last look
}

// exitReason is why a worker ended its process.
type exitReason int

const (
	notExited   exitReason = iota // the run ended
	exitOrderly                   // it left
	exitCrashed                   // it died
	exitHung                      // it does not answer
	exitBroken                    // the contents of its memory are impossible
)

// Times of a worker.
const (
	attachPollInterval = 10 * time.Millisecond  // how soon a process is noticed that attaches without a wake-up
	aliveCheckInterval = 100 * time.Millisecond // how often the worker checks whether the process lives
	reopenDelay        = time.Second            // until the worker tries again to make its memory
	// maxAnswersPerStep bounds how many answers are read before the worker checks the time, if the process answers
	// without end.
	maxAnswersPerStep = 4096
)

// errRecheck makes serve check everything again after a wait.
var errRecheck = errors.New("look again")

// run serves one process after the other.
func (l *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case l.pool.vacancy <- struct{}{}:
		case <-ctx.Done():
			return
		}
		l.number = l.pool.allocateNumber()
		err := l.pool.recordOpen(l.open())
		if err != nil {
			sleep(ctx, reopenDelay)
		}
		came := err == nil && l.awaitProcess(ctx)
		<-l.pool.vacancy
		why, pid := notExited, uint32(0)
		if came {
			pid = l.answerRing.PID()
			l.attachProcess()
			why = l.serve(ctx)
			why = l.detachProcess(why)
		}
		if err := l.close(why == notExited); err != nil {
			l.pool.warn("the memory of a filter process was not closed", "err", err)
		}
		if came { // after close: a caller who sees the count finds no memory of the process any more
			l.countExit(why, pid)
		}
		l.pool.freeNumber(l.number)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// name returns the name of the worker's buffer. The ring for answers has the same name with answersSuffix behind it.
func (l *worker) name() string {
	return fmt.Sprintf("%s%s-%d-%d", segmentPrefix, l.pool.cfg.Name, l.pool.cfg.Builder, l.number)
}

const answersSuffix = "-answers"

// open makes the memory. The ring is made last: a process that finds it finds the buffer, too.
func (l *worker) open() (err error) {
	cfg := &l.pool.cfg
	dir := shmem.WithDir(cfg.segmentDir)
	l.core, l.pendingCase, l.refusedSeen = core{deadline: cfg.Deadline}, nil, 0
	l.overdueSince, l.fullSince = time.Time{}, time.Time{}
	for _, name := range []string{l.name(), l.name() + answersSuffix} {
		if _, err := shmem.Reclaim(name, dir); err != nil {
			return err
		}
	}
	if l.caseWriter, err = shmem.CreateWriter(l.name(), WorkerMemory(cfg.MaxMEPSize), shmem.Broadcast, dir); err != nil {
		return err
	}
	l.answerSegment, l.answerRing, err = ring.Create(l.name()+answersSuffix, ring.MinCapacity, ring.Settings{
		Use:    ring.Fragments,
		Source: uint16(cfg.Builder),
		Run:    uint64(cfg.Run),
	}, dir)
	return err
}

// close removes the memory. ended: the run is over; otherwise a process may attach to the next memory.
func (l *worker) close(ended bool) (err error) {
	if l.caseWriter != nil {
		if ended {
			err = l.caseWriter.End()
		}
		err = errors.Join(err, l.caseWriter.Close())
	}
	if l.answerRing != nil { // second: a process that finds the ring closed sees in the buffer whether the run is over
		l.answerRing.Close(false)
	}
	if l.answerSegment != nil {
		err = errors.Join(err, l.answerSegment.Close())
	}
	l.answerRing, l.caseWriter, l.answerSegment = nil, nil, nil
	return err
}

// awaitProcess waits until a process has attached; false: ctx ended.
func (l *worker) awaitProcess(ctx context.Context) bool {
	here := func() (bool, error) {
		_, attached := l.answerRing.ProducerState()
		return attached > 0, nil
	}
	return l.answerRing.Wait(ctx, attachPollInterval, here, func() error { return nil }) == nil
}

// serve has the process judge until it leaves or is dismissed, or ctx ends.
func (l *worker) serve(ctx context.Context) exitReason {
	l.lastAliveCheck = time.Now()
	for {
		if ctx.Err() != nil {
			return notExited
		}
		if why := l.step(time.Now()); why != notExited {
			return why
		}
		if why := l.feed(); why != notExited {
			return why
		}
		var err error
		if l.core.isIdle() && l.pendingCase == nil && !l.core.hasOverdue() {
			err = l.awaitCase(ctx)
		} else {
			err = l.answerRing.Wait(ctx, l.answerWait(time.Now()), l.pollFunc, l.aliveFunc)
		}
		if err != nil && !errors.Is(err, errRecheck) && ctx.Err() == nil {
			return l.dismiss(err)
		}
	}
}

// step reads answers, and checks the time and the process. notExited: serve goes on.
func (l *worker) step(now time.Time) exitReason {
	state, attached := l.answerRing.ProducerState() // before reading: answers from before the process left are then read
	if _, err := l.readAnswers(now); err != nil {
		return l.dismiss(err)
	}
	// Before expire: the event of a process that died has failed, and is not late.
	if late := !l.core.isIdle() && now.After(l.core.headDeadline()); late ||
		now.Sub(l.lastAliveCheck) >= aliveCheckInterval {
		l.lastAliveCheck = now
		if why := l.checkAlive(); why != notExited {
			return why
		}
	}
	var finished *filter.Case
	if finished, l.returnedCases = l.core.expire(now, l.returnedCases[:0]); finished != nil {
		l.overdueSince = now
		l.pool.warn("a filter process did not answer in time: the event passes", "pid", l.answerRing.PID(), "MEP",
			finished.MEP,
			"deadline", l.pool.cfg.Deadline)
	}
	if l.pendingCase != nil && l.core.hasOverdue() {
		l.pendingCase.TimesReturned++
		l.returnedCases, l.pendingCase = append(l.returnedCases, l.pendingCase), nil
	}
	l.publishCounts()
	if finished != nil {
		l.pool.done(finished)
	}
	l.pool.requeue(l.returnedCases)
	switch {
	case attached != 1 || state != ring.Attached:
		return exitOrderly
	case l.core.hasOverdue() && now.Sub(l.overdueSince) > l.hangTimeout(), !l.fullSince.IsZero() &&
		now.Sub(l.fullSince) > l.hangTimeout():
		return exitHung
	}
	return notExited
}

// checkAlive says whether the process lives: notExited if it does, otherwise exitCrashed or exitOrderly.
func (l *worker) checkAlive() exitReason {
	if lives, err := l.answerSegment.IsByteClaimed(ring.ProducerByte); err != nil || !lives {
		if state, _ := l.answerRing.ProducerState(); state != ring.Attached {
			return exitOrderly
		}
		return exitCrashed
	}
	return notExited
}

// hangTimeout is how long a process may be overdue before it is dismissed.
func (l *worker) hangTimeout() time.Duration {
	return min(max(10*l.pool.cfg.Deadline, time.Second), time.Minute)
}

// readAnswers reads the answers of the process, and returns how many there were.
func (l *worker) readAnswers(now time.Time) (n int, err error) {
	for n < maxAnswersPerStep {
		f, ok, err := l.answerRing.Next()
		if err != nil || !ok {
			l.countRefused()
			return n, err
		}
		n++
		var b [decision.ResultSize + 1]byte // one more: a longer record is no result
		copy(b[:], f.Data)                  // the process may overwrite it
		event, size := f.Number, len(f.Data)
		l.answerRing.Done(1)
		finished, what := l.core.applyAnswer(event, b[:min(size, decision.ResultSize+1)], now)
		if finished != nil {
			l.pool.done(finished)
			now = time.Now() // the output after the filter may have made done wait
		}
		if what != answerUsed {
			l.warnAnswer(what, event)
		}
	}
	return n, nil
}

// answerFaults are the log messages for answers that are not used.
var answerFaults = [...]string{
	answerLate:       "a filter process answered too late: the answer changes nothing",
	answerDoubled:    "a filter process answered twice on an event: the first answer counts",
	answerUnassigned: "a filter process answered on an event that it does not have: the answer changes nothing",
	answerInvalid:    "a filter process gave an answer that is no result of its event: the answer changes nothing",
}

func (l *worker) warnAnswer(what answerKind, event uint64) {
	l.pool.warn(answerFaults[what], "pid", l.answerRing.PID(), "event", event)
}

// countRefused counts records of the ring that are no answers.
func (l *worker) countRefused() {
	if n := l.answerRing.RefusedRecords(); n > l.refusedSeen {
		l.core.answerCounts[answerInvalid] += n - l.refusedSeen
		l.refusedSeen = n
		l.pool.warn(answerFaults[answerInvalid], "pid", l.answerRing.PID(), "event", "none")
	}
}

// dismiss logs why the memory of a worker cannot be trusted.
func (l *worker) dismiss(err error) exitReason {
	l.pool.warn("a filter process is dismissed: the contents of its memory are impossible", "pid", l.answerRing.PID(),
		"err", err)
	return exitBroken
}

// publishCounts adds the counters to the pool's, and updates whether the process accepts events.
func (l *worker) publishCounts() {
	l.pool.mu.Lock()
	l.pool.counts.add(&l.core)
	l.pool.mu.Unlock()
	if takes := !l.core.hasOverdue(); takes != l.accepting {
		l.accepting = takes
		l.pool.addAccepting(map[bool]int{true: 1, false: -1}[takes])
	}
}

// feed gives the process waiting cases, as long as it may have more.
func (l *worker) feed() exitReason {
	for l.core.acceptsCase() {
		if l.pendingCase == nil {
			select {
			case l.pendingCase = <-l.pool.cases:
			default:
				return notExited
			}
		}
		ok, err := l.handOver(l.pendingCase)
		switch {
		case err != nil:
			return l.dismiss(err)
		case !ok:
			if l.core.isIdle() && l.fullSince.IsZero() {
				l.fullSince = time.Now()
			}
			return notExited
		}
		l.pendingCase, l.fullSince = nil, time.Time{}
	}
	return notExited
}

// handOver writes a case into the buffer; false: there is no room yet.
func (l *worker) handOver(c *filter.Case) (bool, error) {
	place, ok, err := l.caseWriter.TryReserve(len(c.Entry))
	if err != nil || !ok {
		return false, err
	}
	copy(place.Data, c.Entry)
	l.core.assign(c, time.Now())
	return true, l.caseWriter.Commit(place, len(c.Entry), uint32(event.MEPMagic))
}

// awaitCase waits for a case while the process has none.
func (l *worker) awaitCase(ctx context.Context) error {
	timer := time.NewTimer(aliveCheckInterval)
	defer timer.Stop()
	select {
	case l.pendingCase = <-l.pool.cases:
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}

// answerWait returns how long to wait for an answer: until the deadline of the first unanswered event, or the next
// checkAlive.
func (l *worker) answerWait(now time.Time) time.Duration {
	nap := aliveCheckInterval
	if !l.core.isIdle() {
		nap = min(nap, l.core.headDeadline().Sub(now))
	} else if l.pendingCase != nil { // the process has answered all, and frees the room when it reads on
		nap = time.Millisecond
	}
	return max(nap, 50*time.Microsecond)
}

// pollAnswers reads answers, and says whether there were any, or the process has left.
func (l *worker) pollAnswers() (bool, error) {
	state, attached := l.answerRing.ProducerState()
	n, err := l.readAnswers(time.Now())
	return n > 0 || attached != 1 || state != ring.Attached, err
}

// attachProcess counts and logs a process that has attached.
func (l *worker) attachProcess() {
	p := l.pool
	p.mu.Lock()
	p.counts.processes++
	p.counts.attached++
	p.mu.Unlock()
	p.cfg.Log.Info("a filter process has come", "filter", p.cfg.Name, "builder", p.cfg.Builder, "pid", l.answerRing.PID())
	l.accepting = true
	p.addAccepting(1)
}

// detachProcess ends with a process, and returns its unanswered cases to other processes. It returns the reason, which
// the last answers may have changed.
func (l *worker) detachProcess(why exitReason) exitReason {
	if why != exitBroken {
		if _, err := l.readAnswers(time.Now()); err != nil { // the last answers
			why = l.dismiss(err)
		}
	}
	var d filter.Decision // 0: its cases are returned
	if why == exitCrashed && l.diedWithCase() {
		d = filter.Failed
	}
	l.returnedCases = l.returnedCases[:0]
	var finished *filter.Case
	if why != notExited {
		finished, l.returnedCases = l.core.releaseCases(d, l.returnedCases)
		if l.pendingCase != nil {
			l.returnedCases, l.pendingCase = append(l.returnedCases, l.pendingCase), nil
		}
	}
	if l.accepting {
		l.accepting = false
		l.pool.addAccepting(-1)
	}
	if finished != nil {
		l.pool.done(finished)
	}
	l.pool.requeue(l.returnedCases)
	return why
}

// diedWithCase says that the process died while it had a MEP, as far as its acknowledgements tell. The kernel releases
// its locks one by one, so the reader's lock may still be held for a moment.
func (l *worker) diedWithCase() bool {
	for range 20 {
		dead, err := l.caseWriter.DetachDead()
		if err != nil {
			return true
		}
		for _, d := range dead {
			return d.Unacked > 0
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

// countExit counts and logs why a process ended.
func (l *worker) countExit(why exitReason, pid uint32) {
	p := l.pool
	p.mu.Lock()
	c := &p.counts
	c.add(&l.core)
	c.processes--
	switch why {
	case exitOrderly:
		c.exited++
	case exitCrashed:
		c.crashed++
	case exitHung:
		c.hung++
	case exitBroken:
		c.broken++
	case notExited:
	}
	p.mu.Unlock()
	switch why {
	case exitOrderly:
		p.cfg.Log.Info("a filter process has left", "filter", p.cfg.Name, "builder", p.cfg.Builder, "pid", pid)
	case exitCrashed:
		p.warn("a filter process has died: an event that it had in hand passes as failed", "pid", pid)
	case exitHung:
		p.warn("a filter process is dismissed, since it does not answer: it may come again", "pid", pid)
	case exitBroken, notExited:
	}
}
