package external

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ringlet/filter"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

func TestProcessesJudge(t *testing.T) {
	for _, packing := range []int{1, 7} {
		d := open(t, time.Minute, 40)
		for range 3 {
			d.start()
		}
		until(t, "all have come", func() bool { return d.Stats().Attached == 3 })
		d.put(0, 300, packing)
		count := d.wait(300 * packing)
		if want := 300 * packing / 2; count[filter.Accepted] != want || count[filter.Rejected] != want {
			t.Errorf("%v", count)
		}
		for e, v := range d.got {
			if v.Score != uint16(e) || (v.Decision == filter.Accepted) != (e%2 == 1) {
				t.Fatalf("event %d: %+v", e, v)
			}
		}
		if s := d.Stats(); s.Answers != uint64(300*packing) || s.Attached != 3 || s.Processes != 3 || s.UnjudgedEvents != 0 {
			t.Errorf("%+v", s)
		}
		d.stop()
	}
}

// TestAProcessThatHangs holds that its event passes by time-out, that what it had beside goes to another process, that
// a late answer changes nothing, and that it gets events again when it has caught up.
func TestAProcessThatHangs(t *testing.T) {
	t.Parallel()
	d := open(t, time.Second, 8)
	d.put(0, 4, 1) // before it comes: all are handed over together
	slow := d.attach()
	first, _, _ := slow.next()
	until(t, "the process is behind", func() bool { return d.Stats().ReturnedEvents == 3 })
	other := d.attach()
	for range 3 {
		e, _, _ := other.next()
		other.say(e, resultOf(e, filter.Accepted, 0))
	}
	if count := d.wait(4); count[filter.TimedOut] != 1 || count[filter.Accepted] != 3 ||
		d.got[first].Decision != filter.TimedOut {
		t.Errorf("%v, event %d: %+v", count, first, d.got[first])
	}
	other.crash()
	until(t, "the crash is seen", func() bool { return d.Stats().Crashed == 1 })
	slow.say(first, resultOf(first, filter.Rejected, 0))
	for range 3 {
		e, _, _ := slow.next()
		slow.say(e, resultOf(e, filter.Rejected, 0))
	}
	until(t, "late answers", func() bool { return d.Stats().LateAnswers == 4 })
	d.judges(slow)
	d.put(4, 20, 1)
	if count := d.wait(24); count[filter.TimedOut] != 1 || count[filter.Failed] != 0 {
		t.Errorf("%v, %+v", count, d.Stats())
	}
	d.stop()
}

// TestAProcessThatNeverComesBack holds that it is dismissed, and that its place is free for another one.
func TestAProcessThatNeverComesBack(t *testing.T) {
	t.Parallel()
	d := open(t, 300*time.Millisecond, 8)
	hung := d.attach()
	d.put(0, 1, 1)
	until(t, "it is dismissed", func() bool { return d.Stats().DismissedHung == 1 })
	until(t, "it is told", func() bool { return hung.put.CheckOpen() != nil })
	d.start()
	// It was dismissed after longer than events wait where no process takes them.
	until(t, "another takes events", func() bool { return d.log.Count("a filter process takes events again") == 1 })
	d.put(1, 50, 1)
	if count := d.wait(51); count[filter.TimedOut] != 1 {
		t.Errorf("%v", count)
	}
	if said := d.log.String(); !strings.Contains(said, "dismissed, since it does not answer") {
		t.Error(said)
	}
}

// TestAProcessThatGoes holds that one that leaves, or dies with nothing in hand, costs no event. (TestKilledAtRandom
// has some that die with an event in hand.)
func TestAProcessThatGoes(t *testing.T) {
	t.Parallel()
	d := open(t, time.Minute, 8)
	dies := d.attach()
	d.put(0, 5, 1)
	_, _, _ = dies.next()
	dies.crash()
	until(t, "the crash is seen", func() bool { return d.Stats().Crashed == 1 })
	leaves := d.attach()
	_, _, _ = leaves.next()
	leaves.put.Detach(false)
	until(t, "it is seen to leave", func() bool { return d.Stats().Exited == 1 })
	d.start()
	if count := d.wait(5); count[filter.Failed]+count[filter.TimedOut] != 0 {
		t.Errorf("%v", count)
	}
}

// TestNobodyIsThere holds that what waits passes by time-out after a bounded time, with one alarm that says what to do,
// and that a process which comes then judges.
func TestNobodyIsThere(t *testing.T) {
	t.Parallel()
	d := open(t, 10*time.Millisecond, 8)
	begun := time.Now()
	d.put(0, 200, 2)
	if count := d.wait(400); count[filter.TimedOut] != 400 {
		t.Errorf("%v", count)
	}
	if took := time.Since(begun); took < absenceGrace/2 {
		t.Errorf("it waited for %v only", took)
	}
	d.start()
	until(t, "a process", func() bool { return d.Stats().Processes == 1 })
	d.put(200, 50, 2)
	if count := d.wait(500); count[filter.Accepted]+count[filter.Rejected] == 0 {
		t.Errorf("%v", count)
	}
	said := d.log.String()
	if n := strings.Count(said, "no filter process is there: start one"); n != 1 {
		t.Errorf("%d alarms:\n%s", n, said)
	}
	if s := d.Stats(); s.UnjudgedEvents < 400 {
		t.Errorf("%+v", s)
	}
}

// TestOneNameForTwoRuns holds that the second run takes nothing from the first, and says why its events pass.
func TestOneNameForTwoRuns(t *testing.T) {
	t.Parallel()
	first := open(t, time.Minute, 8)
	until(t, "the first one's memory", func() bool {
		_, err := os.Stat(filepath.Join(first.cfg.segmentDir, first.workerName(0)+answersSuffix))
		return err == nil
	})
	second := openAs(t, first.cfg.Name, time.Millisecond, 8)
	second.put(0, 5, 1)
	first.start()
	first.put(0, 50, 1)
	if count := first.wait(50); count[filter.Accepted]+count[filter.Rejected] != 50 {
		t.Errorf("%v", count)
	}
	if count := second.wait(5); count[filter.TimedOut] != 5 {
		t.Errorf("%v", count)
	}
	if said := second.log.String(); !strings.Contains(said, "another run on this host has a filter of this name") {
		t.Error(said)
	}
	second.stop()
	first.stop()
}

// TestAHostileProcess holds that whatever a process writes into its memory, nothing falls over; each event has one
// verdict, which somebody has said of it; and what is wrong is counted.
func TestAHostileProcess(t *testing.T) {
	d := open(t, 20*time.Millisecond, 40)
	d.start()
	stop, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		r := rand.New(rand.NewPCG(1, 2))
		for {
			select {
			case <-stop:
				return
			default:
			}
			d.harm(r, stop)
		}
	}()
	n, last := 0, Stats{}
	until(t, "every kind of harm is counted", func() bool {
		d.put(uint64(n), 10, 2)
		n += 10
		last = d.Stats()
		return last.DismissedBroken > 4 && last.InvalidAnswers > 9 && last.UnassignedAnswers > 9 && last.DoubledAnswers > 9 &&
			last.Exited > 0 && last.Crashed > 4
	})
	count := d.wait(2 * n)
	close(stop)
	patiently.Receive(t, over, "the hostile process does not end")
	t.Logf("%v %+v", count, d.Stats())
	for e, v := range d.got {
		honest := v.Score == uint16(e) && v.Decision == filter.Decision(2-e%2)
		if said := v.Decision == filter.Accepted || v.Decision == filter.Rejected; said && !honest && v.Score != 1 &&
			v.Score != 2 {
			t.Fatalf("event %d: %+v, which nobody said", e, v)
		}
	}
}

// harm attaches to a place and does something bad there.
func (d *desk) harm(r *rand.Rand, stop chan struct{}) {
	c := &client{t: d.t}
	for i := 0; c.seg == nil; i = (i + 1) % maxWorkers {
		select {
		case <-stop:
			return
		default:
		}
		c.tryAttach(d.workerName(i))
	}
	defer c.crash()
	for range r.IntN(40) {
		select {
		case <-stop:
			return
		default:
		}
		event := uint64(r.IntN(1000))
		switch r.IntN(8) {
		case 0: // over the answers
			b := c.seg.Bytes()
			b[r.IntN(len(b))] = byte(r.Uint32())
		case 1: // over the words of the ring
			c.seg.Bytes()[0x80+r.IntN(0x100)] = byte(r.Uint32())
		case 2: // over the events
			c.scribble(r)
		case 3:
			c.say(event, resultOf(event, filter.Decision(r.IntN(6)), 1))
		case 4:
			b := make([]byte, r.IntN(40))
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			c.say(event, b)
		case 5: // twice
			if first, _, ok := c.soon(); ok {
				c.say(first, resultOf(first, filter.Accepted, 1))
				c.say(first, resultOf(first, filter.Rejected, 2))
			}
		case 6:
			time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
		case 7:
			if r.IntN(4) == 0 {
				c.put.Detach(r.IntN(2) == 0)
				return
			}
		}
	}
}

// TestAnOutputThatHoldsUpCostsNoEvent holds that time in which whoever takes cases back held up a worker is no time of
// the event that the process has in hand: a full disk behind the filter must not make events pass.
func TestAnOutputThatHoldsUpCostsNoEvent(t *testing.T) {
	d := &desk{t: t, p: testPattern(t)}
	d.Pool = New(Config{
		Name:       fmt.Sprintf("held%d", time.Now().UnixNano()),
		Builder:    3,
		Deadline:   time.Minute,
		MaxMEPSize: 64 << 10,
		Log:        slog.New(slog.DiscardHandler),
	})
	var back time.Time
	d.done = func(*filter.Case) { back = time.Now() }
	l := &worker{pool: d.Pool}
	must.OK(t, l.open())
	defer func() { must.OK(t, l.close(true)) }()
	c := &client{t: t}
	if !c.tryAttach(l.name()) {
		t.Fatal("no place")
	}
	defer c.crash()
	before := time.Now().Add(-time.Hour) // the worker is held up for an hour when it gives the first case back
	for e := range uint64(3) {
		l.core.assign(caseOf(e, 1), before)
	}
	c.say(0, resultOf(0, filter.Accepted, 0))
	c.say(1, resultOf(1, filter.Accepted, 0))
	if n, err := l.readAnswers(before); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	if l.core.judgingSince.Before(back.Add(-time.Minute)) {
		t.Errorf("event 2 counts from %v on, and the worker went on at %v", l.core.judgingSince, back)
	}
}
