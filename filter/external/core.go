package external

import (
	"time"

	"ringlet/filter"
	"ringlet/filter/decision"
)

// Pipeline of a worker's core (sequential, one goroutine; no I/O, no clock):
//
//	1 assign  the process has a case from now on. The clock of an event runs from then, or from the answer before it
//	2 answer  the process's answer on an event is checked, and written into the case. The last one finishes the case
//	3 expire  the first unanswered event has no answer in time: it passes, with the rest of its MEP. Later cases are
//	          returned for other processes. The process gets no case before it has answered all that it still has: it
//	          is overdue
//	4 release the process has gone, or is dismissed: all its cases are finished or returned
//
// A case is in one place: in the core from assign until one of the other steps returns it, once.

// maxCases is how many MEPs a process may have: so many that it need not wait for the next one while the builder
// unit's goroutine sleeps, which takes some 50 µs.
const maxCases = 16

// maxFinishedSpans is how many finished MEPs of a process are remembered, to tell a second answer from one on an event
// that the process never had.
const maxFinishedSpans = 64

// maxReturns bounds how often a MEP is returned. Otherwise a process that takes MEPs and leaves, over and over, could
// keep them from the output for good.
const maxReturns = 8

// core is the builder unit's knowledge of one process.
type core struct {
	deadline time.Duration // for one event; immutable

	cases         []heldCase  // cases of the process, in the order in which it got them
	judgingSince  time.Time   // from when the time of the first unanswered event counts
	overdue       []eventSpan // given up; the process may still answer
	finishedSpans [maxFinishedSpans]eventSpan
	nextFinished  int // index in finishedSpans to be overwritten next

	judgingTotal, judgingMax time.Duration
	answerCounts             [numberOfAnswers]uint64
}

// heldCase is a case that the process has.
type heldCase struct {
	*filter.Case
	unansweredEvents int // events without an answer
}

// eventSpan is consecutive events, some of them without an answer.
type eventSpan struct {
	firstEvent       uint64
	eventCount       int
	unansweredEvents int
}

func (s *eventSpan) contains(event uint64) bool { return event-s.firstEvent < uint64(s.eventCount) }

// answerKind is what the core makes of an answer.
type answerKind int

const (
	answerUsed       answerKind = iota // it is the verdict of an event
	answerLate                         // the event has passed by time-out, or is with another process
	answerDoubled                      // the event has an answer already
	answerUnassigned                   // the process does not have the event
	answerInvalid                      // its 16 bytes are no valid result of that event

	numberOfAnswers = int(answerInvalid) + 1
)

// isIdle says that the process has no case.
func (c *core) isIdle() bool { return len(c.cases) == 0 }

// hasOverdue says that the process has not answered all events on which it was given up.
func (c *core) hasOverdue() bool { return len(c.overdue) > 0 }

// acceptsCase says that the process may get a case.
func (c *core) acceptsCase() bool { return len(c.cases) < maxCases && !c.hasOverdue() }

// assign gives the process a case. No other process may read its Entry from now on.
func (c *core) assign(one *filter.Case, now time.Time) {
	if c.isIdle() {
		c.judgingSince = now
	}
	c.cases = append(c.cases, heldCase{one, one.Events})
}

// headDeadline is the deadline of the first unanswered event. The process must not be idle.
func (c *core) headDeadline() time.Time { return c.judgingSince.Add(c.deadline) }

// applyAnswer applies an answer of 16 bytes on an event, and returns its case if that was the last unanswered event.
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
		if i == 0 { // otherwise it skips events, and could delay them for ever
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

// verdictOf checks an answer. A process may accept, reject, or say that it could not judge.
func verdictOf(event uint64, b []byte) (v filter.Verdict, ok bool) {
	var r decision.Result
	const low48 = 1<<48 - 1
	if err := r.Parse(b); err != nil || r.Event != event&low48 {
		return v, false
	}
	v = filter.Verdict{Decision: r.Decision, Score: r.Score}
	return v, v.Decision == filter.Accepted || v.Decision == filter.Rejected || v.Decision == filter.Failed
}

// recordTime counts the time of the event that was answered now; the time of the next one begins.
func (c *core) recordTime(now time.Time) {
	d := max(now.Sub(c.judgingSince), 0)
	c.judgingTotal += d
	c.judgingMax = max(c.judgingMax, d)
	c.judgingSince = now
}

// classifyUnheld classifies an answer on an event that the process does not have.
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

// drop removes case i.
func (c *core) drop(i int) {
	c.cases[i] = heldCase{}
	c.cases = append(c.cases[:i], c.cases[i+1:]...)
}

// expire gives up on the process for now, if its first unanswered event is too late: it finishes the case of that
// event, and appends the others to back.
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

// releaseCases finishes the first case, whose unanswered events get decision d, and appends the others to back. With d
// = 0 it returns the first one, too.
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
