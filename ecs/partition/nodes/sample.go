package nodes

import (
	"context"
	"errors"
	"io"

	samplev1 "ringlet/proto/ringlet/sample/v1"
)

// Sample passes on counters of a node until it has sent all that was asked for, ctx ends, send fails or the node cannot
// be heard, and returns why: nil where it has sent all.
func (c *NodeSet) Sample(ctx context.Context, q *samplev1.Question, send func(*samplev1.Samples) error) error {
	n, err := c.findMember(q.GetNode())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, err := n.client.Sample(ctx, q)
	for err == nil {
		var m *samplev1.Samples
		if m, err = in.Recv(); err == nil {
			err = send(m)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
