package partition

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"ringlet/ecs/api"
	"ringlet/ecs/partition/nodes"
	"ringlet/ecs/record"
	"ringlet/node/metrics"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	samplev1 "ringlet/proto/ringlet/sample/v1"
)

// CheckLiveness says why this process should be restarted; nil if it is well. A state machine that does not answer
// before ctx ends is deadlocked.
func (p *Partition) CheckLiveness(ctx context.Context) error {
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

// Ready returns the state for the readiness probe. The run control answers in every state, Error included.
func (p *Partition) Ready() (string, error) { return p.runner.Status().State.String(), nil }

// Metrics is the input of package metrics, which Prometheus reads.
func (p *Partition) Metrics() metrics.Partition {
	return metrics.Partition{Status: p.Status(), Snapshot: p.Snapshot(0), Runs: p.records.verdicts()}
}

// Names are the names of the nodes that Profile takes; nil before load.
func (p *Partition) Names() []string {
	nodeSet := p.currentState().nodeSet
	if nodeSet == nil {
		return nil
	}
	return nodeSet.Names()
}

// Profile writes a profile of a node; see NodeSet.Profile.
func (p *Partition) Profile(ctx context.Context, w io.Writer, name, kind string, length time.Duration) error {
	nodeSet := p.currentState().nodeSet
	if nodeSet == nil {
		return fmt.Errorf("no node is known before load")
	}
	return nodeSet.Profile(ctx, w, name, kind, length)
}

// RunCommands gives commands without arguments, one after the other.
func (p *Partition) RunCommands(ctx context.Context, user string, commands ...string) error {
	for _, c := range commands {
		if _, err := p.Command(ctx, user, &ecsv1.CommandRequest{Command: c}); err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
	}
	return nil
}

// StopAndReport stops the present run, for a run control that ends together with its nodes, and returns the report of
// the last run; nil if there was none.
func (p *Partition) StopAndReport() (*nodes.Report, error) {
	if p.currentState().run != nil {
		if err := p.RunCommands(context.Background(), "the end of the run control", "stop"); err != nil {
			p.log.Warn("the last run was not stopped in good order", "err", err)
		}
	}
	last, err := p.pendingWrites.latestRecord()
	var none *record.NoRunError
	switch {
	case errors.As(err, &none):
		return nil, nil
	case err != nil:
		return nil, err
	}
	report := &nodes.Report{}
	if err := json.Unmarshal([]byte(last.GetReportJson()), report); err != nil {
		return nil, fmt.Errorf("run %d has no report: %w", last.GetNumber(), err)
	}
	return report, nil
}

// Sample sends samples of a node's counters until the node has sent all that q asks for, ctx ends, or send fails.
func (p *Partition) Sample(ctx context.Context, q *samplev1.Question, send func(*samplev1.Samples) error) error {
	nodeSet := p.currentState().nodeSet
	switch {
	case q.GetNode() == "":
		return &api.ArgumentError{Name: "node", Why: "name the node whose counters are to be sampled"}
	case nodeSet == nil:
		return &api.ArgumentError{Name: "node", Why: "there are no nodes before a configuration is loaded"}
	case !slices.Contains(nodeSet.Names(), q.GetNode()):
		return &api.ArgumentError{Name: "node", Why: fmt.Sprintf("there is no node called %q in the configuration: it has %s",
			q.GetNode(), strings.Join(nodeSet.Names(), ", "))}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	return nodeSet.Sample(ctx, q, send)
}
