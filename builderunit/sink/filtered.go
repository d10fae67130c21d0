package sink

import (
	"context"
	"errors"
	"time"

	"ringlet/trigger"
)

// Pipeline of a MEP that is filtered before an output takes it (docs/design/053-filter.md):
//
//	1 Write   (sequential: whoever writes)  a job of the judges has a copy (judges.go)
//	2 settle  (under mu)                    the output takes the MEP, with its decision
//	3 Flush   (parallel: another goroutine) waits for the jobs whose Write has returned, then flushes the output
//
// A filter that cannot keep up holds the jobs, so Write waits, and what waits for a sink is the builder unit's to hold
// or to discard.

// Filtered is the sink that has a filter judge the events of each MEP, and gives it to another sink with the decision:
// a MEP is rejected if all its events are.
type Filtered struct {
	to Sink // written to under mu
	judges
}

// NewFiltered puts filters before a sink, which is its own from now on.
func NewFiltered(to Sink, cfg FilterConfig) *Filtered {
	f := &Filtered{to: to}
	f.begin(cfg, f.hand)
	return f
}

// Panel is the filters that are not goroutines; nil: there are none.
func (f *Filtered) Panel() Panel { return f.cfg.Panel }

// Inner is the sink behind the filters.
func (f *Filtered) Inner() Sink { return f.to }

// Write takes a copy of a MEP for the filters, and waits while too many are there.
func (f *Filtered) Write(ctx context.Context, m Meta, mep []byte) error {
	j, err := f.take(ctx)
	if err != nil {
		return err
	}
	j.fill(ctx, m, mep)
	return f.submit(j)
}

// hand gives a MEP with its verdicts to the output. The caller holds mu.
func (f *Filtered) hand(j *candidate, verdicts []trigger.Verdict) {
	j.meta.Decision = trigger.Together(verdicts)
	if f.err == nil {
		f.err = f.to.Write(j.ctx, j.meta, j.mep())
	}
	if f.err == nil {
		f.tell(j, verdicts)
	}
}

// tell counts what was decided, and tells of it: of events in a row that have one verdict at once.
func (f *Filtered) tell(j *candidate, verdicts []trigger.Verdict) {
	took := time.Since(j.meta.Whole)
	for i := 0; i < len(verdicts); {
		v, n := verdicts[i], 1
		for i+n < len(verdicts) && verdicts[i+n] == v {
			n++
		}
		f.count.decided[v.Decision].Add(uint64(n))
		if v.Decision == trigger.Rejected && j.meta.Decision.Keeps() {
			f.count.carried.Add(uint64(n))
		}
		if f.cfg.Decided != nil {
			f.cfg.Decided(j.meta, i, n, v, took)
		}
		i += n
	}
}

// Flush waits until the MEPs whose Write has returned have their decisions, and flushes the output.
func (f *Filtered) Flush() error {
	if err := f.wait(); err != nil {
		return err
	}
	return f.to.Flush()
}

// Finish waits for the decisions and makes the output whole.
func (f *Filtered) Finish() (Result, error) {
	if err := f.Flush(); err != nil {
		f.stop()
		r, also := f.to.Finish()
		return r, errors.Join(err, also)
	}
	f.stop()
	return f.to.Finish()
}

// Abort gives up what has no decision yet, and the output.
func (f *Filtered) Abort() error {
	f.stop()
	return f.to.Abort()
}

// Written passes on how far the output is, so that progress is seen through a filter.
func (f *Filtered) Written() uint64 {
	n := f.count.settled()
	if w, ok := f.to.(interface{ Written() uint64 }); ok {
		n += w.Written()
	}
	return n
}
