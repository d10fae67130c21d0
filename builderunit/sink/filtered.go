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
//	1 Write   (sequential: the builder unit)  copies the MEP into a job of the judges (judges.go)
//	2 finish  (under mu)                      writes the MEP, with its decision, to the output
//	3 Flush   (parallel: another goroutine)   waits for the jobs whose Write has returned, then flushes the output
//
// A filter that cannot keep up keeps all jobs busy, so Write waits, and the builder unit holds or discards the MEPs
// that wait for a sink.
//
// A MEP whose region of interest is judged first (docs/design/053-filters.md):
//
//	1 Judge   (sequential: the builder unit)  copies the region into a job
//	2 finish  (under mu)                      passes the verdicts to the client; a rejected MEP ends here
//	3 Write   (sequential: the builder unit)  writes the whole MEP, with its verdicts, to the output at once

// FilterSink is the sink that has a filter judge the events of each MEP, and writes the MEP with the decision to
// another sink. A MEP is rejected if all its events are. A MEP that comes with verdicts is not judged again.
type FilterSink struct {
	outMu  sync.Mutex // held while the output is written to; it may be locked under mu, but not mu under it
	output Sink
	judges
}

// RegionClient is the builder unit that has regions of interest judged.
type RegionClient interface {
	// ApplyDecision gets the filter's decision on the MEP whose region of interest is in a slot: keep, and the verdicts on
	// its events. It is called once for each region. The verdicts are valid until it returns. It must not wait for the
	// judges. It returns false if the builder unit has given the MEP up meanwhile.
	ApplyDecision(m Meta, slot int, keep bool, verdicts []filter.Verdict) bool
}

// NewFilterSink puts filters before the sink to, which the FilterSink owns from now on.
func NewFilterSink(to Sink, cfg FilterConfig) *FilterSink {
	f := &FilterSink{output: to}
	f.start(cfg, f.handleVerdicts)
	return f
}

// External returns the filters outside of this process; nil: there are none.
func (f *FilterSink) External() ExternalFilter { return f.cfg.External }

// OutputSink returns the sink after the filters.
func (f *FilterSink) OutputSink() Sink { return f.output }

// Write copies a MEP for the filters, and waits while no job is free. A MEP that has verdicts goes straight to the
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

// Judge copies the region of interest of a MEP for the filters, and later passes their verdicts to the client. The
// region must have the form of a MEP. Judge waits while all jobs for regions are in use; FilterConfig.MaxRegions says
// how many there are.
func (f *FilterSink) Judge(ctx context.Context, m Meta, region []byte, slot int, client RegionClient) error {
	j, err := f.claimJob(ctx)
	if err != nil {
		return err
	}
	j.fill(ctx, m, region)
	j.client, j.slot = client, slot
	return f.submit(j)
}

// handleVerdicts acts on the verdicts of a job. The caller holds mu.
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

// writeJudged writes a MEP that was judged by its region to the output. It does not hold mu meanwhile, so that a slow
// output does not stop the judges.
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

// reportDecisions counts the decisions, and reports them: consecutive events with one verdict in one call.
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

// Finish waits for the decisions and completes the output.
func (f *FilterSink) Finish() (Result, error) {
	if err := f.Flush(); err != nil {
		f.stop()
		r, also := f.output.Finish()
		return r, errors.Join(err, also)
	}
	f.stop()
	return f.output.Finish()
}

// Abort gives up the MEPs that have no decision yet, and the output.
func (f *FilterSink) Abort() error {
	f.stop()
	return f.output.Abort()
}

// Written adds the decided events to the output's progress, so that both count as progress.
func (f *FilterSink) Written() uint64 {
	counted := f.count.read()
	n := counted.decidedEvents()
	if w, ok := f.output.(interface{ Written() uint64 }); ok {
		n += w.Written()
	}
	return n
}
