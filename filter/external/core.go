package external

import (
	"time"

	"ringlet/filter"
	"ringlet/filter/decision"
)

// Pipeline of a lane's core (sequential, one goroutine; no I/O, no clock):
//
//	1 hand    a case is with the process from now on. The clock of an event runs from then, or from the answer before it
//	2 answer  what the process says of an event: checked, and written into the case. The last one settles the case
//	3 expire  the event at hand has no answer in time: it passes, with the rest of its MEP. What is behind it is given
//	          back for others. The process gets nothing before it has answered all that it still has: it is behind
//	4 leave   the process has gone, or has to go: all that it has is settled or given back
//
// A case is in one place: with the core between hand and one of the others, which return it once.

// depth is how many MEPs a process may have: so many that it need not wait for the next one while the builder unit's
// goroutine is asleep, which takes some 50 µs.
const depth = 16

// remembered is how many MEPs that a process has done with are known, to tell an answer that comes twice from one that
// nobody asked for.
const remembered = 64

// mostReturns bounds how often a MEP is given back. A process that takes MEPs and leaves, over and over, could keep
// them from the output for good otherwise.
const mostReturns = 8

// core is what a builder unit knows of one process.
type core struct {
	deadline time.Duration // for one event; immutable

	held  []held    // with the process, in the order in which it got them
	since time.Time // from when on the event at hand counts
	owed  []span    // given up, and the process may still answer
	past  [remembered]span
	next  int // of past, to be overwritten

	judging, longest time.Duration
	count            [answers]uint64
}

// held is a case with the process.
type held struct {
	*filter.Case
	left int // events without an answer
}

// span is events in a row of which so many have no answer.
type span struct {
	first uint64
	n     int
	left  int
}

func (s *span) has(event uint64) bool { return event-s.first < uint64(s.n) }

// answer numbers what an answer can be.
type answer int

const (
	taken   answer = iota // it is the verdict of an event
	late                  // the event has passed by time-out, or is with another process
	doubled               // the event has an answer
	unasked               // the process does not have the event
	invalid               // its 16 bytes are no result of that event

	answers = int(invalid) + 1
)

// idle says that the process has nothing to do.
func (c *core) idle() bool { return len(c.held) == 0 }

// behind says that the process has not answered what it was given up on.
func (c *core) behind() bool { return len(c.owed) > 0 }

// ready says that it may be handed a case.
func (c *core) ready() bool { return len(c.held) < depth && !c.behind() }

// hand takes that the process has a case from now on. Its entry may be read by nobody else any more.
func (c *core) hand(one *filter.Case, now time.Time) {
	if c.idle() {
		c.since = now
	}
	c.held = append(c.held, held{one, one.Events})
}

// due is when the event at hand is too late. The process must not be idle.
func (c *core) due() time.Time { return c.since.Add(c.deadline) }

// answer takes 16 bytes about an event, and returns its case if that was the last one it waited for.
func (c *core) answer(event uint64, b []byte, now time.Time) (settled *filter.Case, what answer) {
	v, ok := verdictOf(event, b)
	if !ok {
		c.count[invalid]++
		return nil, invalid
	}
	what = unasked
	for i := range c.held {
		h := &c.held[i]
		if event-h.First >= uint64(h.Events) {
			continue
		}
		at := &h.Verdicts[event-h.First]
		if at.Decision != 0 {
			what = doubled
			continue
		}
		*at = v
		if i == 0 { // else it skips events, and could keep them for good
			c.took(now)
		}
		c.count[taken]++
		if h.left--; h.left > 0 {
			return nil, taken
		}
		settled = h.Case
		c.remember(span{h.First, h.Events, 0})
		c.drop(i)
		return settled, taken
	}
	if what == unasked {
		what = c.recall(event)
	}
	c.count[what]++
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

// took counts the time of the event that was answered now; the next one counts from now on.
func (c *core) took(now time.Time) {
	d := max(now.Sub(c.since), 0)
	c.judging += d
	c.longest = max(c.longest, d)
	c.since = now
}

// recall says what an answer is about an event that the process does not have.
func (c *core) recall(event uint64) answer {
	for i := range c.owed {
		s := &c.owed[i]
		if !s.has(event) {
			continue
		}
		if s.left--; s.left == 0 {
			c.remember(*s)
			c.owed = append(c.owed[:i], c.owed[i+1:]...)
		}
		return late
	}
	for i := range c.past {
		if c.past[i].has(event) {
			return doubled
		}
	}
	return unasked
}

func (c *core) remember(s span) {
	c.past[c.next] = s
	c.next = (c.next + 1) % remembered
}

// drop forgets case i.
func (c *core) drop(i int) {
	c.held[i] = held{}
	c.held = append(c.held[:i], c.held[i+1:]...)
}

// expire gives up on the process for now, if its event at hand is too late: its case is settled, the others are
// appended to back.
func (c *core) expire(now time.Time, back []*filter.Case) (settled *filter.Case, _ []*filter.Case) {
	if c.idle() || !now.After(c.due()) {
		return nil, back
	}
	for i := range c.held {
		h := &c.held[i]
		c.owed = append(c.owed, span{h.First, h.Events, h.left})
	}
	c.took(now)
	return c.leave(filter.TimedOut, back)
}

// leave settles the first case, the events of which that have no answer get that decision, and appends the others to
// back. Decision 0: the first one is given back, too.
func (c *core) leave(d filter.Decision, back []*filter.Case) (settled *filter.Case, _ []*filter.Case) {
	for i := range c.held {
		one := c.held[i].Case
		c.held[i] = held{}
		if i == 0 && d != 0 {
			complete(one, d)
			settled = one
			continue
		}
		clear(one.Verdicts)
		one.Returned++
		back = append(back, one)
	}
	c.held = c.held[:0]
	return settled, back
}

// complete gives a decision to the events of a case that have none.
func complete(one *filter.Case, d filter.Decision) {
	for i := range one.Verdicts {
		if one.Verdicts[i].Decision == 0 {
			one.Verdicts[i] = filter.Verdict{Decision: d}
		}
	}
}
