package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"ringlet/event"
	"ringlet/source/live"
)

// intake is one live source: its feed, and what of it waits to be built. A goroutine of its own uses the feed.
type intake struct {
	live  *Live
	index int // in the readout unit
	name  string
	feed  live.Feed

	// owned by its goroutine
	closeErr error

	// guarded by Live.mu; the bytes of a fragment belong to who has its reference
	stage             fragmentStage
	reportedSafeBelow uint64              // events that the feed knows to be safe
	reportedResume    uint64              // where the feed knows that the source has come to
	unreportedGivenUp []live.GivenUpRange // what was given up and the feed does not know, in the order in which it was
	isDisjoint        bool                // it shares no number with another source
	waiting           bool                // in Next of the feed
	ctx               context.Context
	cancelNext        context.CancelFunc // ends Next of the feed, so that it hears what is safe
	newestAt          time.Duration      // when the newest fragment came
	hasData           bool
	stalled           bool
	failed            bool
	logThrottles      [live.FaultCount]logThrottle // by fault
	lastFault         string                       // what was wrong with a fragment last, without the name of the source
}

// logThrottle is when a fault was logged last, and how often it was since.
type logThrottle struct {
	last       time.Time
	suppressed uint64
}

// maxFeedBatch is how many fragments are taken from a feed at a time, each time under one lock.
const maxFeedBatch = 256

// receiveFragments takes fragments from a feed until the run ends or the source is closed.
func (in *intake) receiveFragments() {
	defer func() { in.closeErr = in.feed.Close() }()
	fragments := make([]live.Fragment, maxFeedBatch)
	over := false
	for !over && in.beginWait() {
		n, err := in.feed.Next(in.ctx, fragments)
		in.endWait()
		if n > 0 {
			if wrong := in.stageFragments(fragments[:n]); wrong != nil {
				err = wrong
			}
		}
		switch {
		case err == nil, in.live.ctx.Err() != nil, in.ctx.Err() != nil && errors.Is(err, in.ctx.Err()):
			continue
		case !errors.Is(err, io.EOF):
			in.failSource(err)
		}
		over = true
	}
	in.reportUntilClosed(over)
}

// beginWait prepares for a call of the feed that waits, and tells what is safe. False: nothing more is to be taken from
// it.
func (in *intake) beginWait() bool {
	in.live.mu.Lock()
	defer in.live.mu.Unlock()
	in.reportSafe()
	if in.ctx == nil || in.ctx.Err() != nil {
		in.ctx, in.cancelNext = context.WithCancel(in.live.ctx)
	}
	in.waiting = !in.live.intakeStopped()
	return in.waiting
}

// intakeStopped tells that nothing more is taken from feeds. mu is held.
func (l *Live) intakeStopped() bool { return l.intakeEnding || l.closed }

func (in *intake) endWait() {
	in.live.mu.Lock()
	defer in.live.mu.Unlock()
	in.waiting = false
}

// reportableSafe is what the feed may hear of the events below safe that have their outcome: no more than have come and
// are accepted, or a front-end that lags behind what was given up would take for safe what it has not sent. mu is held.
func (in *intake) reportableSafe() uint64 {
	return min(in.live.safeBelow, in.live.matcher.NextEvent(in.index))
}

// hasUnreported tells that a feed is to hear what is safe, or what was given up. mu is held.
func (in *intake) hasUnreported() bool {
	return len(in.unreportedGivenUp) > 0 || in.reportedSafeBelow < in.reportableSafe()
}

// reportSafe tells a feed how far its source has come, what was given up, and then what is safe. mu is held, but while
// the feed is told.
func (in *intake) reportSafe() {
	for {
		next, safe, givenUp := in.live.matcher.NextEvent(in.index), in.reportableSafe(), in.unreportedGivenUp
		resume := in.reportedResume != next
		if !resume && len(givenUp) == 0 && in.reportedSafeBelow >= safe {
			return
		}
		in.reportedResume, in.unreportedGivenUp = next, nil
		acknowledge := in.reportedSafeBelow < safe
		in.reportedSafeBelow = max(in.reportedSafeBelow, safe)
		in.live.mu.Unlock()
		if resume {
			in.feed.SetResumeEvent(next)
		}
		for _, g := range givenUp {
			in.feed.ReportGivenUp(g.From, g.To, g.Fault)
		}
		if acknowledge {
			in.feed.SetSafeBelow(safe)
		}
		in.live.mu.Lock()
	}
}

// noteGivenUp notes that the feed is to hear that a fragment which it gave will be in no file. One that came again is
// none: the first one has its own outcome, and a client takes an event that is given up for done with. A good
// front-end, too, sends again what was suspect here when its connection broke. mu is held.
func (in *intake) noteGivenUp(e uint64, why live.Fault) {
	if why == live.FaultRepeat {
		return
	}
	one := live.GivenUpRange{From: e, To: e + 1, Fault: why}
	if n := len(in.unreportedGivenUp); n == 0 || !in.unreportedGivenUp[n-1].Extend(one) {
		in.unreportedGivenUp = append(in.unreportedGivenUp, one)
	}
}

// releaseDropped frees what the matcher does not need any more, and notes what it has given up. mu is held.
func (l *Live) releaseDropped() {
	dropped := l.matcher.TakeDropped()
	for i := range dropped {
		d := &dropped[i]
		in := l.intakes[d.Source]
		in.stage.free(d.Ref)
		if d.Fault > 0 {
			in.noteGivenUp(d.Event, d.Fault)
			in.logFault(&live.FragmentError{
				Source:    in.name,
				Event:     d.Event,
				Fault:     d.Fault,
				Reference: d.Reference,
			})
		}
	}
	if len(dropped) > 0 {
		l.changed.Broadcast() // who waits for room may have it
	}
}

// reportUntilClosed tells the feed of a source from which nothing more is taken what is safe, until the end.
func (in *intake) reportUntilClosed(over bool) {
	in.live.mu.Lock()
	defer in.live.mu.Unlock()
	if over {
		in.live.matcher.MarkSourceOver(in.index)
		in.live.disjointCheckedAt = 0 // so that it is looked at now whether it shares numbers with others: the run may end
	} else {
		in.live.matcher.StopSource(in.index)
	}
	in.live.wakeClock()
	for !in.live.closed {
		if in.reportSafe(); !in.live.closed && !in.hasUnreported() {
			in.live.changed.Wait()
		}
	}
	in.reportSafe()
}

// failSource takes that a source cannot go on. Where missing fragments are tolerated its are, from now on; else the
// input ends behind what has been cut.
func (in *intake) failSource(err error) {
	in.live.mu.Lock()
	defer in.live.mu.Unlock()
	in.failed = true
	if in.live.failure == nil {
		in.live.failure = err // it names the source
		in.live.inputEnded, in.live.remainingCuts = in.live.cfg.Live.OnMissing != live.MarkMissing, in.live.cutsLeft
	}
	in.live.cfg.Live.Log.Error("a source cannot go on; what it lacks is missing from now on", "source", in.name, "err",
		err)
	in.live.changed.Broadcast()
}

// stageFragments copies fragments to the stage and gives them to the matcher. It waits for room, unless the run ends:
// what finds none then is left over, and not safe. The error is of fragments that no feed may give.
func (in *intake) stageFragments(fragments []live.Fragment) error {
	var refs [maxFeedBatch]uint64
	for len(fragments) > 0 {
		n, err := in.reserveStage(fragments, &refs)
		if n == 0 {
			in.countLeftOver(len(fragments))
			return err
		}
		for i := range n {
			copy(in.stage.bytes(refs[i]), fragments[i].Data)
		}
		if accepted := in.offerFragments(fragments[:n], &refs); accepted < n {
			in.countLeftOver(len(fragments) - accepted)
			return nil
		}
		in.reportResume() // or who comes again now sends once more what Done lets the feed forget
		in.feed.ReleaseFragments(n)
		fragments = fragments[n:]
	}
	return nil
}

// reportResume tells the feed of a source how far that has come.
func (in *intake) reportResume() {
	in.live.mu.Lock()
	next := in.live.matcher.NextEvent(in.index)
	changed := in.reportedResume != next
	in.reportedResume = next
	in.live.mu.Unlock()
	if changed {
		in.feed.SetResumeEvent(next)
	}
}

// reserveStage waits until there is room for the first fragment, and takes it for as many as it can.
func (in *intake) reserveStage(fragments []live.Fragment, refs *[maxFeedBatch]uint64) (n int, err error) {
	in.live.mu.Lock()
	defer in.live.mu.Unlock()
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
			in.resumeIntake()
			return n, nil
		}
		if in.live.intakeStopped() {
			return 0, nil
		}
		in.waitStalled()
	}
}

// resumeIntake notes that fragments are taken from the source again. mu is held.
func (in *intake) resumeIntake() {
	if in.stalled {
		in.stalled = false
		in.live.matcher.SetStalled(in.index, false, in.live.now())
	}
}

// waitStalled waits until something has changed, while nothing is taken from the source. mu is held.
func (in *intake) waitStalled() {
	if !in.stalled {
		in.stalled = true
		in.live.matcher.SetStalled(in.index, true, in.live.now())
		in.live.wakeClock()
	}
	in.live.changed.Wait()
}

// offerFragments gives the matcher fragments that are in the stage. It takes fewer than all if the run ends and there
// is no room.
func (in *intake) offerFragments(fragments []live.Fragment, refs *[maxFeedBatch]uint64) (accepted int) {
	in.live.mu.Lock()
	defer in.live.mu.Unlock()
	defer in.live.wakeClock()
	now := in.live.now()
	in.newestAt, in.hasData = now, true
	for i := range fragments {
		f := &fragments[i]
		p := live.FragmentRef{
			Event: f.Event,
			Ref:   refs[i],
			Size:  uint16(len(f.Data)),
			Type:  f.Type,
		}
		v, err := in.live.matcher.Offer(in.index, p, now)
		for v == live.OfferAhead {
			if in.live.intakeStopped() {
				return i
			}
			in.waitStalled()
			now = in.live.now()
			v, err = in.live.matcher.Offer(in.index, p, now)
		}
		in.resumeIntake()
		var wrong *live.FragmentError
		if v == live.OfferThrown && errors.As(err, &wrong) {
			in.stage.free(p.Ref)
			in.noteGivenUp(p.Event, wrong.Fault)
			in.live.changed.Broadcast() // there is room
		}
		if err != nil {
			in.logFault(err)
		}
		in.live.releaseDropped()
	}
	return len(fragments)
}

// countLeftOver counts fragments that the feed gave and that nobody takes.
func (in *intake) countLeftOver(n int) {
	in.live.mu.Lock()
	defer in.live.mu.Unlock()
	in.live.matcher.CountLeftOver(in.index, n)
}

// logFault logs what is wrong with a fragment, each fault once in a while. mu is held.
func (in *intake) logFault(err error) {
	const often = time.Second
	var wrong *live.FragmentError
	if !errors.As(err, &wrong) {
		return // the matcher has no other
	}
	if wrong.Fault != live.FaultGap { // such a fragment is used
		in.lastFault = strings.TrimPrefix(err.Error(), "source "+in.name+": ")
	}
	said := &in.logThrottles[wrong.Fault]
	said.suppressed++
	if now := time.Now(); now.Sub(said.last) >= often {
		in.live.cfg.Live.Log.Warn("a fragment's number is wrong", "source", in.name, "err", err, "such", said.suppressed)
		said.last, said.suppressed = now, 0
	}
}

// How often, at most, who waits for a front-end is woken to hear what is safe, and the scheduler hears of data for
// which nobody waits.
const reportInterval = 20 * time.Millisecond

// runClock decides what time decides, and tells how far the data go.
func (l *Live) runClock() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	woken := time.Duration(0)
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-l.clockWake:
		case <-timer.C:
		}
		reach, worth, again := l.stepClock(&woken)
		if worth {
			l.reportReach(reach)
		}
		timer.Stop()
		if again != live.Never {
			timer.Reset(max(0, again-l.now()))
		}
	}
}

// stepClock is one turn of the clock. It tells whether the scheduler is to hear how far the data go.
func (l *Live) stepClock(woken *time.Duration) (reach live.Reach, worth bool, again time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	low := l.matcher.Low()
	reach, again = l.matcher.Step(now)
	if l.releaseDropped(); l.matcher.Low() != low {
		l.changed.Broadcast() // who is too far ahead may be so no more
	}
	if !l.firstCutReady && l.matcher.IsCutDecided() {
		l.firstCutReady = true
		l.changed.Broadcast()
	}
	again = min(again, l.wakeFeeds(now, woken), l.warnDisjoint(now))
	said := l.lastReach
	worth = reach.FlushBelow > said.FlushBelow || reach.OverdueBelow > said.OverdueBelow ||
		reach.InputOver != said.InputOver || reach.CompleteBelow-said.CompleteBelow >= uint64(max(1, l.cfg.Packing/8))
	if worth {
		l.lastReach = reach
	}
	return reach, worth, again
}

// wakeFeeds lets feeds that wait for their front-end hear what is safe. mu is held.
func (l *Live) wakeFeeds(now time.Duration, woken *time.Duration) (again time.Duration) {
	if due := *woken + reportInterval; now < due {
		for _, in := range l.intakes {
			if in.waiting && in.hasUnreported() {
				return due
			}
		}
		return live.Never
	}
	for _, in := range l.intakes {
		if in.waiting && in.hasUnreported() {
			in.cancelNext()
			*woken = now
		}
	}
	return live.Never
}
