package apitest

import (
	"context"

	"ringlet/ecs/api"
	samplev1 "ringlet/proto/ringlet/sample/v1"
)

// Sample sends as many made-up samples of two counters as the question asks for, two in a message. It refuses a node
// called nowhere.
func (f *Fake) Sample(ctx context.Context, q *samplev1.Question, send func(*samplev1.Samples) error) error {
	if q.GetNode() == "nowhere" {
		return &api.ArgumentError{Name: "node", Why: "nowhere is no node"}
	}
	columns := []*samplev1.Column{{Name: "link.bytes_sent", Of: "n1", Unit: "bytes", Kind: "counter"},
		{Name: "bu.meps_built", Kind: "counter", Slow: true}}
	for n := uint64(0); n < uint64(q.GetSamples()) && ctx.Err() == nil; n += 2 {
		const begin = 1_700_000_000_000_000
		at := begin + int64(n)*int64(q.GetIntervalUs())
		m := &samplev1.Samples{
			Columns: columns,
			AtUs:    []int64{at, at + int64(q.GetIntervalUs())},
			Values:  []uint64{n * 1000, n / 2, (n + 1) * 1000, n / 2},
			Run:     7,
			Late:    1,
		}
		columns = nil
		if err := send(m); err != nil {
			return err
		}
	}
	return ctx.Err()
}
