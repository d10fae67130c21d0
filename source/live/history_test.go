package live

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestHistory holds that a History counts everything once, in the bin of its time, for a run of any length.
func TestHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h History
		began := time.Duration(rapid.Int64Range(0, 1<<40).Draw(t, "began"))
		h.add(began, 0, 0)
		type count struct {
			at  time.Duration
			bin HistoryBin
		}
		var all []count
		now := began
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			wait := rapid.Int64Range(0, int64(90*24*time.Hour)).Draw(t, "wait")
			now += time.Duration(wait >> rapid.IntRange(0, 40).Draw(t, "shift"))
			c := count{now - began, HistoryBin{Events: uint64(rapid.IntRange(0, 500).Draw(t, "events"))}}
			c.bin.Missing = uint64(rapid.IntRange(0, int(c.bin.Events)).Draw(t, "missing"))
			h.add(now, c.bin.Events, c.bin.Missing)
			all = append(all, c)
		}
		if last := now - began; h.Width*HistoryBins <= last || h.Width > historyWidth && h.Width*HistoryBins/2 > last {
			t.Fatalf("bins of %v after %v", h.Width, last)
		}
		var want [HistoryBins]HistoryBin
		for _, c := range all {
			b := &want[c.at/h.Width]
			b.Events, b.Missing = b.Events+c.bin.Events, b.Missing+c.bin.Missing
		}
		if h.Bins != want {
			t.Fatalf("%v, want %v", h.Bins, want)
		}
	})
}

// TestHistoryOfSources holds that what a Matcher counts as missing is in the histories.
func TestHistoryOfSources(t *testing.T) {
	rules := Rules{Packing: 4, Window: 64, MaxMEPBytes: 1 << 20, FragmentTimeout: time.Second,
		FirstFragmentTimeout: time.Second}
	m := NewMatcher(rules, []string{"a", "b"}, []bool{false, false})
	for e := range uint64(8) {
		if _, err := m.Offer(0, FragmentRef{Event: e, Size: 8}, 10*time.Second); err != nil {
			t.Fatal(err)
		}
		if e%2 == 0 {
			_, _ = m.Offer(1, FragmentRef{Event: e, Size: 8}, 10*time.Second) // the error tells of the gap
		}
	}
	m.MarkSourceOver(0)
	m.MarkSourceOver(1)
	var dst [8]FragmentRef
	for i := range uint64(2) {
		now := 11*time.Second + time.Duration(i)*2*time.Second
		m.AddCut(Cut{First: 4 * i, Events: 4}, now)
		m.Step(now)
		if _, ready, err := m.TakeCut(dst[:]); !ready || err != nil {
			t.Fatal(ready, err)
		}
		m.FinishCut(now)
	}
	for source, missing := range []uint64{0, 2} {
		h := m.History(source)
		want := HistoryBin{4, missing}
		if h.Bins[0] != want || h.Bins[2] != want || m.Counts(source).Missing != 2*missing {
			t.Errorf("source %d: %+v, %+v", source, h, m.Counts(source))
		}
	}
}
