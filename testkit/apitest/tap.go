package apitest

import (
	"context"
	"time"

	"ringlet/ecs/api"
	tapv1 "ringlet/proto/ringlet/tap/v1"
)

// tapEvery is between two messages of the made-up samples.
const tapEvery = 10 * time.Millisecond

// Tap shows made-up events, one in each message, of two sources: the second one's fragment is missing. A share of 13 is
// refused.
func (f *Fake) Tap(ctx context.Context, sel *tapv1.Selection, send func(*tapv1.Samples) error) error {
	if sel.GetShare() == 13 {
		return &api.ArgumentError{Name: "share", Why: "13 is not liked here"}
	}
	for n := uint64(1); ; n++ {
		fragments := []*tapv1.Fragment{{Source: 0, Type: 63, Size: 3}, {Source: 1, Type: 92}}
		if sel.GetData() {
			fragments[0].Data, fragments[1].Data = []byte{1, 2, 3}, []byte{}
		}
		err := send(&tapv1.Samples{
			Events:   []*tapv1.Sample{{Event: n, Run: 7, Mep: n / 10, Attempt: 1, Builder: "n1", Fragments: fragments}},
			Built:    10 * n,
			Builders: 4,
		})
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(tapEvery):
		}
	}
}
