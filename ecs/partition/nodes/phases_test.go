package nodes

import (
	"testing"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/go-cmp/cmp"

	ecsrun "ringlet/ecs/run"
	"ringlet/node"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

func TestPhases(t *testing.T) {
	encoded := func(values ...int64) []byte {
		h := hdr.New(1, 1000, 2)
		for _, v := range values {
			if err := h.RecordValue(v); err != nil {
				t.Fatal(err)
			}
		}
		b, err := h.Encode(hdr.V2CompressedEncodingCookieBase)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	of := func(name string, ru uint32, rep *nodev1.Report) *member {
		return &member{name: name, firstEntry: &nodev1.Member{Readout: true, RuIndex: ru}, report: rep}
	}
	r := &Run{NodeSet: &NodeSet{roster: roster{nodes: []*member{
		of("n1", 1, &nodev1.Report{Timeline: []*nodev1.Step{
			{Phase: 7, Builder: 2, Mep: 20, Meps: 3, BeginUs: 5_000_010, SentUs: 5_000_030, ReleasedUs: 5_000_031},
			{Phase: 8, Builder: -1, BeginUs: 4_999_990, SentUs: 4_999_990},
		}}),
		of("n0", 0, &nodev1.Report{Histograms: map[string][]byte{
			node.HistogramSkew: encoded(10, 20, 100), node.HistogramHeld + "0": encoded(5),
			node.HistogramHeld + "1": encoded(7, 90),
			node.HistogramHeld + "x": encoded(1), node.HistogramBarrier: encoded(1),
		}}),
	}}}}
	var got Report
	(&reporter{r, ecsrun.State{Begun: time.UnixMicro(5_000_000)}}).fillPhases(&got)
	want := Report{
		PhaseSkewUs:    Quantiles3{20, 100, 100},
		BarrierHolders: []BarrierHolder{{1, "n1", 2, Quantiles3{7, 90, 90}}, {0, "n0", 1, Quantiles3{5, 5, 5}}},
		Timeline:       []TimelineStep{{1, 7, 2, 20, 3, 10, 30, 31}, {1, 8, -1, 0, 0, -10, -10, stepNotSeen}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}

	// Where no barrier holds anything there is nobody to be named, and that is a list, too.
	got = Report{}
	(&reporter{Run: &Run{NodeSet: &NodeSet{}}}).fillPhases(&got)
	if d := cmp.Diff(Report{BarrierHolders: []BarrierHolder{}}, got); d != "" {
		t.Errorf("without a barrier, -want +got:\n%s", d)
	}
}
