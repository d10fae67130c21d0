package partition

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"ringlet/ecs/api"
	samplev1 "ringlet/proto/ringlet/sample/v1"
)

// Sample sends counters of a node, until there are enough or the run is over.
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
