package input

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// What Once says of fragments in any order is what a set of them says.
func TestOnceIsASet(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	type fragment struct {
		source uint16
		event  uint64
	}
	for range 50 {
		o := newOnce()
		o.most = 200
		var before, now = map[fragment]bool{}, map[fragment]bool{}
		for file := range 4 {
			o.begin(file)
			for f := range now {
				before[f] = true
			}
			for range 300 {
				f := fragment{uint16(rnd.IntN(2)), rnd.Uint64N(60)}
				if rnd.IntN(2) == 0 {
					f.event = math.MaxUint64 - f.event
				}
				again, err := o.record(f.source, f.event, false)
				if err != nil || again != before[f] {
					t.Fatalf("%v in input %d: %v, %v; want %v", f, file, again, err, before[f])
				}
				now[f] = true
			}
		}
	}
}

// A mark of a fragment that did not come does not keep the fragment out; the fragment, or another mark, keeps it out.
func TestMarksComeOnce(t *testing.T) {
	o := newOnce()
	for i, c := range []struct {
		file  int
		mark  bool
		again bool
	}{{0, true, false}, {1, true, true}, {1, false, false}, {2, false, true}, {2, true, true}} {
		o.begin(c.file)
		if again, err := o.record(1, 5, c.mark); err != nil || again != c.again {
			t.Errorf("%d: %v, %v", i, again, err)
		}
	}
}

// Events that follow each other cost nothing; as many gaps as memory has no room for end it with a sentence.
func TestOnceIsBounded(t *testing.T) {
	o := newOnce()
	for file := range 3 {
		o.begin(file)
		for e := range uint64(100_000) {
			if _, err := o.record(uint16(e%3), e/3, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	if o.spans > 9 {
		t.Errorf("%d spans", o.spans)
	}
	o.most = 1000
	for e := range uint64(2000) {
		if _, err := o.record(9, 2*e, false); err != nil {
			if e > 1000 || !strings.Contains(err.Error(), "more than 750 gaps; give it fewer runs at a time") {
				t.Errorf("at event %d: %v", e, err)
			}
			return
		}
	}
	t.Error("it has no bound")
}
