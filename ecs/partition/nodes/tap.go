package nodes

import (
	"context"

	"google.golang.org/grpc"

	nodev1 "ringlet/proto/ringlet/node/v1"
	tapv1 "ringlet/proto/ringlet/tap/v1"
)

// maxSamplesBytes bounds a message of samples: one event may be that large.
const maxSamplesBytes = 64 << 20

// Builders are the names of the nodes with a builder unit that are there, in the order of ranks.
func (c *NodeSet) Builders() (names []string) {
	for _, n := range c.nodes {
		if n.firstEntry.GetBuilder() && !c.isUnavailable(n) {
			names = append(names, n.name)
		}
	}
	return names
}

// Tap passes on a sample of what a node builds until ctx ends or the node cannot be heard, and returns why: never nil.
func (c *NodeSet) Tap(ctx context.Context, name string, sel *tapv1.Selection, each func(*tapv1.Samples)) error {
	n, err := c.findMember(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, err := n.client.Tap(ctx, &nodev1.TapRequest{Selection: sel}, grpc.MaxCallRecvMsgSize(maxSamplesBytes))
	for err == nil {
		var m *tapv1.Samples
		if m, err = in.Recv(); err == nil {
			each(m)
		}
	}
	return err
}
