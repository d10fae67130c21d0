package tagnet

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	hdrhistogram "github.com/HdrHistogram/hdrhistogram-go"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// fill gives every exported number below v a value of its own, so that none that is added there is left out of the
// message.
func fill(v reflect.Value, next *uint64) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), next)
			}
		}
	case reflect.Array, reflect.Slice:
		for i := range v.Len() {
			fill(v.Index(i), next)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			fill(v.Elem(), next)
		}
	case reflect.Uint64:
		*next++
		v.SetUint(*next)
	case reflect.Int:
		*next++
		v.SetInt(int64(*next))
	case reflect.Bool:
		v.SetBool(true)
	}
}

func TestStatsTravelWhole(t *testing.T) {
	for name, ring := range map[string]*RingRegister{"plain": nil, "ring": {}} {
		t.Run(name, func(t *testing.T) {
			var next uint64
			want := Stats{Registers: Registers{
				RUs: []RURegister{{Name: "n0"}, {Name: "n1"}}, BUs: []BURegister{{Name: "n0"}, {Name: "n1"}, {Name: "n2"}},
				Groups: make([]GroupCounters, 2), Ring: ring,
			}}
			r := &want.Registers
			fill(reflect.ValueOf(r), &next)
			r.Counters.Waits[NotWaiting] = 0 // nobody counts that
			r.State, r.Policy, r.Waiting = Draining, Skip, ForGroup
			r.Rules = Rules{Groups: [][]int{{0, 2}, {1}}, BusyGroup: Skip, Next: ByRatio, Ratio: []int{1, 2, 3},
				Partitions: [][]int{{0, 2}, {1}}}
			want.EventsTriggered = r.Counters.EventsIssued
			want.FirstToken, want.LastMEP, want.LatencyClipped = time.Unix(7, 1), time.Unix(8, 2), 9
			want.Resumes = ResumeCounters{Broken: 10, Resumed: 11, Repeated: 12}
			want.Refused = map[Refusal]uint64{RefusedRun: 3}
			want.Latency = hdrhistogram.New(1, maxLatencyUs, 3)
			for _, us := range []int64{1, 100, 100, 5000, maxLatencyUs} {
				_ = want.Latency.RecordValue(us)
			}
			b, err := proto.Marshal(statsMessage(7, 3, &want))
			if err != nil {
				t.Fatal(err)
			}
			var m tagnetv1.RegistersResponse
			if err := proto.Unmarshal(b, &m); err != nil {
				t.Fatal(err)
			}
			got, err := statsOf(&m)
			if err != nil {
				t.Fatal(err)
			}
			if !got.Latency.Equals(want.Latency) {
				t.Error("the histogram is another one")
			}
			got.Latency, want.Latency = nil, nil
			if !reflect.DeepEqual(got, want) {
				t.Errorf("sent\n%+v\ngot\n%+v", want, got)
			}
		})
	}
}

func TestBeginTravelsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bus := rapid.IntRange(1, 6).Draw(t, "builder units")
		want := Config{
			RUs: names("ru", rapid.IntRange(1, 5).Draw(t, "readout units")), BUs: names("bu", bus),
			Slots: rapid.IntRange(1, 100).Draw(t, "slots"), Packing: rapid.IntRange(1, 65535).Draw(t, "packing"),
			LookAhead: rapid.IntRange(0, 100).Draw(t, "look-ahead"), Window: rapid.IntRange(0, 1000).Draw(t, "window"),
			Policy: rapid.SampledFrom([]Policy{Wait, Skip}).Draw(t, "policy"), Rules: drawRules(t, bus),
			Loose:       rapid.Bool().Draw(t, "loose"),
			MaxAttempts: rapid.IntRange(0, MaxAttempt).Draw(t, "attempts"), Ring: rapid.Bool().Draw(t, "ring"),
			Bypass: rapid.Bool().Draw(t, "bypass"),
			First:  rapid.Uint64Range(0, 1<<63).Draw(t, "first"),
		}
		if rapid.Bool().Draw(t, "end") {
			want.End = want.First + 5
		}
		b, err := proto.Marshal(beginMessage(seventh, &want, 90*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		var m tagnetv1.BeginRequest
		if err := proto.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		got, err := serverConfigOf(&m)
		if checked := want.check(); checked != nil {
			var begin *beginError
			if !errors.As(err, &begin) {
				t.Fatalf("%v is found wrong as %v", checked, err)
			}
			return
		}
		if err != nil || got.Run != 7 || got.View != 3 || got.AttachTimeout != 90*time.Second ||
			!reflect.DeepEqual(got.Core, want) {
			t.Fatalf("sent\n%+v\ngot (%v)\n%+v", want, err, got)
		}
	})
}

func TestNoticesForget(t *testing.T) {
	n := newNotices()
	for range maxNotices + 1 {
		n.state(Running)
	}
	some, _, over := n.after(0)
	if over || len(some) > maxNotices || some[0].GetNumber() == 1 || some[len(some)-1].GetNumber() != maxNotices+1 {
		t.Errorf("%d notices from %d to %d", len(some), some[0].GetNumber(), some[len(some)-1].GetNumber())
	}
	n.close()
	if _, moved, over := n.after(maxNotices + 1); !over || !isClosed(n.moved) || moved == nil {
		t.Error("closed notices do not say that they are over")
	}
}

// FuzzBegin holds that no request makes a host panic or take more memory than it may.
func FuzzBegin(f *testing.F) {
	c := twoByTwo()
	c.Rules = Rules{Groups: [][]int{{0}, {1}}, Next: ByRatio, Ratio: []int{1, 2}}
	good, err := proto.Marshal(beginMessage(seventh, &c, time.Minute))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		var m tagnetv1.BeginRequest
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		cfg, err := serverConfigOf(&m)
		if err != nil || cfg.Core.Window > 1<<16 || len(cfg.Core.BUs)*max(cfg.Core.Slots, cfg.Core.LookAhead) > 1<<16 {
			return // memory for a fuzzer's sake is not wanted
		}
		if _, err := NewCore(cfg.Core); err != nil {
			t.Errorf("the core refuses what was checked: %v", err)
		}
	})
}

// FuzzRegisters holds that no answer makes a control panic.
func FuzzRegisters(f *testing.F) {
	core, err := NewCore(twoByTwo())
	if err != nil {
		f.Fatal(err)
	}
	good, err := proto.Marshal(statsMessage(7, 3, &Stats{Registers: core.Registers(),
		Latency: hdrhistogram.New(1, maxLatencyUs, 3)}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte{})
	f.Fuzz(func(_ *testing.T, data []byte) {
		var m tagnetv1.RegistersResponse
		if proto.Unmarshal(data, &m) == nil {
			_, _ = statsOf(&m)
		}
	})
}
