package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"ringlet/event"
	"ringlet/readoutunit/source/live"
)

// intake is one live source: its feed, and what of it waits to be built. A goroutine of its own uses the feed.
type intake struct {
	index int // in the readout unit
	name  string
	feed  live.Feed

	// owned by its goroutine
	closed error

	// guarded by Live.mu; the bytes of a fragment belong to who has its reference
	stage   stage
	told    uint64         // events that the feed knows to be safe
	resume  uint64         // where the feed knows that the source has come to
	given   []live.GivenUp // what was given up and the feed does not know, in the order in which it was
	apart   bool           // it shares no number with another source
	waits   bool           // in Next of the feed
	ctx     context.Context
	wake    context.CancelFunc // ends Next of the feed, so that it hears what is safe
	newest  time.Duration      // when the newest fragment came
	any     bool
	stalled bool
	failed  bool
	said    [live.Faults]saying // by fault
	wrong   string              // what was wrong with a fragment last, without the name of the source
}

// saying is when a fault was logged last, and how often it was since.
type saying struct {
	at    time.Time
	since uint64
}

// batch is how many fragments are taken from a feed at a time, each time under one lock.
const batch = 256

// receive takes fragments from a feed until the run ends or the source is closed.
func (l *Live) receive(in *intake) {
	defer func() { in.closed = in.feed.Close() }()
	fragments := make([]live.Fragment, batch)
	over := false
	for !over && l.enter(in) {
		n, err := in.feed.Next(in.ctx, fragments)
		l.leave(in)
		if n > 0 {
			if wrong := l.take(in, fragments[:n]); wrong != nil {
				err = wrong
			}
		}
		switch {
		case err == nil, l.ctx.Err() != nil, in.ctx.Err() != nil && errors.Is(err, in.ctx.Err()):
			continue
		case !errors.Is(err, io.EOF):
			l.broke(in, err)
		}
		over = true
	}
	l.linger(in, over)
}

// enter prepares for a call of the feed that waits, and tells what is safe. False: nothing more is to be taken from it.
func (l *Live) enter(in *intake) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tellSafe(in)
	if in.ctx == nil || in.ctx.Err() != nil {
		in.ctx, in.wake = context.WithCancel(l.ctx)
	}
	in.waits = !l.over()
	return in.waits
}

// over tells that nothing more is taken from feeds. mu is held.
func (l *Live) over() bool { return l.ending || l.closed }

func (l *Live) leave(in *intake) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in.waits = false
}

// due is what the feed may hear of the events below safe that have their outcome: no more than have come and are
// believed, or a front-end that lags behind what was given up would take for safe what it has not sent. mu is held.
func (l *Live) due(in *intake) uint64 { return min(l.safe, l.matcher.Next(in.index)) }

// news tells that a feed is to hear what is safe, or what was given up. mu is held.
func (l *Live) news(in *intake) bool { return len(in.given) > 0 || in.told < l.due(in) }

// tellSafe tells a feed how far its source has come, what was given up, and then what is safe. mu is held, but while
// the feed is told.
func (l *Live) tellSafe(in *intake) {
	for {
		next, safe, given := l.matcher.Next(in.index), l.due(in), in.given
		resume := in.resume != next
		if !resume && len(given) == 0 && in.told >= safe {
			return
		}
		in.resume, in.given = next, nil
		acknowledge := in.told < safe
		in.told = max(in.told, safe)
		l.mu.Unlock()
		if resume {
			in.feed.Resume(next)
		}
		for _, g := range given {
			in.feed.GaveUp(g.From, g.To, g.Why)
		}
		if acknowledge {
			in.feed.Safe(safe)
		}
		l.mu.Lock()
	}
}

// giveUp notes that the feed is to hear that a fragment which it gave will be in no file. One that came again is none:
// the first one has its own outcome, and a client takes an event that is given up for settled. A good front-end, too,
// sends again what was in doubt here when its connection broke. mu is held.
func (l *Live) giveUp(in *intake, e uint64, why live.Fault) {
	if why == live.Repeat {
		return
	}
	one := live.GivenUp{From: e, To: e + 1, Why: why}
	if n := len(in.given); n == 0 || !in.given[n-1].Join(one) {
		in.given = append(in.given, one)
	}
}

// release frees what the matcher does not need any more, and notes what it has given up. mu is held.
func (l *Live) release() {
	dropped := l.matcher.Dropped()
	for i := range dropped {
		d := &dropped[i]
		in := l.feeds[d.Source]
		in.stage.free(d.Ref)
		if d.Why > 0 {
			l.giveUp(in, d.Event, d.Why)
			l.log(in, &live.FragmentError{
				Source: in.name,
				Event:  d.Event,
				Fault:  d.Why,
				At:     d.At,
			})
		}
	}
	if len(dropped) > 0 {
		l.changed.Broadcast() // who waits for room may have it
	}
}

// linger tells the feed of a source from which nothing more is taken what is safe, until the end.
func (l *Live) linger(in *intake, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if over {
		l.matcher.Over(in.index)
		l.apartAt = 0 // so that it is looked at now whether it shares numbers with others: the run may end
	} else {
		l.matcher.Cease(in.index)
	}
	l.poke()
	for !l.closed {
		if l.tellSafe(in); !l.closed && !l.news(in) {
			l.changed.Wait()
		}
	}
	l.tellSafe(in)
}

// broke takes that a source cannot go on. Where missing fragments are borne its are, from now on; else the input ends
// behind what has been cut.
func (l *Live) broke(in *intake, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in.failed = true
	if l.broken == nil {
		l.broken = err // it names the source
		l.ended, l.last = l.cfg.Live.OnMissing != live.Mark, len(l.cuts)
	}
	l.cfg.Live.Log.Error("a source cannot go on; what it lacks is missing from now on", "source", in.name, "err", err)
	l.changed.Broadcast()
}

// take copies fragments to the stage and gives them to the matcher. It waits for room, unless the run ends: what finds
// none then is left over, and not safe. The error is of fragments that no feed may give.
func (l *Live) take(in *intake, fragments []live.Fragment) error {
	var refs [batch]uint64
	for len(fragments) > 0 {
		n, err := l.reserve(in, fragments, &refs)
		if n == 0 {
			l.leaveOver(in, len(fragments))
			return err
		}
		for i := range n {
			copy(in.stage.bytes(refs[i]), fragments[i].Data)
		}
		if taken := l.offer(in, fragments[:n], &refs); taken < n {
			l.leaveOver(in, len(fragments)-taken)
			return nil
		}
		l.tellResume(in) // or who comes again now sends once more what Done lets the feed forget
		in.feed.Done(n)
		fragments = fragments[n:]
	}
	return nil
}

// tellResume tells the feed of a source how far that has come.
func (l *Live) tellResume(in *intake) {
	l.mu.Lock()
	next := l.matcher.Next(in.index)
	changed := in.resume != next
	in.resume = next
	l.mu.Unlock()
	if changed {
		in.feed.Resume(next)
	}
}

// reserve waits until there is room for the first fragment, and takes it for as many as it can.
func (l *Live) reserve(in *intake, fragments []live.Fragment, refs *[batch]uint64) (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		for n < len(fragments) {
			size := len(fragments[n].Data)
			if size > event.MaxFragment {
				return n, fmt.Errorf("its feed gave a fragment of %d bytes, more than the %d that one can have", size,
					event.MaxFragment)
			}
			ref, _, ok := in.stage.reserve(size)
			if !ok {
				break
			}
			refs[n] = ref
			n++
		}
		if n > 0 {
			l.goOn(in)
			return n, nil
		}
		if l.over() {
			return 0, nil
		}
		l.stall(in)
	}
}

// goOn notes that fragments are taken from the source again. mu is held.
func (l *Live) goOn(in *intake) {
	if in.stalled {
		in.stalled = false
		l.matcher.Stall(in.index, false, l.now())
	}
}

// stall waits until something has changed, while nothing is taken from the source. mu is held.
func (l *Live) stall(in *intake) {
	if !in.stalled {
		in.stalled = true
		l.matcher.Stall(in.index, true, l.now())
		l.poke()
	}
	l.changed.Wait()
}

// offer gives the matcher fragments that are in the stage. It takes fewer than all if the run ends and there is no
// room.
func (l *Live) offer(in *intake, fragments []live.Fragment, refs *[batch]uint64) (taken int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.poke()
	now := l.now()
	in.newest, in.any = now, true
	for i := range fragments {
		f := &fragments[i]
		p := live.Piece{
			Event: f.Event,
			Ref:   refs[i],
			Size:  uint16(len(f.Data)),
			Type:  f.Type,
		}
		v, err := l.matcher.Offer(in.index, p, now)
		for v == live.Ahead {
			if l.over() {
				return i
			}
			l.stall(in)
			now = l.now()
			v, err = l.matcher.Offer(in.index, p, now)
		}
		l.goOn(in)
		var wrong *live.FragmentError
		if v == live.Thrown && errors.As(err, &wrong) {
			in.stage.free(p.Ref)
			l.giveUp(in, p.Event, wrong.Fault)
			l.changed.Broadcast() // there is room
		}
		if err != nil {
			l.log(in, err)
		}
		l.release()
	}
	return len(fragments)
}

// leaveOver counts fragments that the feed gave and that nobody takes.
func (l *Live) leaveOver(in *intake, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.matcher.Leave(in.index, n)
}

// log logs what is wrong with a fragment, each fault once in a while. mu is held.
func (l *Live) log(in *intake, err error) {
	const often = time.Second
	var wrong *live.FragmentError
	if !errors.As(err, &wrong) {
		return // the matcher has no other
	}
	if wrong.Fault != live.Gap { // such a fragment is used
		in.wrong = strings.TrimPrefix(err.Error(), "source "+in.name+": ")
	}
	said := &in.said[wrong.Fault]
	said.since++
	if now := time.Now(); now.Sub(said.at) >= often {
		l.cfg.Live.Log.Warn("a fragment's number is wrong", "source", in.name, "err", err, "such", said.since)
		said.at, said.since = now, 0
	}
}

// How often, at most, who waits for a front-end is woken to hear what is safe, and the scheduler hears of data for
// which nobody waits.
const tellEvery = 20 * time.Millisecond

// clock decides what time decides, and tells how far the data go.
func (l *Live) clock() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	woken := time.Duration(0)
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-l.poked:
		case <-timer.C:
		}
		reach, worth, again := l.step(&woken)
		if worth {
			l.tell(reach)
		}
		timer.Stop()
		if again != live.Never {
			timer.Reset(max(0, again-l.now()))
		}
	}
}

// step is one turn of the clock. It tells whether the scheduler is to hear how far the data go.
func (l *Live) step(woken *time.Duration) (reach live.Reach, worth bool, again time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if len(l.cuts) > 0 {
		l.matcher.Expect(l.cuts[0], now)
	}
	low := l.matcher.Low()
	reach, again = l.matcher.Step(now)
	if l.release(); l.matcher.Low() != low {
		l.changed.Broadcast() // who is too far ahead may be so no more
	}
	if !l.ready && len(l.cuts) > 0 && l.matcher.Ready(l.cuts[0]) {
		l.ready = true
		l.changed.Broadcast()
	}
	again = min(again, l.wakeFeeds(now, woken), l.tellApart(now))
	said := l.said
	worth = reach.Flush > said.Flush || reach.Overdue > said.Overdue || reach.Over != said.Over ||
		reach.To-said.To >= uint64(max(1, l.cfg.Packing/8))
	if worth {
		l.said = reach
	}
	return reach, worth, again
}

// wakeFeeds lets feeds that wait for their front-end hear what is safe. mu is held.
func (l *Live) wakeFeeds(now time.Duration, woken *time.Duration) (again time.Duration) {
	if due := *woken + tellEvery; now < due {
		for _, in := range l.feeds {
			if in.waits && l.news(in) {
				return due
			}
		}
		return live.Never
	}
	for _, in := range l.feeds {
		if in.waits && l.news(in) {
			in.wake()
			*woken = now
		}
	}
	return live.Never
}
