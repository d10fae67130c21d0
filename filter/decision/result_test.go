package decision

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"ringlet/filter"
	"ringlet/testkit/golden"
)

func someResults() []Result {
	return []Result{
		{Event: 1, Builder: 2, Decision: filter.Accepted, Epoch: 7, Score: 0x1234, TookMicros: 10},
		{Event: maxEventNumber - 1, Builder: noBuilder, Decision: filter.TimedOut, TookMicros: MaxTookMicros},
	}
}

func TestGolden(t *testing.T) {
	want := golden.Hex(t, "results")
	for i, r := range someResults() {
		var b [ResultSize]byte
		r.Put(b[:])
		if w := want[i*ResultSize : (i+1)*ResultSize]; !bytes.Equal(b[:], w) {
			t.Errorf("%v is % x, and by hand % x", &r, b, w)
		}
		var back Result
		if err := back.Parse(want[i*ResultSize : (i+1)*ResultSize]); err != nil || back != r {
			t.Errorf("% x is read as %v, %v", want[i*ResultSize:], &back, err)
		}
	}
}

// A result of which a part is another one's is found.
func TestTorn(t *testing.T) {
	a := Result{Event: 5, Builder: 1, Decision: filter.Accepted, Epoch: 1}
	b := Result{Event: 1825, Builder: 1, Decision: filter.Rejected, Epoch: 1, Score: 9}
	var x, y [ResultSize]byte
	a.Put(x[:])
	b.Put(y[:])
	for _, at := range []int{2, 4, 8, 12} {
		torn := append(bytes.Clone(x[:at]), y[at:]...)
		if bytes.Equal(torn, x[:]) || bytes.Equal(torn, y[:]) {
			continue
		}
		var r Result
		if err := r.Parse(torn); !errors.Is(err, errSeal) {
			t.Errorf("cut at %d: %v, %v", at, &r, err)
		}
	}
	var r Result
	if err := r.Parse(x[:15]); !errors.Is(err, errResultSize) {
		t.Error(err)
	}
}

func TestTook(t *testing.T) {
	for d, want := range map[time.Duration]uint16{
		-time.Second: 0, 1999 * time.Nanosecond: 1, 65534 * time.Microsecond: 65534, time.Hour: MaxTookMicros,
	} {
		if got := clampMicros(d); got != want {
			t.Errorf("%v is %d µs", d, got)
		}
	}
}

func TestWords(t *testing.T) {
	all := someResults()
	if got, want := all[0].String(), "event 1: accepted by builder unit 2, score 4660, 10 µs"; got != want {
		t.Error(got)
	}
	all[1].Decision = Void
	const want = "event 281474976710655: no such event by the decision unit, score 0, 65535 µs"
	if got := all[1].String(); got != want {
		t.Error(got)
	}
}

func FuzzParse(f *testing.F) {
	for _, r := range someResults() {
		var b [ResultSize]byte
		r.Put(b[:])
		f.Add(b[:])
	}
	f.Add([]byte{})
	core, err := makeCore(Config{MaxPending: 8, BuilderCount: 3, Epoch: 7})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Result
		if r.Parse(b) != nil {
			return
		}
		var back [ResultSize]byte
		if r.Put(back[:]); !bytes.Equal(b, back[:]) {
			t.Errorf("% x is read as %v and written as % x", b, &r, back)
		}
		core.accept(&r, 0) // a core bears whatever can be read
	})
}
