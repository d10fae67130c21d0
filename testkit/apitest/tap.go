package apitest

import (
	"context"
	"time"

	"ringlet/ecs/api"
	tapv1 "ringlet/proto/ringlet/tap/v1"
	"ringlet/velo"
)

// tapEvery is the time between two messages of made-up samples.
const tapEvery = 10 * time.Millisecond

// sampleBoard is a fragment of R sensor 0 of a vertex detector, with three clusters.
func sampleBoard(n uint64) *tapv1.Fragment {
	data := make([]byte, velo.MaxBoardSize)
	clusters := []velo.Cluster{velo.NewCluster(3, false), velo.NewCluster(40, true), velo.NewCluster(600, false)}
	data = data[:velo.PutBoard(data, uint16(n), 0, clusters, 0)]
	return &tapv1.Fragment{Source: 2, Type: uint32(velo.BankType), Size: uint32(len(data)), Data: data}
}

// Tap sends made-up events, one in each message, of two sources: the second one's fragment is missing. With data there
// is a third, a board of a vertex detector. It refuses a share of 13.
func (f *Fake) Tap(ctx context.Context, sel *tapv1.Selection, send func(*tapv1.Samples) error) error {
	if sel.GetShare() == 13 {
		return &api.ArgumentError{Name: "share", Why: "13 is not liked here"}
	}
	for n := uint64(1); ; n++ {
		fragments := []*tapv1.Fragment{{Source: 0, Type: 63, Size: 3}, {Source: 1, Type: 92}}
		if sel.GetData() {
			fragments[0].Data, fragments[1].Data = []byte{1, 2, 3}, []byte{}
		}
		if sel.GetData() {
			fragments = append(fragments, sampleBoard(n))
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
