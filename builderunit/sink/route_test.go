package sink

import (
	"testing"

	"pgregory.net/rapid"

	"ringlet/event"
	"ringlet/internal/registry"
	"ringlet/testkit/must"
)

func routeOf(t must.TB, name string) Route {
	t.Helper()
	r, err := registry.Find("rule", Routes, name)
	must.OK(t, err)
	return r
}

// markedMEP is a MEP of two sources, of which the second lacks its fragments.
func markedMEP(t must.TB, m Meta) []byte {
	t.Helper()
	p := testPattern(t)
	mep := make([]byte, event.MEPHeaderSize(2))
	var offsets []uint32
	for s := range uint16(2) {
		mfp := make([]byte, p.MaxMFP(s, m.Events))
		size := len(event.PutMissingMFP(mfp, s, m.FirstEvent, m.Events))
		if s == 0 {
			var err error
			size, _, err = p.FillMFP(mfp, s, m.FirstEvent, m.Events, false)
			must.OK(t, err)
		}
		offsets = append(offsets, uint32(len(mep)/4))
		mep = append(mep, mfp[:(size+3)/4*4]...)
	}
	_, err := event.PutMEPHeader(mep, []uint16{0, 1}, offsets, uint32(len(mep)/4))
	must.OK(t, err)
	return mep
}

func TestRoutes(t *testing.T) {
	complete, completeMEP := buildMEP(t, testPattern(t), 5, testPacking, 0)
	marked := markedMEP(t, complete)
	turns, number, missing := routeOf(t, "turns"), routeOf(t, "number"), routeOf(t, "missing")
	for turn := range uint64(7) {
		for n := 2; n <= MaxStreams; n++ {
			if got := turns.pickStream(n, turn, complete, completeMEP); got != int(turn)%n {
				t.Errorf("turn %d of %d: stream %d", turn, n, got)
			}
			if got := missing.pickStream(n, turn, complete, marked); got != n-1 {
				t.Errorf("a marked MEP goes to stream %d of %d", got, n)
			}
			if got := missing.pickStream(n, turn, complete, completeMEP); got != int(turn)%(n-1) {
				t.Errorf("a whole MEP goes to stream %d of %d", got, n)
			}
		}
	}
	if hasMissing(completeMEP[:20]) {
		t.Error("what is no MEP has missing fragments")
	}
	if n := testing.AllocsPerRun(100, func() {
		_ = number.pickStream(3, 1, complete, completeMEP)
		_ = missing.pickStream(3, 1, complete, marked)
	}); n > 0 {
		t.Errorf("%v allocations for a MEP", n)
	}
}

// TestByNumber holds that the stream of a MEP depends on nothing but its number, and that the streams have even shares
// of the numbers that one of several builder units gets.
func TestByNumber(t *testing.T) {
	number := routeOf(t, "number")
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, MaxStreams).Draw(t, "streams")
		step := rapid.Uint64Range(1, 64).Draw(t, "builders")
		first := rapid.Uint64Range(0, 1<<40).Draw(t, "first")
		const meps = 4000
		shares := make([]int, n)
		for k := range uint64(meps) {
			m := Meta{MEP: first + k*step, Attempt: 1}
			at := number.pickStream(n, k, m, nil)
			m.Attempt, m.Events = 2, 3
			if again := number.pickStream(n, k+1, m, []byte{1}); again != at {
				t.Fatalf("MEP %d goes to stream %d, and to %d the next time", m.MEP, at, again)
			}
			shares[at]++
		}
		for i, share := range shares {
			if even := meps / n; share < even*3/4 || share > even*5/4 {
				t.Errorf("stream %d has %d of %d MEPs, of %d streams", i, share, meps, n)
			}
		}
	})
}
