package sink

import (
	"context"
	"errors"
	"sync"
	"time"

	"ringlet/filter"
)

// Pipeline of a MEP that is filtered before an output takes it (docs/design/053-filters.md):
//
//	1 Write   (sequential: whoever writes)  a job of the judges has a copy (judges.go)
//	2 finish  (under mu)                    the output takes the MEP, with its decision
//	3 Flush   (parallel: another goroutine) waits for the jobs whose Write has returned, then flushes the output
//
// A filter that cannot keep up holds the jobs, so Write waits, and what waits for a sink is the builder unit's to hold
// or to discard.
//
// Of a MEP whose region of interest is judged first (docs/design/053-filters.md):
//
//	1 Judge   (sequential: whoever asks)    a job has a copy of the region
//	2 finish  (under mu)                    the client has the verdicts; of what they reject nothing more comes
//	3 Write   (sequential: whoever writes)  the whole MEP, which brings its verdicts, goes to the output at once

// FilterSink is the sink that has a filter judge the events of each MEP, and gives it to another sink with the
// decision: a MEP is rejected if all its events are. A MEP that comes with verdicts is not judged again.
type FilterSink struct {
	outMu  sync.Mutex // held while the output is written to; may be taken under mu, and not the other way round
	output Sink
	judges
}

// RegionClient has regions of interest judged.
type RegionClient interface {
	// ApplyDecision is told, once, whether the filter keeps the MEP whose region lies in a slot, with the verdicts on its
	// events, which are valid until it returns. It must not wait for those who judge. False: the MEP was given up
	// meanwhile.
	ApplyDecision(m Meta, slot int, keep bool, verdicts []filter.Verdict) bool
}

// NewFilterSink puts filters before a sink, which is its own from now on.
func NewFilterSink(to Sink, cfg FilterConfig) *FilterSink {
	f := &FilterSink{output: to}
	f.start(cfg, f.handleVerdicts)
	return f
}

// External is the filters that are not goroutines; nil: there are none.
func (f *FilterSink) External() ExternalFilter { return f.cfg.External }

// OutputSink is the sink behind the filters.
func (f *FilterSink) OutputSink() Sink { return f.output }

// Write takes a copy of a MEP for the filters, and waits while too many are there. A MEP that has verdicts goes to the
// output.
func (f *FilterSink) Write(ctx context.Context, m Meta, mep []byte) error {
	if len(m.Verdicts) > 0 {
		return f.writeJudged(ctx, m, mep)
	}
	j, err := f.claimJob(ctx)
	if err != nil {
		return err
	}
	j.fill(ctx, m, mep)
	return f.submit(j)
}

// Judge takes a copy of the region of interest of a MEP, which has the form of a MEP, and tells the client what the
// filters say of it. It waits while more than FilterConfig.MaxRegions are being judged.
func (f *FilterSink) Judge(ctx context.Context, m Meta, region []byte, slot int, client RegionClient) error {
	j, err := f.claimJob(ctx)
	if err != nil {
		return err
	}
	j.fill(ctx, m, region)
	j.client, j.slot = client, slot
	return f.submit(j)
}

// handleVerdicts does what the verdicts on a job lead to. The caller holds mu.
func (f *FilterSink) handleVerdicts(j *filterJob, verdicts []filter.Verdict) {
	j.meta.Decision = filter.CombineDecisions(verdicts)
	if j.client != nil {
		keep := j.meta.Decision.KeepsEvent()
		if j.client.ApplyDecision(j.meta, j.slot, keep, verdicts) && !keep {
			f.count.update(func(s *FilterStats) { s.RegionRejected += uint64(len(verdicts)) })
			f.reportDecisions(j.meta, verdicts)
		}
		return
	}
	if f.err == nil {
		f.err = f.write(j.ctx, j.meta, j.mep())
	}
	if f.err == nil {
		f.reportDecisions(j.meta, verdicts)
	}
}

// writeJudged gives the output a MEP that was judged by its region. An output that is slow does not hold up those who
// judge.
func (f *FilterSink) writeJudged(ctx context.Context, m Meta, mep []byte) error {
	f.mu.Lock()
	err := f.err
	f.mu.Unlock()
	if err != nil {
		return err
	}
	verdicts := m.Verdicts
	m.Decision, m.Verdicts = filter.CombineDecisions(verdicts), nil
	if err := f.write(ctx, m, mep); err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.err == nil {
			f.err = err
			f.jobDone.Broadcast()
		}
		return err
	}
	f.reportDecisions(m, verdicts)
	return nil
}

func (f *FilterSink) write(ctx context.Context, m Meta, mep []byte) error {
	f.outMu.Lock()
	defer f.outMu.Unlock()
	return f.output.Write(ctx, m, mep)
}

// reportDecisions counts what was decided, and reports it: of events in a row that have one verdict at once.
func (f *FilterSink) reportDecisions(m Meta, verdicts []filter.Verdict) {
	took := time.Since(m.CompletedAt)
	for i := 0; i < len(verdicts); {
		v, n := verdicts[i], 1
		for i+n < len(verdicts) && verdicts[i+n] == v {
			n++
		}
		f.count.update(func(s *FilterStats) {
			if s.addDecided(v.Decision, n); v.Decision == filter.Rejected && m.Decision.KeepsEvent() {
				s.RejectedKept += uint64(n)
			}
		})
		if f.cfg.OnDecision != nil {
			f.cfg.OnDecision(m, i, n, v, took)
		}
		i += n
	}
}

// Flush waits until the MEPs whose Write has returned have their decisions, and flushes the output.
func (f *FilterSink) Flush() error {
	if err := f.waitForDecisions(); err != nil {
		return err
	}
	return f.output.Flush()
}

// Finish waits for the decisions and makes the output whole.
func (f *FilterSink) Finish() (Result, error) {
	if err := f.Flush(); err != nil {
		f.stop()
		r, also := f.output.Finish()
		return r, errors.Join(err, also)
	}
	f.stop()
	return f.output.Finish()
}

// Abort gives up what has no decision yet, and the output.
func (f *FilterSink) Abort() error {
	f.stop()
	return f.output.Abort()
}

// Written passes on how far the output is, so that progress is seen through a filter.
func (f *FilterSink) Written() uint64 {
	counted := f.count.read()
	n := counted.decidedEvents()
	if w, ok := f.output.(interface{ Written() uint64 }); ok {
		n += w.Written()
	}
	return n
}
