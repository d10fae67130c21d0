package external

import "time"

// Stats are the counters of a Pool.
type Stats struct {
	Processes  int    `count:"filter_processes" kind:"level" help:"filter processes that are there now"`
	Came       uint64 `count:"filter_processes_came" help:"filter processes that came"`
	Exited     uint64 `count:"filter_processes_left" help:"filter processes that left in good order"`
	Crashed    uint64 `count:"filter_processes_crashed" help:"filter processes that died"`
	Hung       uint64 `count:"filter_processes_hung" help:"filter processes dismissed for not answering"`
	Broken     uint64 `count:"filter_processes_broken" help:"filter processes dismissed for what stood in their memory"`
	Answers    uint64 `count:"filter_answers" help:"answers of filter processes that are the verdict of an event"`
	Late       uint64 `count:"filter_answers_late" help:"answers that came too late and changed nothing"`
	Doubled    uint64 `count:"filter_answers_doubled" help:"answers on events that had one; they changed nothing"`
	Unasked    uint64 `count:"filter_answers_unasked" help:"answers on events that the process did not have"`
	Invalid    uint64 `count:"filter_answers_invalid" help:"answers that were no result of their event"`
	Unattended uint64 `count:"filter_unattended" help:"events that passed by time-out since no filter process took them"`
	Returned   uint64 `count:"filter_returned" help:"events taken from a filter process that hung or left, for another one"`
}

// counts are the counters as they are counted.
type counts struct {
	processes                           int
	came, exited, crashed, hung, broken uint64
	unattended, returned                uint64
	answers                             [numberOfAnswers]uint64
	judging, longest                    time.Duration
}

// Stats reads the counters, from any goroutine.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &p.count
	return Stats{
		Processes:  c.processes,
		Came:       c.came,
		Exited:     c.exited,
		Crashed:    c.crashed,
		Hung:       c.hung,
		Broken:     c.broken,
		Answers:    c.answers[answerUsed],
		Late:       c.answers[answerLate],
		Doubled:    c.answers[answerDoubled],
		Unasked:    c.answers[answerUnasked],
		Invalid:    c.answers[answerInvalid],
		Unattended: c.unattended,
		Returned:   c.returned,
	}
}

// Times are how long processes had events in hand, of all together and at most.
func (p *Pool) Times() (judging, longest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count.judging, p.count.longest
}

// add takes over what a worker has counted.
func (c *counts) add(from *core) {
	for i, n := range from.count {
		c.answers[i] += n
	}
	c.judging += from.judging
	c.longest = max(c.longest, from.longest)
	from.count, from.judging, from.longest = [numberOfAnswers]uint64{}, 0, 0
}
