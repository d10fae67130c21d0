package sink

import (
	"context"
	"errors"
	"sync"
	"time"

	"ringlet/filter"
)

// Pipeline of a MEP that is filtered before an output takes it (docs/design/053-filter.md):
//
//	1 Write   (sequential: whoever writes)  a job of the judges has a copy (judges.go)
//	2 settle  (under mu)                    the output takes the MEP, with its decision
//	3 Flush   (parallel: another goroutine) waits for the jobs whose Write has returned, then flushes the output
//
// A filter that cannot keep up holds the jobs, so Write waits, and what waits for a sink is the builder unit's to hold
// or to discard.
//
// Of a MEP whose region of interest is judged first (docs/design/059-regions-of-interest.md):
//
//	1 Judge   (sequential: whoever asks)    a job has a copy of the region
//	2 settle  (under mu)                    the asker has the verdicts; of what they reject nothing more comes
//	3 Write   (sequential: whoever writes)  the whole MEP, which brings its verdicts, goes to the output at once

// Filtered is the sink that has a filter judge the events of each MEP, and gives it to another sink with the decision:
// a MEP is rejected if all its events are. A MEP that comes with verdicts is not judged again.
type Filtered struct {
	out sync.Mutex // held while the output is written to; may be taken under mu, and not the other way round
	to  Sink
	judges
}

// Asker has regions of interest judged.
type Asker interface {
	// Decided is told, once, whether the filter keeps the MEP whose region lies in a slot, with the verdicts on its
	// events, which are valid until it returns. It must not wait for those who judge. False: the MEP was given up
	// meanwhile.
	Decided(m Meta, slot int, keep bool, verdicts []filter.Verdict) bool
}

// NewFiltered puts filters before a sink, which is its own from now on.
func NewFiltered(to Sink, cfg FilterConfig) *Filtered {
	f := &Filtered{to: to}
	f.begin(cfg, f.settle)
	return f
}

// Panel is the filters that are not goroutines; nil: there are none.
func (f *Filtered) Panel() Panel { return f.cfg.Panel }

// Inner is the sink behind the filters.
func (f *Filtered) Inner() Sink { return f.to }

// Write takes a copy of a MEP for the filters, and waits while too many are there. A MEP that has verdicts goes to the
// output.
func (f *Filtered) Write(ctx context.Context, m Meta, mep []byte) error {
	if len(m.Verdicts) > 0 {
		return f.pass(ctx, m, mep)
	}
	j, err := f.take(ctx)
	if err != nil {
		return err
	}
	j.fill(ctx, m, mep)
	return f.submit(j)
}

// Judge takes a copy of the region of interest of a MEP, which has the form of a MEP, and tells the asker what the
// filters say of it. It waits while more than FilterConfig.Regions are being judged.
func (f *Filtered) Judge(ctx context.Context, m Meta, region []byte, slot int, asker Asker) error {
	j, err := f.take(ctx)
	if err != nil {
		return err
	}
	j.fill(ctx, m, region)
	j.asker, j.slot = asker, slot
	return f.submit(j)
}

// settle does what the verdicts on a job lead to. The caller holds mu.
func (f *Filtered) settle(j *candidate, verdicts []filter.Verdict) {
	j.meta.Decision = filter.Together(verdicts)
	if j.asker != nil {
		keep := j.meta.Decision.Keeps()
		if j.asker.Decided(j.meta, j.slot, keep, verdicts) && !keep {
			f.count.region.Add(uint64(len(verdicts)))
			f.tell(j.meta, verdicts)
		}
		return
	}
	if f.err == nil {
		f.err = f.write(j.ctx, j.meta, j.mep())
	}
	if f.err == nil {
		f.tell(j.meta, verdicts)
	}
}

// pass gives the output a MEP that was judged by its region. An output that is slow does not hold up those who judge.
func (f *Filtered) pass(ctx context.Context, m Meta, mep []byte) error {
	f.mu.Lock()
	err := f.err
	f.mu.Unlock()
	if err != nil {
		return err
	}
	verdicts := m.Verdicts
	m.Decision, m.Verdicts = filter.Together(verdicts), nil
	if err := f.write(ctx, m, mep); err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.err == nil {
			f.err = err
			f.settles.Broadcast()
		}
		return err
	}
	f.tell(m, verdicts)
	return nil
}

func (f *Filtered) write(ctx context.Context, m Meta, mep []byte) error {
	f.out.Lock()
	defer f.out.Unlock()
	return f.to.Write(ctx, m, mep)
}

// tell counts what was decided, and tells of it: of events in a row that have one verdict at once.
func (f *Filtered) tell(m Meta, verdicts []filter.Verdict) {
	took := time.Since(m.Whole)
	for i := 0; i < len(verdicts); {
		v, n := verdicts[i], 1
		for i+n < len(verdicts) && verdicts[i+n] == v {
			n++
		}
		f.count.decided[v.Decision].Add(uint64(n))
		if v.Decision == filter.Rejected && m.Decision.Keeps() {
			f.count.carried.Add(uint64(n))
		}
		if f.cfg.Decided != nil {
			f.cfg.Decided(m, i, n, v, took)
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
