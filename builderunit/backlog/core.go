package backlog

import (
	"time"

	"ringlet/internal/registry"
)

// Pipeline of a drain (sequential, one goroutine):
//
//	1 scan     reads the directory, its manifests and ledgers into run states
//	2 next     the pure core decides: remove, drain, recover, wait, end
//	3 drain    passes MEPs of one segment through the filter to the outputs, except those that are there already
//	4 commit   flushes the outputs to the disk, then writes the ledger's line
//	5          goes on with 1

// act is what a drain does next.
type act int

// Acts. If several are possible, the first of this list comes first.
const (
	actRemove  act = iota // remove the files of a drained segment
	actDrain              // drain a closed segment
	actRecover            // close what a killed writer left of a run
	actWait               // wait until a segment is closed
	actEnd                // everything is drained, and no process writes
)

func (a act) String() string {
	return registry.NameOf(a, "act", "remove", "drain", "recover", "wait", "end")
}

// segmentState is what scan found of a closed segment.
type segmentState struct {
	Name      string
	ClosedAt  time.Time
	Drained   bool // the ledger has a line for it
	FilesGone bool // its files are removed, or cannot be read
	Damaged   bool // some of its MEPs are damaged; known only of a drained segment
}

// runState is what scan found of a run of the backlog.
type runState struct {
	IsBacklog    bool // drained segments are removed
	Concluded    bool // the run has its verdict: no process will write
	Segments     []segmentState
	OpenSegments int // segments that are not closed
	LiveSegments int // of these, those that a live process writes
}

// step is the next act, with the indexes of its run and segment if it has one.
type step struct {
	act
	RunIndex, SegmentIndex int
}

// core decides the next step. It has no clock and no I/O.
type core struct {
	writerTimeout time.Duration // a run without a verdict counts as over when no process has written for this long
	quietSince    time.Duration // when scan first found no live writer; 0: there is one
	orphanSince   time.Duration // when scan first found a killed writer's segment beside live ones; 0: there is none
	recoveredRuns map[int]bool  // runs recovered since the last live writer
}

// next decides the next step by the states found at time now, which counts from any fixed moment.
//
// Of closed segments the one closed first comes first, so that none waits for ever; with equal times, runs come in
// their order. Removal comes before all: a builder unit may wait for the space.
func (c *core) next(now time.Duration, runs []runState) step {
	n, ok := findRemovable(runs)
	if !ok {
		n, ok = findOldestUndrained(runs)
	}
	if !ok {
		return c.decideIdle(now, runs)
	}
	if c.recoveredRuns == nil { // a writer may have begun in the meantime
		c.quietSince = 0
	}
	return n
}

// findRemovable finds a drained segment whose files are to be removed.
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

// findOldestUndrained finds the segment that was closed first among those that are not drained.
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

// decideIdle decides when no closed segment is left to drain or remove.
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

// decideWhileLive decides while a process writes. Segments of another writer, which was killed, are closed after
// writerTimeout: they count against the bytes that a builder unit may have, so they must not stay open until the run
// ends.
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
		c.orphanSince = max(1, now) // if the recovery fails, it is tried again later
		return step{act: actRecover, RunIndex: r}
	}
	c.orphanSince = 0
	return step{act: actWait}
}
