package backlog

import (
	"time"

	"ringlet/internal/registry"
)

// Pipeline of a drain (sequential, one goroutine):
//
//	1 scan     the directory, its manifests and ledgers, to Runs
//	2 next     the pure core says what to do: remove, drain, recover, wait, end
//	3 drain    MEPs of one segment, through the filter to the outputs; those that are there already are passed over
//	4 commit   the outputs are flushed to the disk, then the ledger has its line
//	5          from 1 on

// act is what a drain does next.
type act int

// Acts. The order of this list is the order in which they come where several could be done.
const (
	actRemove  act = iota // the files of a drained segment
	actDrain              // a closed segment
	actRecover            // close what a killed writer left in a run
	actWait               // for a segment to be closed
	actEnd                // everything is drained, and nobody writes
)

// String is the word of an act.
func (a act) String() string {
	return registry.NameOf(a, "act", "remove", "drain", "recover", "wait", "end")
}

// segmentState is a closed segment as it was seen.
type segmentState struct {
	Name      string
	ClosedAt  time.Time
	Drained   bool // the ledger has it
	FilesGone bool // its files are not there
	Damaged   bool // some of its MEPs are; known of a drained one
}

// runState is a run of the backlog as it was seen.
type runState struct {
	IsBacklog    bool // it is a backlog: what is drained goes
	Concluded    bool // it has its verdict: nobody will write
	Segments     []segmentState
	OpenSegments int // segments that are not closed
	LiveSegments int // of these, those that a live process writes
}

// step is what is done next, with the places of run and segment where it has one.
type step struct {
	act
	RunIndex, SegmentIndex int
}

// core decides. It has no clock and no I/O.
type core struct {
	writerTimeout time.Duration // how long nobody writes before a run without a verdict counts as over
	quietSince    time.Duration // when it was seen first that nobody writes; 0: somebody does
	orphanSince   time.Duration // since when a killed writer's segment was seen beside live ones; 0: there is none
	recoveredRuns map[int]bool  // runs that were recovered since somebody wrote
}

// next decides, by what was seen at a time from any begin on.
//
// Of closed segments the oldest comes first, so that none waits for ever; runs come by their order where times are
// equal. Space comes before all: somebody may wait for it.
func (c *core) next(now time.Duration, runs []runState) step {
	n, ok := findRemovable(runs)
	if !ok {
		n, ok = findOldestUndrained(runs)
	}
	if !ok {
		return c.decideIdle(now, runs)
	}
	if c.recoveredRuns == nil { // a writer may have begun meanwhile
		c.quietSince = 0
	}
	return n
}

// findRemovable finds a segment that is drained, and is to go.
func findRemovable(runs []runState) (step, bool) {
	for r := range runs {
		for s := range runs[r].Segments {
			if one := &runs[r].Segments[s]; runs[r].IsBacklog && one.Drained && !one.FilesGone && !one.Damaged {
				return step{actRemove, r, s}, true
			}
		}
	}
	return step{}, false
}

// findOldestUndrained finds the segment that was closed first of those that are not drained.
func findOldestUndrained(runs []runState) (first step, ok bool) {
	var at time.Time
	for r := range runs {
		for s := range runs[r].Segments {
			one := &runs[r].Segments[s]
			if !one.Drained && !one.FilesGone && (!ok || one.ClosedAt.Before(at)) {
				first, at, ok = step{actDrain, r, s}, one.ClosedAt, true
			}
		}
	}
	return first, ok
}

// decideIdle decides where no closed segment is left.
func (c *core) decideIdle(now time.Duration, runs []runState) step {
	writes, sure := false, len(runs) > 0
	for r := range runs {
		writes = writes || runs[r].LiveSegments > 0
		sure = sure && runs[r].Concluded && runs[r].OpenSegments == 0
	}
	switch {
	case writes:
		c.quietSince, c.recoveredRuns = 0, nil
		return c.decideWhileLive(now, runs)
	case sure:
		return step{act: actEnd}
	case c.quietSince == 0:
		c.quietSince = max(1, now)
		return step{act: actWait}
	case now-c.quietSince < c.writerTimeout:
		return step{act: actWait}
	}
	for r := range runs {
		if runs[r].OpenSegments > 0 && !c.recoveredRuns[r] {
			if c.recoveredRuns == nil {
				c.recoveredRuns = map[int]bool{}
			}
			c.recoveredRuns[r] = true
			return step{act: actRecover, RunIndex: r}
		}
	}
	return step{act: actEnd}
}

// decideWhileLive decides while somebody writes: what another, killed, writer left is closed after a while. It is a
// part of what a builder unit may have, so it must not stay until the end of the run.
func (c *core) decideWhileLive(now time.Duration, runs []runState) step {
	for r := range runs {
		if runs[r].OpenSegments <= runs[r].LiveSegments {
			continue
		}
		if c.orphanSince == 0 {
			c.orphanSince = max(1, now)
		}
		if now-c.orphanSince < c.writerTimeout {
			return step{act: actWait}
		}
		c.orphanSince = max(1, now) // if that fails, it is tried again
		return step{act: actRecover, RunIndex: r}
	}
	c.orphanSince = 0
	return step{act: actWait}
}
