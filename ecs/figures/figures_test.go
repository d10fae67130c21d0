package figures

import (
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	nodev1 "ringlet/proto/ringlet/node/v1"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

func TestHistoryKeepsTheLast(t *testing.T) {
	b := New()
	const added = Depth + 500
	for i := range added {
		s := &ecsv1.Snapshot{At: timestamppb.New(epoch.Add(time.Duration(i) * Every)), Total: &ecsv1.Figures{EventRateHz: float64(i)}}
		b.history.add(s, 0)
		s.At = timestamppb.New(epoch.Add(time.Duration(i)*Every + Every/2)) // too early to be one of its own
		b.history.add(s, 0)
	}
	all := b.Samples(math.MaxInt)
	if len(all) != Depth || len(b.Samples(3)) != 3 || b.Samples(0) != nil {
		t.Fatalf("%d samples are kept, of the last three %d, of none %d", len(all), len(b.Samples(3)), len(b.Samples(0)))
	}
	for i, s := range all {
		if want := float64(added - Depth + i); s.GetEventRateHz() != want {
			t.Fatalf("sample %d is number %v, not %v", i, s.GetEventRateHz(), want)
		}
	}
}

// Whatever counters do, and however the clocks of nodes jump, a rate is a number that is not negative.
func TestRatesAreNeverNegative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, at := New(), epoch
		for range rapid.IntRange(1, 20).Draw(t, "readings") {
			at = at.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms")) * time.Millisecond)
			n := rapid.Uint64().Draw(t, "count")
			rep := &nodev1.Report{
				Run: 1, AtUs: rapid.Int64().Draw(t, "clock"), Counters: map[string]uint64{"bu.bytes_built": n, "ru.bytes_written": n},
				CpuSeconds: rapid.Float64Range(0, 1e9).Draw(t, "cpu"), Links: []*nodev1.Link{{Peer: "n0", BytesWritten: n}, {Peer: "nobody"}},
			}
			m := &nodev1.Member{Name: "n0", Readout: true, Builder: true}
			s := b.Add(&Reading{
				At: at, Run: rapid.Uint32Range(1, 2).Draw(t, "run"), Nodes: []Node{{Member: m, Report: rep, Received: at}},
			})
			f := s.GetNodes()[0]
			for _, rate := range []float64{f.GetSentBytesPerS(), f.GetBuiltBytesPerS(), f.GetCpus(), s.GetTotal().GetThroughputBytesPerS()} {
				if rate < 0 || math.IsNaN(rate) || math.IsInf(rate, 0) {
					t.Fatalf("a rate of %v", rate)
				}
			}
			for _, x := range s.GetTraffic() {
				if x.GetBytesPerS() < 0 {
					t.Fatalf("a rate of %v", x.GetBytesPerS())
				}
			}
		}
	})
}
