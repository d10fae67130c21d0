package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"ringlet/source/live"
)

// intake is one live source: its feed, and those of its fragments that wait to be built. Only the intake's own
// goroutine calls Next of the feed.
type intake struct {
	live  *Live
	index int // in the readout unit
	name  string
	feed  live.Feed
	// maxFragment is the largest fragment in bytes, as the input declares it
	maxFragment int

	options Options // of the input

	// owned by its goroutine
	closeErr error

	// guarded by Live.mu; the bytes of a fragment belong to the goroutine that reserved them, then to the reader
	stage             fragmentStage
	reportedSafe      uint64              // the feed knows that all events of its front-end below are safe
	reportedResume    uint64              // the feed knows that the source has come to this event of its front-end
	translation       live.Translation    // of numbers to events of the front-end, if these differ
	unreportedGivenUp []live.GivenUpRange // fragments given up that the feed does not know of, in the order of giving up
	isDisjoint        bool                // it shares no number with another source
	waiting           bool                // in Next of the feed
	ctx               context.Context
	cancelNext        context.CancelFunc // ends Next of the feed, so that the goroutine can report what is safe
	newestAt          time.Duration      // when the newest fragment came
	hasData           bool
	arrivals          arrivals
	stalled           bool
	gate              live.FillGate // of the stage
	failed            bool
	logThrottles      [live.FaultCount]logThrottle // by fault
	lastFault         string                       // what was wrong with the last rejected fragment, without the source
}

// logThrottle is the time at which a fault was logged last, and how often the fault occurred since.
type logThrottle struct {
	last       time.Time
	suppressed uint64
}

// maxFeedBatch is how many fragments one call of Next takes from a feed, so that one lock is enough for all of them.
const maxFeedBatch = 256

// receiveFragments takes fragments from the feed until the run ends or the source is closed.
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

// beginWait reports what is safe before the feed's Next, which may wait, is called. False: the run ends, and the
// goroutine takes no more fragments from the feed.
func (in *intake) beginWait() bool {
	in.live.mu.Lock()
	defer in.live.mu.Unlock()
	in.awaitHold()
	in.reportSafe()
	if in.ctx == nil || in.ctx.Err() != nil {
		in.ctx, in.cancelNext = context.WithCancel(in.live.ctx)
	}
	in.waiting = !in.live.intakeStopped()
	return in.waiting
}

// intakeStopped says that no more fragments are taken from feeds. mu is held.
func (l *Live) intakeStopped() bool { return l.intakeEnding || l.closed }

func (in *intake) endWait() {
	in.live.mu.Lock()
	defer in.live.mu.Unlock()
	in.waiting = false
}

// reportableSafe is the event of the front-end below which the feed may report events as safe: those that have their
// outcome, but no further than the source's accepted fragments have come. Otherwise a front-end that lags behind, whose
// events were given up meanwhile, would take for safe what it has not sent yet. mu is held.
func (in *intake) reportableSafe() uint64 {
	return in.safeEvent(min(in.live.safeBelow, in.live.matcher.NextEvent(in.index)))
}

// hasUnreported says that the feed is to be told what is safe or what was given up. mu is held.
func (in *intake) hasUnreported() bool {
	return len(in.unreportedGivenUp) > 0 || in.reportedSafe < in.reportableSafe()
}

// reportSafe tells the feed how far its source has come, which fragments were given up, and after that which events
// are safe: a front-end must learn of a loss before an acknowledgement covers it. The caller holds mu; reportSafe
// releases it while it calls the feed.
func (in *intake) reportSafe() {
	for {
		next, safe, givenUp := in.resumeEvent(), in.reportableSafe(), in.unreportedGivenUp
		resume, acknowledge := in.reportedResume != next, in.reportedSafe < safe
		if !resume && !acknowledge && len(givenUp) == 0 {
			return
		}
		in.reportedResume, in.unreportedGivenUp, in.reportedSafe = next, nil, max(in.reportedSafe, safe)
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

// noteGivenUp notes that the feed is to report a fragment that will be in no file. A repeated fragment is not given
// up: the first copy has its own outcome, and a client would take an event that is given up for done with. A correct
// front-end, too, repeats fragments that were suspect here when its connection broke. mu is held.
func (in *intake) noteGivenUp(e uint64, why live.Fault) {
	if why == live.FaultRepeat {
		return
	}
	one := live.GivenUpRange{From: e, To: e + 1, Fault: why}
	if n := len(in.unreportedGivenUp); n == 0 || !in.unreportedGivenUp[n-1].Extend(one) {
		in.unreportedGivenUp = append(in.unreportedGivenUp, one)
	}
}

// releaseDropped frees the fragments that the matcher does not need any more, and notes which of them it gave up. mu
// is held.
func (l *Live) releaseDropped() {
	dropped := l.matcher.TakeDropped()
	for i := range dropped {
		d := &dropped[i]
		in := l.intakes[d.Source]
		in.stage.free(d.Ref)
		if d.Fault > 0 {
			in.noteDropped(d)
			in.logFault(&live.FragmentError{
				Source:    in.name,
				Event:     d.Event,
				Fault:     d.Fault,
				Reference: d.Reference,
			})
		}
	}
	if len(dropped) > 0 {
		l.noteAllFills()
		l.changed.Broadcast() // a goroutine that waits for room in the stage may have it
	}
}

// reportUntilClosed goes on reporting to the feed of a source that gives no more fragments what is safe, until Close.
func (in *intake) reportUntilClosed(over bool) {
	in.live.mu.Lock()
	defer in.live.mu.Unlock()
	if over {
		in.live.matcher.MarkSourceOver(in.index)
		in.noteOther(in.translation.TrustLast())
		in.live.disjointCheckedAt = 0 // the clock compares its numbers with other sources' now: the run may end
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

// failSource records that a source cannot go on. With MarkMissing its fragments are missing from now on; otherwise the
// input ends after the cuts that the scheduler has made already.
func (in *intake) failSource(err error) {
	in.live.mu.Lock()
	defer in.live.mu.Unlock()
	in.failed = true
	if in.live.failure == nil {
		in.live.failure = err // it names the source
		in.live.inputEnded, in.live.remainingCuts = in.live.cfg.Live.OnMissing != live.MarkMissing, in.live.cutsLeft
	}
	in.live.cfg.Live.Log.Error("a source cannot go on; its fragments are missing from now on", "source", in.name, "err",
		err)
	in.live.changed.Broadcast()
}

// stageFragments copies fragments to the stage and gives them to the matcher. It waits for room, unless the run ends:
// then the fragments for which there is no room are left over, and not safe. The error means that the feed gave a
// fragment that no feed may give.
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
			in.stage.setWords(refs[i], fragments[i].Words)
		}
		if accepted := in.offerFragments(fragments[:n], &refs); accepted < n {
			in.countLeftOver(len(fragments) - accepted)
			return nil
		}
		in.reportResume() // first: a front-end that reconnects in between would repeat released fragments
		in.feed.ReleaseFragments(n)
		fragments = fragments[n:]
	}
	return nil
}

// reportResume tells the feed of a source how far the source has come.
func (in *intake) reportResume() {
	in.live.mu.Lock()
	next := in.resumeEvent()
	changed := in.reportedResume != next
	in.reportedResume = next
	in.live.mu.Unlock()
	if changed {
		in.feed.SetResumeEvent(next)
	}
}

// reserveStage waits until there is room for the first fragment, and reserves room for as many as it can.
func (in *intake) reserveStage(fragments []live.Fragment, refs *[maxFeedBatch]uint64) (n int, err error) {
	in.live.mu.Lock()
	defer in.live.mu.Unlock()
	for {
		for n < len(fragments) {
			size := len(fragments[n].Data)
			if size > in.maxFragment {
				return n, fmt.Errorf("its feed gave a fragment of %d bytes, more than the %d that one can have", size,
					in.maxFragment)
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
			in.noteFill()
			return n, nil
		}
		if in.live.intakeStopped() {
			return 0, nil
		}
		in.waitStalled()
	}
}

// resumeIntake notes that the source's fragments are accepted again. mu is held.
func (in *intake) resumeIntake() {
	if in.stalled {
		in.stalled = false
		in.noteFill()
		in.live.matcher.SetStalled(in.index, false, in.live.now())
	}
}

// waitStalled waits until something has changed, and notes that no fragments are taken from the source meanwhile. mu
// is held.
func (in *intake) waitStalled() {
	if !in.stalled {
		in.stalled = true
		in.noteFill()
		in.live.matcher.SetStalled(in.index, true, in.live.now())
		in.live.wakeClock()
	}
	in.live.changed.Wait()
}

// offerFragments gives fragments that are in the stage to the matcher. It accepts fewer than all if the run ends while
// the matcher has no room for a fragment that is far ahead.
func (in *intake) offerFragments(fragments []live.Fragment, refs *[maxFeedBatch]uint64) (accepted int) {
	in.live.mu.Lock()
	defer in.live.mu.Unlock()
	defer in.live.wakeClock()
	now := in.live.now()
	since := time.Duration(-1)
	if in.hasData {
		since = now - in.newestAt
	}
	in.arrivals.record(fragments, since)
	in.newestAt, in.hasData = now, true
	for i := range fragments {
		if !in.offerFragment(&fragments[i], refs[i], &now) {
			return i
		}
	}
	return len(fragments)
}

// offerFragment gives a fragment to the matcher, when it has room for it; false, if the run ends before. mu is held.
func (in *intake) offerFragment(f *live.Fragment, ref uint64, now *time.Duration) bool {
	number, why, ok := in.options.numberOf(f)
	if !ok {
		in.throwUnnumbered(f, ref, why)
		return true
	}
	p := live.FragmentRef{
		Event: number,
		Ref:   ref,
		Size:  uint32(len(f.Data)),
		Type:  f.Type,
	}
	v, err := in.live.matcher.Offer(in.index, p, *now)
	for v == live.OfferAhead {
		if in.live.intakeStopped() {
			return false
		}
		in.waitStalled()
		*now = in.live.now()
		v, err = in.live.matcher.Offer(in.index, p, *now)
	}
	in.resumeIntake()
	in.noteOffered(f, ref)
	var wrong *live.FragmentError
	if v == live.OfferThrown && errors.As(err, &wrong) {
		in.stage.free(ref)
		in.noteThrown(ref, wrong)
		in.noteFill()
		in.live.changed.Broadcast() // there is room
	}
	if err != nil {
		in.logFault(err)
	}
	in.live.releaseDropped()
	return true
}

// countLeftOver counts fragments that the feed gave and that no MEP of this run will have.
func (in *intake) countLeftOver(n int) {
	in.live.mu.Lock()
	defer in.live.mu.Unlock()
	in.live.matcher.CountLeftOver(in.index, n)
}

// logFault logs what is wrong with a fragment, each fault at most once a second. mu is held.
func (in *intake) logFault(err error) {
	const often = time.Second
	var wrong *live.FragmentError
	if !errors.As(err, &wrong) {
		return // the matcher returns no other error
	}
	if wrong.Fault != live.FaultGap { // the fragment after a gap is used
		in.lastFault = strings.TrimPrefix(err.Error(), "source "+in.name+": ")
	}
	said := &in.logThrottles[wrong.Fault]
	said.suppressed++
	if now := time.Now(); now.Sub(said.last) >= often {
		in.live.cfg.Live.Log.Warn("a fragment's number is wrong", "source", in.name, "err", err, "such", said.suppressed)
		said.last, said.suppressed = now, 0
	}
}

// reportInterval is how often, at most, the clock interrupts feeds that wait for their front-end, so that they report
// what is safe.
const reportInterval = 20 * time.Millisecond

// runClock decides what depends on time, such as deadlines of fragments, and reports to the scheduler how far the data
// have come.
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

// stepClock is one turn of the clock: worth says that the scheduler is to learn reach, again is when the next turn is
// due.
func (l *Live) stepClock(woken *time.Duration) (reach live.Reach, worth bool, again time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	low := l.matcher.Low()
	reach, again = l.matcher.Step(now)
	if l.releaseDropped(); l.matcher.Low() != low {
		l.changed.Broadcast() // a source that was too far ahead of the others may go on
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

// wakeFeeds interrupts feeds that wait for their front-end and have something to report. mu is held.
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
