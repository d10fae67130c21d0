package event_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ringlet/event"
	"ringlet/testkit/mfp"
	"ringlet/testkit/must"
)

func TestGoldenWordedMFP(t *testing.T) {
	golden := hexFile(t, "mfp-worded.hex")
	p, err := event.ParseMFP(append(golden, 0xFF))
	must.OK(t, err)
	want := []mfp.Fragment{
		{Type: 16, Data: []byte("abc"), Words: event.Words{HasTrigger: true, Trigger: 17}},
		{Type: event.TestDet, Data: []byte("x"), Words: event.Words{HasStamp: true, Stamp: 1 << 60}},
	}
	if p.NumFragments() != 2 || !p.IsWide() || !p.IsWorded() || p.FirstEvent() != 9 || p.Source() != 7 ||
		p.Version() != 1 {
		t.Errorf("%d fragments, wide %v, worded %v", p.NumFragments(), p.IsWide(), p.IsWorded())
	}
	for i, data := range p.Fragments() {
		got := mfp.Fragment{Type: p.FragmentType(i), Data: data, Words: p.Words(i)}
		if d := cmp.Diff(want[i], got); d != "" {
			t.Errorf("fragment %d: %s", i, d)
		}
		sameBytes(t, "Fragment", p.Fragment(i), want[i].Data)
	}
	sameBytes(t, "built", mfp.Build(event.MFPHeader{FirstEvent: 9, Source: 7, Align: 2, Version: 1}, want...), golden)
}

// TestWordsRoundTrip: the words of each fragment come back, and those of a packet without a table are none.
func TestWordsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) mfp.Fragment {
			f := mfp.Fragment{Data: rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "data")}
			if f.Words.HasTrigger = rapid.Bool().Draw(t, "has trigger"); f.Words.HasTrigger {
				f.Words.Trigger = rapid.Uint64Range(0, 1<<64-2).Draw(t, "trigger")
			}
			if f.Words.HasStamp = rapid.Bool().Draw(t, "has stamp"); f.Words.HasStamp {
				f.Words.Stamp = rapid.Uint64Range(0, 1<<64-2).Draw(t, "stamp")
			}
			return f
		}), 0, 20).Draw(t, "fragments")
		p, err := event.ParseMFP(mfp.Build(event.MFPHeader{Align: 3}, list...))
		must.OK(t, err)
		table := make([]byte, event.WordedMFPHeaderSize(len(list)))
		for i, f := range list {
			event.PutWords(event.WordsTable(table, len(list)), i, f.Words)
			if p.Words(i) != f.Words {
				t.Fatalf("fragment %d has %+v, want %+v", i, p.Words(i), f.Words)
			}
		}
		at := len(table) - 16*len(list)
		if p.IsWorded() && string(table[at:]) != string(p.Bytes()[at:len(table)]) {
			t.Fatal("the tables differ")
		}
	})
}
