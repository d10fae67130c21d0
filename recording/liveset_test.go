package recording

import (
	"bytes"
	"iter"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ringlet/testkit/must"
)

// liveEntries cuts a stream of events into MEPs, now and then with numbers left out between two.
func liveEntries(t *rapid.T, packing int) []Entry {
	entries := make([]Entry, rapid.IntRange(0, 200).Draw(t, "MEPs"))
	next := rapid.SampledFrom([]uint64{0, 7, 1 << 40}).Draw(t, "first event")
	base := rapid.SampledFrom([]uint64{0, 0, blockMEPs - 50, stretchMEPs - 50}).Draw(t, "first MEP")
	for i := range entries {
		if rapid.IntRange(0, 20).Draw(t, "leap") == 0 {
			next += rapid.Uint64Range(1, 1000).Draw(t, "left out")
		}
		e := Entry{
			MEP:        base + uint64(i),
			Attempt:    uint32(rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "attempt")),
			FirstEvent: next,
			Events:     uint32(rapid.IntRange(1, packing).Draw(t, "events")),
		}
		next += uint64(e.Events)
		entries[i] = e
	}
	return entries
}

// TestLiveSet holds a set of live data against the list that it is of: it counts, it unites, it travels, and it names
// no more events as missing than were not put in.
func TestLiveSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		packing := rapid.IntRange(1, 70).Draw(t, "packing")
		entries := liveEntries(t, packing)
		both, all := [2]*MEPSet{NewLiveMEPSet(packing), NewLiveMEPSet(packing)}, NewLiveMEPSet(packing)
		events, here := uint64(0), uint64(0)
		for _, e := range entries {
			events += uint64(e.Events)
			if rapid.IntRange(0, 9).Draw(t, "lost") == 0 {
				continue
			}
			here += uint64(e.Events)
			all.Add(e)
			both[rapid.IntRange(0, 1).Draw(t, "half")].Add(e)
		}
		if copies := both[0].Union(both[1]); copies > 0 || both[0].Events() != here || all.Events() != here {
			t.Fatalf("%d copies, %d and %d of %d events", copies, both[0].Events(), all.Events(), here)
		}
		r := NewSetReader(NewLiveMEPSet(packing), stretchMEPs+1000)
		for piece := range both[0].Pieces() {
			must.OK(t, r.Add(piece))
		}
		read, err := r.Set()
		must.OK(t, err)
		if diff := cmp.Diff(slices.Collect(copied(all)), slices.Collect(copied(read))); diff != "" {
			t.Fatal(diff)
		}
		if g := read.Missing(events, 1000); g.EventCount != events-here {
			t.Fatalf("%d events are missing, %d are named", events-here, g.EventCount)
		}
		if read.countBeyond(events) != 0 || read.EndEvent() != here {
			t.Fatalf("%d beyond, %d in all", read.countBeyond(events), read.EndEvent())
		}
	})
}

// copied are the pieces of a set, each its own.
func copied(s *MEPSet) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for p := range s.Pieces() {
			if !yield(bytes.Clone(p)) {
				return
			}
		}
	}
}

func FuzzLiveSetReader(f *testing.F) {
	s := NewLiveMEPSet(10)
	for mep := range uint64(200) {
		s.Add(Entry{
			MEP:        mep * 3,
			FirstEvent: mep * 12,
			Events:     uint32(mep%10) + 1,
			Attempt:    uint32(mep % 3),
		})
	}
	for p := range s.Pieces() {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, piece []byte) {
		r := NewSetReader(NewLiveMEPSet(10), 1<<40)
		if r.Add(piece) != nil {
			return
		}
		var meps, events uint64
		for e := range r.set.entries {
			meps++
			events += uint64(e.Events)
		}
		if meps != r.set.MEPs() || events != r.set.Events() {
			t.Fatalf("it says %d MEPs of %d events, it has %d of %d", r.set.MEPs(), r.set.Events(), meps, events)
		}
	})
}

// TestLiveSetNamesTheEventsBetween: what is missing is between the MEPs that are there, and numbers that front-ends
// left out between neighbours are not.
func TestLiveSetNamesTheEventsBetween(t *testing.T) {
	s := NewLiveMEPSet(10)
	for _, e := range []Entry{
		{MEP: 0, FirstEvent: 5, Events: 3, Attempt: 1},
		{MEP: 2, FirstEvent: 12, Events: 2, Attempt: 1},
		{MEP: 3, FirstEvent: 100, Events: 1, Attempt: 1},
	} {
		s.Add(e)
	}
	want := Gaps{EventCount: 6, Ranges: []Range{{8, 11}, {101, 102}}}
	if diff := cmp.Diff(want, s.Missing(12, 10)); diff != "" {
		t.Fatal(diff)
	}
}
