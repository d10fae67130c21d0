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
//	1 open    a buffer for MEPs, in which this process writes, and a ring for answers, in which the filter's does
//	2 await   a process takes the place: it fills the ring
//	3 serve   MEPs go in as long as the process may have more of them; answers come out, are copied and checked
//	4 close   the process has gone, was dismissed, or the run is over. The memory is made anew: nothing of one process
//	          is left to the next
//
// What is in the memory of a worker may be written over by its process at any time. The MEPs in it are copies, of which
// nothing is read back.

// worker is the place of one process.
type worker struct {
	pool *Pool
	// pollFunc and aliveFunc are functions, kept so that a wait makes no new ones
	pollFunc  func() (bool, error)
	aliveFunc func() error

	// of this opening
	number         int
	caseWriter     *shmem.Writer
	answerSegment  *shmem.Segment
	answerRing     *ring.Consumer
	core           core
	pendingCase    *filter.Case   // taken, and without room yet
	returnedCases  []*filter.Case // scratch
	accepting      bool           // it counts as one whose process takes events
	overdueSince   time.Time      // the process is behind from then on
	lastAliveCheck time.Time      // whether the process lives, last
	fullSince      time.Time      // the process has answered all, and gives no room since then; zero: there is room
	refusedSeen    uint64         // records that were refused, as last seen
}

// exitReason is why a process is served no more.
type exitReason int

const (
	notExited   exitReason = iota // the run is
	exitOrderly                   // it left
	exitCrashed                   // it died
	exitHung                      // it does not answer
	exitBroken                    // what it wrote cannot be
)

// Times of a worker.
const (
	attachPollInterval = 10 * time.Millisecond  // how soon a process that rings no bell is seen to come
	aliveCheckInterval = 100 * time.Millisecond // how often a process is asked whether it lives
	reopenDelay        = time.Second            // until memory that could not be made is tried again
	// maxAnswersPerStep bounds what a process that answers without end keeps its worker's goroutine from looking at the
	// time.
	maxAnswersPerStep = 4096
)

// errRecheck makes a wait look at everything anew.
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
		if came { // who hears of it finds no memory of the process any more
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

// name is that of the worker's buffer; the ring has answersSuffix behind it.
func (l *worker) name() string {
	return fmt.Sprintf("%s%s-%d-%d", segmentPrefix, l.pool.cfg.Name, l.pool.cfg.Builder, l.number)
}

const answersSuffix = "-answers"

// open makes the memory. The ring comes last: a process that has it finds the buffer.
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

// close takes the memory away. ended: the run is over; else the process may come again.
func (l *worker) close(ended bool) (err error) {
	if l.caseWriter != nil {
		if ended {
			err = l.caseWriter.End()
		}
		err = errors.Join(err, l.caseWriter.Close())
	}
	if l.answerRing != nil { // after the buffer: a process that finds the ring closed sees there whether the run is over
		l.answerRing.Close(false)
	}
	if l.answerSegment != nil {
		err = errors.Join(err, l.answerSegment.Close())
	}
	l.answerRing, l.caseWriter, l.answerSegment = nil, nil, nil
	return err
}

// awaitProcess waits until a process has taken the place; false: ctx is done.
func (l *worker) awaitProcess(ctx context.Context) bool {
	here := func() (bool, error) {
		_, attached := l.answerRing.ProducerState()
		return attached > 0, nil
	}
	return l.answerRing.Wait(ctx, attachPollInterval, here, func() error { return nil }) == nil
}

// serve has the process judge until it goes, or has to.
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

// step looks at answers, the time, and the process. over: it is served further.
func (l *worker) step(now time.Time) exitReason {
	state, attached := l.answerRing.ProducerState() // first: what was answered before the process went counts
	if _, err := l.readAnswers(now); err != nil {
		return l.dismiss(err)
	}
	// Before its event is late: that of a process that died has failed, and is not late.
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

// checkAlive says whether the process lives: exitCrashed, exitOrderly, or notExited, which is that it does.
func (l *worker) checkAlive() exitReason {
	if lives, err := l.answerSegment.IsByteClaimed(ring.ProducerByte); err != nil || !lives {
		if state, _ := l.answerRing.ProducerState(); state != ring.Attached {
			return exitOrderly
		}
		return exitCrashed
	}
	return notExited
}

// hangTimeout is how long a process may be behind before it is dismissed.
func (l *worker) hangTimeout() time.Duration {
	return min(max(10*l.pool.cfg.Deadline, time.Second), time.Minute)
}

// readAnswers takes what the process has answered, and says how much that was.
func (l *worker) readAnswers(now time.Time) (n int, err error) {
	for n < maxAnswersPerStep {
		f, ok, err := l.answerRing.Next()
		if err != nil || !ok {
			l.countRefused()
			return n, err
		}
		n++
		var b [decision.ResultSize + 1]byte // one more: what is longer is no result
		copy(b[:], f.Data)                  // the process may write over it
		event, size := f.Number, len(f.Data)
		l.answerRing.Done(1)
		finished, what := l.core.applyAnswer(event, b[:min(size, decision.ResultSize+1)], now)
		if finished != nil {
			l.pool.done(finished)
			now = time.Now() // a full disk behind the filter may have held this up
		}
		if what != answerUsed {
			l.warnAnswer(what, event)
		}
	}
	return n, nil
}

// answerFaults say what is wrong with an answer.
var answerFaults = [...]string{
	answerLate:       "a filter process answered too late: the answer changes nothing",
	answerDoubled:    "a filter process answered twice on an event: the first answer counts",
	answerUnassigned: "a filter process answered on an event that it does not have: the answer changes nothing",
	answerInvalid:    "a filter process gave an answer that is no result of its event: the answer changes nothing",
}

func (l *worker) warnAnswer(what answerKind, event uint64) {
	l.pool.warn(answerFaults[what], "pid", l.answerRing.PID(), "event", event)
}

// countRefused counts records of the ring that hold no answer.
func (l *worker) countRefused() {
	if n := l.answerRing.RefusedRecords(); n > l.refusedSeen {
		l.core.answerCounts[answerInvalid] += n - l.refusedSeen
		l.refusedSeen = n
		l.pool.warn(answerFaults[answerInvalid], "pid", l.answerRing.PID(), "event", "none")
	}
}

// dismiss tells why nothing in the memory of a worker can be believed.
func (l *worker) dismiss(err error) exitReason {
	l.pool.warn("a filter process is dismissed: what stands in its memory cannot be", "pid", l.answerRing.PID(), "err",
		err)
	return exitBroken
}

// publishCounts tells the pool what was counted, and whether the process takes events.
func (l *worker) publishCounts() {
	l.pool.mu.Lock()
	l.pool.counts.add(&l.core)
	l.pool.mu.Unlock()
	if takes := !l.core.hasOverdue(); takes != l.accepting {
		l.accepting = takes
		l.pool.addAccepting(map[bool]int{true: 1, false: -1}[takes])
	}
}

// feed hands over what there is, as long as the process may have more.
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

// awaitCase waits for a case while the process has nothing to do.
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

// answerWait is how long to wait for an answer: until the event at hand is too late, or the process is to be asked
// after.
func (l *worker) answerWait(now time.Time) time.Duration {
	nap := aliveCheckInterval
	if !l.core.isIdle() {
		nap = min(nap, l.core.headDeadline().Sub(now))
	} else if l.pendingCase != nil { // it has answered all, and gives the room back when it asks for more
		nap = time.Millisecond
	}
	return max(nap, 50*time.Microsecond)
}

// pollAnswers takes answers, and tells whether there were any, or something is to be done about the process.
func (l *worker) pollAnswers() (bool, error) {
	state, attached := l.answerRing.ProducerState()
	n, err := l.readAnswers(time.Now())
	return n > 0 || attached != 1 || state != ring.Attached, err
}

// attachProcess takes that a process is there.
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

// detachProcess takes that the process is served no more, and gives what it had to others. It gives back why, which the
// last answers may have changed.
func (l *worker) detachProcess(why exitReason) exitReason {
	if why != exitBroken {
		if _, err := l.readAnswers(time.Now()); err != nil { // the last ones
			why = l.dismiss(err)
		}
	}
	var d filter.Decision // given back
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

// diedWithCase says that the process died with a MEP in hand, as far as it told. The kernel drops its locks one by one,
// so that of its reader may still be there for a moment.
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

// countExit counts why a process is served no more.
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
