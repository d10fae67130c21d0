package figures

import (
	"fmt"
	"math"
	"testing"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"ringlet/node"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet/core"
	"ringlet/testkit/must"
)

func TestHistoryKeepsTheLast(t *testing.T) {
	b := New()
	const added = HistoryDepth + 500
	for i := range added {
		s := &ecsv1.Snapshot{At: timestamppb.New(epoch.Add(time.Duration(i) * sampleInterval)),
			Total: &ecsv1.Figures{EventRateHz: float64(i)}}
		b.history.add(s, 0)
		// too early to be one of its own
		s.At = timestamppb.New(epoch.Add(time.Duration(i)*sampleInterval + sampleInterval/2))
		b.history.add(s, 0)
	}
	all := b.Samples(math.MaxInt)
	if len(all) != HistoryDepth || len(b.Samples(3)) != 3 || b.Samples(0) != nil {
		t.Fatalf("%d samples are kept, of the last three %d, of none %d", len(all), len(b.Samples(3)), len(b.Samples(0)))
	}
	for i, s := range all {
		if want := float64(added - HistoryDepth + i); s.GetEventRateHz() != want {
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
				Run:  1,
				AtUs: rapid.Int64().Draw(t, "clock"),
				Counters: map[string]uint64{"bu.bytes_built": n,
					"ru.bytes_written": n},
				CpuSeconds: rapid.Float64Range(0, 1e9).Draw(t, "cpu"),
				Links: []*nodev1.Link{{Peer: "n0", BytesWritten: n},
					{Peer: "nobody"}},
			}
			m := &nodev1.Member{Name: "n0", Readout: true, Builder: true}
			s := b.Add(&Reading{
				At: at, Run: rapid.Uint32Range(1, 2).Draw(t, "run"), Nodes: []Node{{Member: m, Report: rep, Received: at}},
			})
			f := s.GetNodes()[0]
			for _, rate := range []float64{
				f.GetSentBytesPerS(), f.GetBuiltBytesPerS(), f.GetCpus(), s.GetTotal().GetThroughputBytesPerS(),
			} {
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

// What a node of another release tells and cannot be read counts as not told.
func TestHistogramsThatCannotBeRead(t *testing.T) {
	h := hdr.New(1, 1000, 3)
	empty, err := h.Encode(hdr.V2CompressedEncodingCookieBase)
	must.OK(t, err)
	must.OK(t, h.RecordValue(7))
	one, err := h.Encode(hdr.V2CompressedEncodingCookieBase)
	must.OK(t, err)
	rep := &nodev1.Report{Histograms: map[string][]byte{
		"good":                   one,
		"nothing":                empty,
		"broken":                 []byte("no histogram"),
		node.HistogramHeld + "x": one,
		node.HistogramHeld + "1": one[:len(one)-1],
		node.HistogramHeld + "2": one,
	}}
	for name, readable := range map[string]bool{"good": true, "nothing": true, "broken": false, "absent": false} {
		h := Histogram(rep, name)
		if (h != nil) != readable {
			t.Errorf("%s is read as %v", name, h)
		}
		if shown := summarizeLatency(h) != nil; shown != (name == "good") {
			t.Errorf("%s is shown: %v", name, shown)
		}
	}
	if held := BarrierHolders([]*nodev1.Report{rep}); len(held) != 1 || held[0].RU != 2 {
		t.Errorf("the holders are %+v", held)
	}
}

// BenchmarkAdd is what a snapshot of folded nodes costs, each with the counters and links that it has.
func BenchmarkAdd(b *testing.B) {
	for _, nodes := range []int{4, 32} {
		b.Run(fmt.Sprintf("%d nodes", nodes), func(b *testing.B) {
			r := &Reading{Run: 1, Scheduler: &core.Stats{Latency: hdr.New(1, int64(time.Hour/time.Microsecond), 3)}}
			for us := range int64(100_000) {
				if err := r.Scheduler.Latency.RecordValue(us); err != nil {
					b.Fatal(err)
				}
			}
			for i := range nodes {
				rep := &nodev1.Report{Run: 1, Counters: map[string]uint64{}, Timeline: make([]*nodev1.Step, 64)}
				for c := range 120 {
					rep.Counters[fmt.Sprint("counter.", c)] = uint64(c)
				}
				for j := range nodes {
					rep.Links = append(rep.Links, &nodev1.Link{Peer: fmt.Sprint("n", j)})
				}
				m := &nodev1.Member{
					Name:    fmt.Sprint("n", i),
					Readout: true,
					RuIndex: uint32(i),
					Builder: true,
					BuIndex: uint32(i),
				}
				r.Nodes = append(r.Nodes, Node{Member: m, Report: rep})
			}
			builder := New()
			b.ReportAllocs()
			for n := range b.N {
				r.At = epoch.Add(time.Duration(n) * sampleInterval)
				for i := range r.Nodes {
					r.Nodes[i].Report.AtUs, r.Nodes[i].Received = r.At.UnixMicro(), r.At
				}
				builder.Add(r)
			}
		})
	}
}
