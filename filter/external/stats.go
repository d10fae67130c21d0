package external

import "time"

// Stats are the counters of a Pool.
type Stats struct {
	Processes         int    `count:"filter_processes" kind:"level" help:"filter processes that are there now"`
	Attached          uint64 `count:"filter_processes_came" help:"filter processes that came"`
	Exited            uint64 `count:"filter_processes_left" help:"filter processes that left in good order"`
	Crashed           uint64 `count:"filter_processes_crashed" help:"filter processes that died"`
	DismissedHung     uint64 `count:"filter_processes_hung" help:"filter processes dismissed for not answering"`
	DismissedBroken   uint64 `count:"filter_processes_broken" help:"filter processes dismissed: their memory made no sense"`
	Answers           uint64 `count:"filter_answers" help:"answers of filter processes that are the verdict of an event"`
	LateAnswers       uint64 `count:"filter_answers_late" help:"answers that came too late"`
	DoubledAnswers    uint64 `count:"filter_answers_doubled" help:"answers on events that had one"`
	UnassignedAnswers uint64 `count:"filter_answers_unasked" help:"answers on events that the process did not have"`
	InvalidAnswers    uint64 `count:"filter_answers_invalid" help:"answers that were no result of their event"`
	UnjudgedEvents    uint64 `count:"filter_unattended" help:"events that passed since no filter process took them"`
	ReturnedEvents    uint64 `count:"filter_returned" help:"events taken from a filter process and given to another one"`
}

// counts are Stats while they are counted.
type counts struct {
	processes                               int
	attached, exited, crashed, hung, broken uint64
	unjudgedEvents, returnedEvents          uint64
	answers                                 [numberOfAnswers]uint64
	judgingTotal, judgingMax                time.Duration
}

// Stats reads the counters, from any goroutine.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &p.counts
	return Stats{
		Processes:         c.processes,
		Attached:          c.attached,
		Exited:            c.exited,
		Crashed:           c.crashed,
		DismissedHung:     c.hung,
		DismissedBroken:   c.broken,
		Answers:           c.answers[answerUsed],
		LateAnswers:       c.answers[answerLate],
		DoubledAnswers:    c.answers[answerDoubled],
		UnassignedAnswers: c.answers[answerUnassigned],
		InvalidAnswers:    c.answers[answerInvalid],
		UnjudgedEvents:    c.unjudgedEvents,
		ReturnedEvents:    c.returnedEvents,
	}
}

// JudgeTimes returns how long processes judged events, in sum and for the longest one.
func (p *Pool) JudgeTimes() (judging, longest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts.judgingTotal, p.counts.judgingMax
}

// add adds the counters of a worker's core, and clears them there.
func (c *counts) add(from *core) {
	for i, n := range from.answerCounts {
		c.answers[i] += n
	}
	c.judgingTotal += from.judgingTotal
	c.judgingMax = max(c.judgingMax, from.judgingMax)
	from.answerCounts, from.judgingTotal, from.judgingMax = [numberOfAnswers]uint64{}, 0, 0
}
