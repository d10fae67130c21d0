package core

import (
	"errors"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	hdrhistogram "github.com/HdrHistogram/hdrhistogram-go"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// The latencies and the counters of a scheduler arrive as they were; registers with others are refused.
func TestStats(t *testing.T) {
	core := newAllocator(t, view(2, 2))
	r := core.Registers()
	r.Counters.Issued, r.Counters.Refused[NotNow], r.Counters.Tags = 5, 6, &tagnetv1.TagCounters{Loops: []uint64{0, 7}}
	latency := hdrhistogram.New(1, maxLatencyUs, 3)
	for _, us := range []int64{1, 100, 100, 5000, maxLatencyUs} {
		_ = latency.RecordValue(us)
	}
	r.Latency, _ = latency.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	got, err := StatsOf(r)
	if err != nil || !got.Latency.Equals(latency) {
		t.Errorf("%v, and the histogram is another one", err)
	}
	named := got.CountersByName()
	for name, want := range map[string]uint64{"issued": 5, "refused_not_now": 6, "tags_loops_1": 7, "tags_loops_0": 0} {
		if n, reported := named[name]; n != want || !reported {
			t.Errorf("%s is %d, not %d", name, n, want)
		}
	}
	var none Stats
	if described := CounterList(); len(described) != len(named) || len(none.CountersByName()) >= len(named) {
		t.Errorf("%d counters are described and %d told; %d without tags", len(described), len(named),
			len(none.CountersByName()))
	} else if c, _ := described.Find("tags_loops_1"); c.Help != "returned tags that had come round so often before" {
		t.Errorf("%+v", c)
	}
	r.Latency = []byte("no histogram")
	if _, err := StatsOf(r); !errors.Is(err, errNoLatency) {
		t.Errorf("what cannot be read is read: %v", err)
	}
}

func TestBeginTravelsUnchanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bus := rapid.IntRange(1, 6).Draw(t, "builder units")
		want := Config{
			RUs:           names("ru", rapid.IntRange(1, 5).Draw(t, "readout units")),
			BUs:           names("bu", bus),
			Slots:         rapid.IntRange(1, 100).Draw(t, "slots"),
			Packing:       rapid.IntRange(1, 65535).Draw(t, "packing"),
			LookAhead:     rapid.IntRange(0, 100).Draw(t, "look-ahead"),
			Window:        rapid.IntRange(0, 1000).Draw(t, "window"),
			NoSlotPolicy:  rapid.SampledFrom([]Policy{Wait, Skip}).Draw(t, "policy"),
			Rules:         drawRules(t, bus),
			Loose:         rapid.Bool().Draw(t, "loose"),
			MaxAttempts:   rapid.IntRange(0, MaxAttempt).Draw(t, "attempts"),
			TagRing:       rapid.Bool().Draw(t, "ring"),
			BypassBusyRUs: rapid.Bool().Draw(t, "bypass"),
			FirstMEP:      rapid.Uint64Range(0, 1<<63).Draw(t, "first"),
		}
		if rapid.Bool().Draw(t, "end") {
			want.EndMEP = want.FirstMEP + 5
		}
		b, err := proto.Marshal(want.Request())
		must(t, err)
		var m tagnetv1.BeginRequest
		must(t, proto.Unmarshal(b, &m))
		got, err := ConfigOf(&m)
		if checked := want.check(); checked != nil {
			if err == nil {
				t.Fatalf("%v is not found wrong", checked)
			}
			return
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("sent\n%+v\ngot (%v)\n%+v", want, err, got)
		}
	})
}

// FuzzBegin holds that no request makes a host panic or take more memory than it may.
func FuzzBegin(f *testing.F) {
	c := view(2, 2)
	c.Rules = Rules{Groups: [][]int{{0}, {1}}, TurnOrder: ByRatio, Ratio: []int{1, 2}}
	good, err := proto.Marshal(c.Request())
	must(f, err)
	f.Add(good)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		var m tagnetv1.BeginRequest
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		cfg, err := ConfigOf(&m)
		if err != nil || cfg.Window > 1<<16 || len(cfg.BUs)*max(cfg.Slots, cfg.LookAhead) > 1<<16 {
			return // memory for a fuzzer's sake is not wanted
		}
		if _, err := NewAllocator(cfg); err != nil {
			t.Errorf("the core refuses what was checked: %v", err)
		}
	})
}

// FuzzRegisters holds that no answer makes a control panic.
func FuzzRegisters(f *testing.F) {
	core := newAllocator(f, view(2, 2))
	good, err := proto.Marshal(core.Registers())
	must(f, err)
	f.Add(good)
	f.Add([]byte{})
	f.Fuzz(func(_ *testing.T, data []byte) {
		var m tagnetv1.RegistersResponse
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		if st, err := StatsOf(&m); err == nil {
			st.CountersByName()
		}
	})
}
