package external

import (
	"time"

	"ringlet/filter"
	"ringlet/filter/decision"
)

// Pipeline of a worker's core (sequential, one goroutine; no I/O, no clock):
//
//	1 assign  a case is with the process from now on. The clock of an event runs from then, or from the answer before
//	          it
//	2 answer  what the process says of an event: checked, and written into the case. The last one finishes the case
//	3 expire  the event at hand has no answer in time: it passes, with the rest of its MEP. What is behind it is given
//	          back for others. The process gets nothing before it has answered all that it still has: it is behind
//	4 release the process has gone, or has to go: all that it has is finished or given back
//
// A case is in one place: with the core between assign and one of the others, which return it once.

// maxCases is how many MEPs a process may have: so many that it need not wait for the next one while the builder unit's
// goroutine is asleep, which takes some 50 µs.
const maxCases = 16

// maxFinishedSpans is how many MEPs that a process has done with are known, to tell an answer that comes twice from one
// that nobody asked for.
const maxFinishedSpans = 64

// maxReturns bounds how often a MEP is given back. A process that takes MEPs and leaves, over and over, could keep
// them from the output for good otherwise.
const maxReturns = 8

// core is what a builder unit knows of one process.
type core struct {
	deadline time.Duration // for one event; immutable

	cases         []heldCase  // with the process, in the order in which it got them
	judgingSince  time.Time   // from when on the event at hand counts
	overdue       []eventSpan // given up, and the process may still answer
	finishedSpans [maxFinishedSpans]eventSpan
	nextFinished  int // of past, to be overwritten

	judgingTotal, judgingMax time.Duration
	answerCounts             [numberOfAnswers]uint64
}

// heldCase is a case with the process.
type heldCase struct {
	*filter.Case
	unansweredEvents int // events without an answer
}

// eventSpan is events in a row of which so many have no answer.
type eventSpan struct {
	firstEvent       uint64
	eventCount       int
	unansweredEvents int
}

func (s *eventSpan) contains(event uint64) bool { return event-s.firstEvent < uint64(s.eventCount) }

// answerKind numbers what an answer can be.
type answerKind int

const (
	answerUsed       answerKind = iota // it is the verdict of an event
	answerLate                         // the event has passed by time-out, or is with another process
	answerDoubled                      // the event has an answer
	answerUnassigned                   // the process does not have the event
	answerInvalid                      // its 16 bytes are no result of that event

	numberOfAnswers = int(answerInvalid) + 1
)

// isIdle says that the process has nothing to do.
func (c *core) isIdle() bool { return len(c.cases) == 0 }

// hasOverdue says that the process has not answered what it was given up on.
func (c *core) hasOverdue() bool { return len(c.overdue) > 0 }

// acceptsCase says that it may be handed a case.
func (c *core) acceptsCase() bool { return len(c.cases) < maxCases && !c.hasOverdue() }

// assign takes that the process has a case from now on. Its entry may be read by nobody else any more.
func (c *core) assign(one *filter.Case, now time.Time) {
	if c.isIdle() {
		c.judgingSince = now
	}
	c.cases = append(c.cases, heldCase{one, one.Events})
}

// headDeadline is when the event at hand is too late. The process must not be idle.
func (c *core) headDeadline() time.Time { return c.judgingSince.Add(c.deadline) }

// applyAnswer takes 16 bytes about an event, and returns its case if that was the last one it waited for.
func (c *core) applyAnswer(event uint64, b []byte, now time.Time) (finished *filter.Case, what answerKind) {
	v, ok := verdictOf(event, b)
	if !ok {
		c.answerCounts[answerInvalid]++
		return nil, answerInvalid
	}
	what = answerUnassigned
	for i := range c.cases {
		h := &c.cases[i]
		if event-h.FirstEvent >= uint64(h.Events) {
			continue
		}
		at := &h.Verdicts[event-h.FirstEvent]
		if at.Decision != 0 {
			what = answerDoubled
			continue
		}
		*at = v
		if i == 0 { // else it skips events, and could keep them for good
			c.recordTime(now)
		}
		c.answerCounts[answerUsed]++
		if h.unansweredEvents--; h.unansweredEvents > 0 {
			return nil, answerUsed
		}
		finished = h.Case
		c.recordFinished(eventSpan{h.FirstEvent, h.Events, 0})
		c.drop(i)
		return finished, answerUsed
	}
	if what == answerUnassigned {
		what = c.classifyUnheld(event)
	}
	c.answerCounts[what]++
	return nil, what
}

// verdictOf checks an answer. A process may say that it accepts, that it rejects, and that it could not judge.
func verdictOf(event uint64, b []byte) (v filter.Verdict, ok bool) {
	var r decision.Result
	const low48 = 1<<48 - 1
	if err := r.Parse(b); err != nil || r.Event != event&low48 {
		return v, false
	}
	v = filter.Verdict{Decision: r.Decision, Score: r.Score}
	return v, v.Decision == filter.Accepted || v.Decision == filter.Rejected || v.Decision == filter.Failed
}

// recordTime counts the time of the event that was answered now; the next one counts from now on.
func (c *core) recordTime(now time.Time) {
	d := max(now.Sub(c.judgingSince), 0)
	c.judgingTotal += d
	c.judgingMax = max(c.judgingMax, d)
	c.judgingSince = now
}

// classifyUnheld says what an answer is about an event that the process does not have.
func (c *core) classifyUnheld(event uint64) answerKind {
	for i := range c.overdue {
		s := &c.overdue[i]
		if !s.contains(event) {
			continue
		}
		if s.unansweredEvents--; s.unansweredEvents == 0 {
			c.recordFinished(*s)
			c.overdue = append(c.overdue[:i], c.overdue[i+1:]...)
		}
		return answerLate
	}
	for i := range c.finishedSpans {
		if c.finishedSpans[i].contains(event) {
			return answerDoubled
		}
	}
	return answerUnassigned
}

func (c *core) recordFinished(s eventSpan) {
	c.finishedSpans[c.nextFinished] = s
	c.nextFinished = (c.nextFinished + 1) % maxFinishedSpans
}

// drop forgets case i.
func (c *core) drop(i int) {
	c.cases[i] = heldCase{}
	c.cases = append(c.cases[:i], c.cases[i+1:]...)
}

// expire gives up on the process for now, if its event at hand is too late: its case is finished, the others are
// appended to back.
func (c *core) expire(now time.Time, back []*filter.Case) (finished *filter.Case, _ []*filter.Case) {
	if c.isIdle() || !now.After(c.headDeadline()) {
		return nil, back
	}
	for i := range c.cases {
		h := &c.cases[i]
		c.overdue = append(c.overdue, eventSpan{h.FirstEvent, h.Events, h.unansweredEvents})
	}
	c.recordTime(now)
	return c.releaseCases(filter.TimedOut, back)
}

// releaseCases finishes the first case, the events of which that have no answer get that decision, and appends the
// others to back. Decision 0: the first one is given back, too.
func (c *core) releaseCases(d filter.Decision, back []*filter.Case) (finished *filter.Case, _ []*filter.Case) {
	for i := range c.cases {
		one := c.cases[i].Case
		c.cases[i] = heldCase{}
		if i == 0 && d != 0 {
			fillUnanswered(one, d)
			finished = one
			continue
		}
		clear(one.Verdicts)
		one.TimesReturned++
		back = append(back, one)
	}
	c.cases = c.cases[:0]
	return finished, back
}

// fillUnanswered gives a decision to the events of a case that have none.
func fillUnanswered(one *filter.Case, d filter.Decision) {
	for i := range one.Verdicts {
		if one.Verdicts[i].Decision == 0 {
			one.Verdicts[i] = filter.Verdict{Decision: d}
		}
	}
}
