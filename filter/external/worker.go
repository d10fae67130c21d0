package external

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"ringlet/event"
	"ringlet/filter"
	"ringlet/filter/decision"
	"ringlet/shmem"
	"ringlet/shmem/fragring"
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
	out            *shmem.Writer
	seg            *shmem.Segment
	ring           *fragring.Consumer
	core           core
	pendingCase    *filter.Case   // taken, and without room yet
	returned       []*filter.Case // scratch
	accepting      bool           // it counts as one whose process takes events
	behindSince    time.Time      // the process is behind from then on
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
			pid = l.ring.PID()
			l.processCame()
			why = l.serve(ctx)
			why = l.processGone(why)
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
	dir := shmem.WithDir(cfg.dir)
	l.core, l.pendingCase, l.refusedSeen = core{deadline: cfg.Deadline}, nil, 0
	l.behindSince, l.fullSince = time.Time{}, time.Time{}
	for _, name := range []string{l.name(), l.name() + answersSuffix} {
		if _, err := shmem.Reclaim(name, dir); err != nil {
			return err
		}
	}
	if l.out, err = shmem.CreateWriter(l.name(), Memory(cfg.MostMEP), shmem.Broadcast, dir); err != nil {
		return err
	}
	size := fragring.HeaderSize + fragring.MinCapacity
	l.seg, err = shmem.CreateWith(l.name()+answersSuffix, size, func(seg *shmem.Segment) error {
		if _, err := seg.Claim(fragring.ConsumerByte); err != nil {
			return err
		}
		return fragring.Init(seg.Bytes(), fragring.Settings{
			Source: uint16(cfg.Builder),
			Run:    uint64(cfg.Run),
			PID:    uint32(os.Getpid()),
		})
	}, dir)
	if err == nil {
		l.ring, err = fragring.OpenConsumer(l.seg.Name(), l.seg.Bytes())
	}
	return err
}

// close takes the memory away. ended: the run is over; else the process may come again.
func (l *worker) close(ended bool) (err error) {
	if l.out != nil {
		if ended {
			err = l.out.End()
		}
		err = errors.Join(err, l.out.Close())
	}
	if l.ring != nil { // after the buffer: a process that finds the ring closed sees there whether the run is over
		l.ring.Close(false)
	}
	if l.seg != nil {
		err = errors.Join(err, l.seg.Close())
	}
	l.ring, l.out, l.seg = nil, nil, nil
	return err
}

// awaitProcess waits until a process has taken the place; false: ctx is done.
func (l *worker) awaitProcess(ctx context.Context) bool {
	here := func() (bool, error) {
		_, attached := l.ring.ProducerState()
		return attached > 0, nil
	}
	for {
		err := l.ring.Wait(ctx, attachPollInterval, here, l.aliveFunc)
		if !errors.Is(err, errRecheck) {
			return err == nil
		}
	}
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
		if l.core.idle() && l.pendingCase == nil && !l.core.behind() {
			err = l.awaitCase(ctx)
		} else {
			err = l.ring.Wait(ctx, l.answerWait(time.Now()), l.pollFunc, l.aliveFunc)
		}
		if err != nil && !errors.Is(err, errRecheck) && ctx.Err() == nil {
			return l.dismiss(err)
		}
	}
}

// step looks at answers, the time, and the process. over: it is served further.
func (l *worker) step(now time.Time) exitReason {
	state, attached := l.ring.ProducerState() // first: what was answered before the process went counts
	if _, err := l.readAnswers(now); err != nil {
		return l.dismiss(err)
	}
	// Before its event is late: that of a process that died has failed, and is not late.
	if late := !l.core.idle() && now.After(l.core.due()); late || now.Sub(l.lastAliveCheck) >= aliveCheckInterval {
		l.lastAliveCheck = now
		if why := l.checkAlive(); why != notExited {
			return why
		}
	}
	var finished *filter.Case
	if finished, l.returned = l.core.expire(now, l.returned[:0]); finished != nil {
		l.behindSince = now
		l.pool.warn("a filter process did not answer in time: the event passes", "pid", l.ring.PID(), "MEP", finished.MEP,
			"deadline", l.pool.cfg.Deadline)
	}
	if l.pendingCase != nil && l.core.behind() {
		l.pendingCase.Returns++
		l.returned, l.pendingCase = append(l.returned, l.pendingCase), nil
	}
	l.publishCounts()
	if finished != nil {
		l.pool.done(finished)
	}
	l.pool.requeue(l.returned)
	switch {
	case attached != 1 || state != fragring.Attached:
		return exitOrderly
	case l.core.behind() && now.Sub(l.behindSince) > l.hangTimeout(), !l.fullSince.IsZero() &&
		now.Sub(l.fullSince) > l.hangTimeout():
		return exitHung
	}
	return notExited
}

// checkAlive says whether the process lives: exitCrashed, exitOrderly, or notExited, which is that it does.
func (l *worker) checkAlive() exitReason {
	if lives, err := l.seg.Claimed(fragring.ProducerByte); err != nil || !lives {
		if state, _ := l.ring.ProducerState(); state != fragring.Attached {
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
		f, ok, err := l.ring.Next()
		if err != nil || !ok {
			l.countRefused()
			return n, err
		}
		n++
		var b [decision.ResultSize + 1]byte // one more: what is longer is no result
		copy(b[:], f.Data)                  // the process may write over it
		event, size := f.Event, len(f.Data)
		l.ring.Done(1)
		finished, what := l.core.answer(event, b[:min(size, decision.ResultSize+1)], now)
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
	answerLate:    "a filter process answered too late: the answer changes nothing",
	answerDoubled: "a filter process answered twice on an event: the first answer counts",
	answerUnasked: "a filter process answered on an event that it does not have: the answer changes nothing",
	answerInvalid: "a filter process gave an answer that is no result of its event: the answer changes nothing",
}

func (l *worker) warnAnswer(what answer, event uint64) {
	l.pool.warn(answerFaults[what], "pid", l.ring.PID(), "event", event)
}

// countRefused counts records of the ring that hold no answer.
func (l *worker) countRefused() {
	if n := l.ring.Refused(); n > l.refusedSeen {
		l.core.count[answerInvalid] += n - l.refusedSeen
		l.refusedSeen = n
		l.pool.warn(answerFaults[answerInvalid], "pid", l.ring.PID(), "event", "none")
	}
}

// dismiss tells why nothing in the memory of a worker can be believed.
func (l *worker) dismiss(err error) exitReason {
	l.pool.warn("a filter process is dismissed: what stands in its memory cannot be", "pid", l.ring.PID(), "err", err)
	return exitBroken
}

// publishCounts tells the pool what was counted, and whether the process takes events.
func (l *worker) publishCounts() {
	l.pool.mu.Lock()
	l.pool.count.add(&l.core)
	l.pool.mu.Unlock()
	if takes := !l.core.behind(); takes != l.accepting {
		l.accepting = takes
		l.pool.addAccepting(map[bool]int{true: 1, false: -1}[takes])
	}
}

// feed hands over what there is, as long as the process may have more.
func (l *worker) feed() exitReason {
	for l.core.ready() {
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
			if l.core.idle() && l.fullSince.IsZero() {
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
	place, ok, err := l.out.TryReserve(len(c.Entry))
	if err != nil || !ok {
		return false, err
	}
	copy(place.Data, c.Entry)
	l.core.assign(c, time.Now())
	return true, l.out.Commit(place, len(c.Entry), uint32(event.MEPMagic))
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
	if !l.core.idle() {
		nap = min(nap, l.core.due().Sub(now))
	} else if l.pendingCase != nil { // it has answered all, and gives the room back when it asks for more
		nap = time.Millisecond
	}
	return max(nap, 50*time.Microsecond)
}

// pollAnswers takes answers, and tells whether there were any, or something is to be done about the process.
func (l *worker) pollAnswers() (bool, error) {
	state, attached := l.ring.ProducerState()
	n, err := l.readAnswers(time.Now())
	return n > 0 || attached != 1 || state != fragring.Attached, err
}

// processCame takes that a process is there.
func (l *worker) processCame() {
	p := l.pool
	p.mu.Lock()
	p.count.processes++
	p.count.came++
	p.mu.Unlock()
	p.cfg.Log.Info("a filter process has come", "filter", p.cfg.Name, "builder", p.cfg.Builder, "pid", l.ring.PID())
	l.accepting = true
	p.addAccepting(1)
}

// processGone takes that the process is served no more, and gives what it had to others. It gives back why, which the
// last answers may have changed.
func (l *worker) processGone(why exitReason) exitReason {
	if why != exitBroken {
		if _, err := l.readAnswers(time.Now()); err != nil { // the last ones
			why = l.dismiss(err)
		}
	}
	var d filter.Decision // given back
	if why == exitCrashed && l.diedWithCase() {
		d = filter.Failed
	}
	l.returned = l.returned[:0]
	var finished *filter.Case
	if why != notExited {
		finished, l.returned = l.core.release(d, l.returned)
		if l.pendingCase != nil {
			l.returned, l.pendingCase = append(l.returned, l.pendingCase), nil
		}
	}
	if l.accepting {
		l.accepting = false
		l.pool.addAccepting(-1)
	}
	if finished != nil {
		l.pool.done(finished)
	}
	l.pool.requeue(l.returned)
	return why
}

// diedWithCase says that the process died with a MEP in hand, as far as it told. The kernel drops its locks one by one,
// so that of its reader may still be there for a moment.
func (l *worker) diedWithCase() bool {
	for range 20 {
		dead, err := l.out.DetachDead()
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
	c := &p.count
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
