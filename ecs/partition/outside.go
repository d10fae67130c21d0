package partition

import (
	"context"
	"fmt"
	"io"
	"time"

	"ringlet/internal/metrics"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// Live says why this process should be started anew; nil if it is well. A state machine that does not answer hangs for good.
func (p *Partition) Live(ctx context.Context) error {
	answered := make(chan struct{})
	go func() {
		p.runner.Status()
		p.mu.Lock()
		defer p.mu.Unlock()
		close(answered)
	}()
	select {
	case <-answered:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the partition does not answer: %w", context.Cause(ctx))
	}
}

// Ready is the state; the run control can be asked in every one, Error too.
func (p *Partition) Ready() (string, error) { return p.runner.Status().State.String(), nil }

// Metrics is what Prometheus reads.
func (p *Partition) Metrics() metrics.Partition {
	runs := map[ecsv1.Verdict]uint64{}
	p.mu.Lock()
	for v, n := range p.verdicts {
		runs[v] = n
	}
	p.mu.Unlock()
	return metrics.Partition{Status: p.Status(), Snapshot: p.Snapshot(), Runs: runs}
}

// count reads once how the runs on record came out; from then on each that ends is added.
func (p *Partition) count() error {
	runs := map[ecsv1.Verdict]uint64{}
	for before := uint32(0); ; {
		list, err := p.cfg.Store.List(before, 1000)
		if err != nil {
			return err
		}
		for _, r := range list.Runs {
			runs[r.GetVerdict()]++
			before = r.GetNumber()
		}
		if !list.More || len(list.Runs) == 0 {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.verdicts = runs
	return nil
}

// Names are those of the nodes, whose profiles can be taken.
func (p *Partition) Names() []string {
	p.mu.Lock()
	crew := p.crew
	p.mu.Unlock()
	if crew == nil {
		return nil
	}
	return crew.Names()
}

// Profile writes a profile of a node.
func (p *Partition) Profile(ctx context.Context, w io.Writer, name, kind string, length time.Duration) error {
	p.mu.Lock()
	crew := p.crew
	p.mu.Unlock()
	if crew == nil {
		return fmt.Errorf("no node is known before load")
	}
	return crew.Profile(ctx, w, name, kind, length)
}
