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

// Pipeline of a lane (sequential, one goroutine for each):
//
//	1 open    a buffer for MEPs, in which this process writes, and a ring for answers, in which the filter's does
//	2 await   a process takes the lane: it fills the ring
//	3 serve   MEPs go in as long as the process may have more of them; answers come out, are copied and checked
//	4 close   the process has gone, was dismissed, or the run is over. The lane is made anew: nothing of one process is
//	          left to the next
//
// What is in the memory of a lane may be written over by its process at any time. The MEPs in it are copies, of which
// nothing is read back.

// lane is the place of one process.
type lane struct {
	p *Panel
	// poll and alive are functions, kept so that a wait makes no new ones
	poll  func() (bool, error)
	alive func() error

	// of this opening
	number int
	out    *shmem.Writer
	seg    *shmem.Segment
	ring   *fragring.Consumer
	core   core
	next   *filter.Case   // taken, and without room yet
	back   []*filter.Case // scratch
	takes  bool           // it counts as one whose process takes events
	owes   time.Time      // the process is behind from then on
	asked  time.Time      // whether the process lives, last
	full   time.Time      // the process has answered all, and gives no room since then; zero: there is room
	bad    uint64         // records that were refused, as last seen
}

// end is why a process is served no more.
type end int

const (
	over    end = iota // the run is
	left               // it left
	crashed            // it died
	hung               // it does not answer
	broken             // what it wrote cannot be
)

// Times of a lane.
const (
	looks   = 10 * time.Millisecond  // how soon a process that rings no bell is seen to come
	patient = 100 * time.Millisecond // how often a process is asked whether it lives
	again   = time.Second            // until a lane that could not be made is tried again
	// answersAtOnce bounds what a process that answers without end keeps its lane's goroutine from looking at the time.
	answersAtOnce = 4096
)

// errLook makes a wait look at everything anew.
var errLook = errors.New("look again")

// run serves one process after the other.
func (l *lane) run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case l.p.vacancy <- struct{}{}:
		case <-ctx.Done():
			return
		}
		l.number = l.p.number()
		err := l.p.made(l.open())
		if err != nil {
			sleep(ctx, again)
		}
		came := err == nil && l.await(ctx)
		<-l.p.vacancy
		why, pid := over, uint32(0)
		if came {
			pid = l.ring.PID()
			l.came()
			why = l.serve(ctx)
			why = l.went(why)
		}
		if err := l.close(why == over); err != nil {
			l.p.warn("a lane of filter processes was not closed", "err", err)
		}
		if came { // who hears of it finds no memory of the process any more
			l.tally(why, pid)
		}
		l.p.freeNumber(l.number)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// name is that of the lane's buffer; the ring has answersSuffix behind it.
func (l *lane) name() string {
	return fmt.Sprintf("%s%s-%d-%d", segmentPrefix, l.p.cfg.Name, l.p.cfg.Builder, l.number)
}

const answersSuffix = "-answers"

// open makes the memory. The ring comes last: a process that has it finds the buffer.
func (l *lane) open() (err error) {
	cfg := &l.p.cfg
	dir := shmem.WithDir(cfg.dir)
	l.core, l.next, l.owes, l.full, l.bad = core{deadline: cfg.Deadline}, nil, time.Time{}, time.Time{}, 0
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
func (l *lane) close(ended bool) (err error) {
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

// await waits until a process has taken the lane; false: ctx is done.
func (l *lane) await(ctx context.Context) bool {
	here := func() (bool, error) {
		_, attached := l.ring.ProducerState()
		return attached > 0, nil
	}
	for {
		err := l.ring.Wait(ctx, looks, here, l.alive)
		if !errors.Is(err, errLook) {
			return err == nil
		}
	}
}

// serve has the process judge until it goes, or has to.
func (l *lane) serve(ctx context.Context) end {
	l.asked = time.Now()
	for {
		if ctx.Err() != nil {
			return over
		}
		if why := l.step(time.Now()); why != over {
			return why
		}
		if why := l.fill(); why != over {
			return why
		}
		var err error
		if l.core.idle() && l.next == nil && !l.core.behind() {
			err = l.rest(ctx)
		} else {
			err = l.ring.Wait(ctx, l.nap(time.Now()), l.poll, l.alive)
		}
		if err != nil && !errors.Is(err, errLook) && ctx.Err() == nil {
			return l.refuse(err)
		}
	}
}

// step looks at answers, the time, and the process. over: it is served further.
func (l *lane) step(now time.Time) end {
	state, attached := l.ring.ProducerState() // first: what was answered before the process went counts
	if _, err := l.answers(now); err != nil {
		return l.refuse(err)
	}
	// Before its event is late: that of a process that died has failed, and is not late.
	if late := !l.core.idle() && now.After(l.core.due()); late || now.Sub(l.asked) >= patient {
		l.asked = now
		if why := l.ask(); why != over {
			return why
		}
	}
	var settled *filter.Case
	if settled, l.back = l.core.expire(now, l.back[:0]); settled != nil {
		l.owes = now
		l.p.warn("a filter process did not answer in time: the event passes", "pid", l.ring.PID(), "MEP", settled.MEP,
			"deadline", l.p.cfg.Deadline)
	}
	if l.next != nil && l.core.behind() {
		l.next.Returned++
		l.back, l.next = append(l.back, l.next), nil
	}
	l.count()
	if settled != nil {
		l.p.done(settled)
	}
	l.p.giveBack(l.back)
	switch {
	case attached != 1 || state != fragring.Attached:
		return left
	case l.core.behind() && now.Sub(l.owes) > l.patience(), !l.full.IsZero() && now.Sub(l.full) > l.patience():
		return hung
	}
	return over
}

// ask says whether the process lives: crashed, left, or over, which is that it does.
func (l *lane) ask() end {
	if lives, err := l.seg.Claimed(fragring.ProducerByte); err != nil || !lives {
		if state, _ := l.ring.ProducerState(); state != fragring.Attached {
			return left
		}
		return crashed
	}
	return over
}

// patience is how long a process may be behind before it is dismissed.
func (l *lane) patience() time.Duration {
	return min(max(10*l.p.cfg.Deadline, time.Second), time.Minute)
}

// answers takes what the process has answered, and says how much that was.
func (l *lane) answers(now time.Time) (n int, err error) {
	for n < answersAtOnce {
		f, ok, err := l.ring.Next()
		if err != nil || !ok {
			l.refused()
			return n, err
		}
		n++
		var b [decision.ResultSize + 1]byte // one more: what is longer is no result
		copy(b[:], f.Data)                  // the process may write over it
		event, size := f.Event, len(f.Data)
		l.ring.Done(1)
		settled, what := l.core.answer(event, b[:min(size, decision.ResultSize+1)], now)
		if settled != nil {
			l.p.done(settled)
			now = time.Now() // a full disk behind the filter may have held this up
		}
		if what != taken {
			l.wrong(what, event)
		}
	}
	return n, nil
}

// wrongs say what is wrong with an answer.
var wrongs = [...]string{
	late:    "a filter process answered too late: the answer changes nothing",
	doubled: "a filter process answered twice on an event: the first answer counts",
	unasked: "a filter process answered on an event that it does not have: the answer changes nothing",
	invalid: "a filter process gave an answer that is no result of its event: the answer changes nothing",
}

func (l *lane) wrong(what answer, event uint64) {
	l.p.warn(wrongs[what], "pid", l.ring.PID(), "event", event)
}

// refused counts records of the ring that hold no answer.
func (l *lane) refused() {
	if n := l.ring.Refused(); n > l.bad {
		l.core.count[invalid] += n - l.bad
		l.bad = n
		l.p.warn(wrongs[invalid], "pid", l.ring.PID(), "event", "none")
	}
}

// refuse tells why nothing in the memory of a lane can be believed.
func (l *lane) refuse(err error) end {
	l.p.warn("a filter process is dismissed: what stands in its memory cannot be", "pid", l.ring.PID(), "err", err)
	return broken
}

// count tells the panel what was counted, and whether the process takes events.
func (l *lane) count() {
	l.p.mu.Lock()
	l.p.count.add(&l.core)
	l.p.mu.Unlock()
	if takes := !l.core.behind(); takes != l.takes {
		l.takes = takes
		l.p.turn(map[bool]int{true: 1, false: -1}[takes])
	}
}

// fill hands over what there is, as long as the process may have more.
func (l *lane) fill() end {
	for l.core.ready() {
		if l.next == nil {
			select {
			case l.next = <-l.p.cases:
			default:
				return over
			}
		}
		ok, err := l.handOver(l.next)
		switch {
		case err != nil:
			return l.refuse(err)
		case !ok:
			if l.core.idle() && l.full.IsZero() {
				l.full = time.Now()
			}
			return over
		}
		l.next, l.full = nil, time.Time{}
	}
	return over
}

// handOver writes a case into the buffer; false: there is no room yet.
func (l *lane) handOver(c *filter.Case) (bool, error) {
	place, ok, err := l.out.TryReserve(len(c.Entry))
	if err != nil || !ok {
		return false, err
	}
	copy(place.Data, c.Entry)
	l.core.hand(c, time.Now())
	return true, l.out.Commit(place, len(c.Entry), uint32(event.MEPMagic))
}

// rest waits for a case while the process has nothing to do.
func (l *lane) rest(ctx context.Context) error {
	timer := time.NewTimer(patient)
	defer timer.Stop()
	select {
	case l.next = <-l.p.cases:
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}

// nap is how long to wait for an answer: until the event at hand is too late, or the process is to be asked after.
func (l *lane) nap(now time.Time) time.Duration {
	nap := patient
	if !l.core.idle() {
		nap = min(nap, l.core.due().Sub(now))
	} else if l.next != nil { // it has answered all, and gives the room back when it asks for more
		nap = time.Millisecond
	}
	return max(nap, 50*time.Microsecond)
}

// look takes answers, and tells whether there were any, or something is to be done about the process.
func (l *lane) look() (bool, error) {
	state, attached := l.ring.ProducerState()
	n, err := l.answers(time.Now())
	return n > 0 || attached != 1 || state != fragring.Attached, err
}

// came takes that a process is there.
func (l *lane) came() {
	p := l.p
	p.mu.Lock()
	p.count.processes++
	p.count.came++
	p.mu.Unlock()
	p.cfg.Log.Info("a filter process has come", "filter", p.cfg.Name, "builder", p.cfg.Builder, "pid", l.ring.PID())
	l.takes = true
	p.turn(1)
}

// went takes that the process is served no more, and gives what it had to others. It gives back why, which the last
// answers may have changed.
func (l *lane) went(why end) end {
	if why != broken {
		if _, err := l.answers(time.Now()); err != nil { // the last ones
			why = l.refuse(err)
		}
	}
	var d filter.Decision // given back
	if why == crashed && l.hadOne() {
		d = filter.Failed
	}
	l.back = l.back[:0]
	var settled *filter.Case
	if why != over {
		settled, l.back = l.core.leave(d, l.back)
		if l.next != nil {
			l.back, l.next = append(l.back, l.next), nil
		}
	}
	if l.takes {
		l.takes = false
		l.p.turn(-1)
	}
	if settled != nil {
		l.p.done(settled)
	}
	l.p.giveBack(l.back)
	return why
}

// hadOne says that the process died with a MEP in hand, as far as it told. The kernel drops its locks one by one, so
// that of its reader may still be there for a moment.
func (l *lane) hadOne() bool {
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

// tally counts why a process is served no more.
func (l *lane) tally(why end, pid uint32) {
	p := l.p
	p.mu.Lock()
	c := &p.count
	c.add(&l.core)
	c.processes--
	switch why {
	case left:
		c.left++
	case crashed:
		c.crashed++
	case hung:
		c.hung++
	case broken:
		c.broken++
	case over:
	}
	p.mu.Unlock()
	switch why {
	case left:
		p.cfg.Log.Info("a filter process has left", "filter", p.cfg.Name, "builder", p.cfg.Builder, "pid", pid)
	case crashed:
		p.warn("a filter process has died: an event that it had in hand passes as failed", "pid", pid)
	case hung:
		p.warn("a filter process is dismissed, since it does not answer: it may come again", "pid", pid)
	case broken, over:
	}
}
