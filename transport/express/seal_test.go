package express

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"ringlet/internal/invariants"
)

// newSealer makes a sealer whose next packet has the given number.
func newSealer(t testing.TB, s Suite, number uint64) *Sealer {
	t.Helper()
	x, err := NewSealer(s, goldenSession)
	if err != nil {
		t.Fatal(err)
	}
	x.header.Number = number
	return x
}

func newOpener(t testing.TB, s Suite) *Opener {
	t.Helper()
	o, err := NewOpener(s)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// from makes an opener to which epoch-1 is the oldest that it still knows, as if all before had been used.
func from(t testing.TB, s Suite, epoch uint32) *Opener {
	t.Helper()
	o := newOpener(t, s)
	o.first = epoch - 1
	for i := range o.keys {
		var err error
		if o.keys[i], err = s.key(o.first + uint32(i)); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

func seal(t testing.TB, x *Sealer, k Kind, head, body []byte) []byte {
	t.Helper()
	p := make([]byte, Overhead+len(head)+len(body))
	n, err := x.Seal(p, k, head, body)
	if err != nil || n != len(p) {
		t.Fatalf("%d bytes sealed, %v", n, err)
	}
	return p
}

// take does what the socket's reader does with a packet.
func take(t testing.TB, o *Opener, p []byte) ([]byte, Verdict) {
	t.Helper()
	var h Header
	if !h.Parse(p) {
		return nil, Forged
	}
	if v := o.Look(&h); v != Fresh {
		return nil, v
	}
	body := make([]byte, BodySize(p, &h))
	return body, o.Open(body, p, &h)
}

func both(t *testing.T, test func(t *testing.T, open bool)) {
	for name, open := range seals {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

func TestWhatIsSealedOpens(t *testing.T) {
	both(t, func(t *testing.T, open bool) {
		x, o := newSealer(t, goldenSuite(open), 0), newOpener(t, goldenSuite(open))
		rng := rand.New(rand.NewPCG(1, 1))
		for i := range 2000 {
			head, body := make([]byte, rng.IntN(maxHead+1)), make([]byte, rng.IntN(1<<rng.IntN(14)))
			for _, b := range [][]byte{head, body} {
				for i := range b {
					b[i] = byte(rng.Uint32())
				}
			}
			k := Kind(i % int(kinds))
			p := seal(t, x, k, head, body)
			var h Header
			if !h.Parse(p) || h.Kind != k || h.Number != uint64(i) ||
				!bytes.Equal(p[HeaderSize:HeaderSize+h.Head], head) {
				t.Fatalf("packet %d: %+v", i, h)
			}
			if got, v := take(t, o, p); v != Fresh || !bytes.Equal(got, body) {
				t.Fatalf("packet %d of %d and %d bytes: verdict %d", i, len(head), len(body), v)
			}
			if !open && len(body) > 16 && bytes.Contains(p, body) {
				t.Fatalf("the body of packet %d can be read in it", i)
			}
		}
	})
}

// TestNoBitCanBeChanged: header, clear part, body and seal are authenticated. An open packet's checksum sees any single
// bit.
func TestNoBitCanBeChanged(t *testing.T) {
	both(t, func(t *testing.T, open bool) {
		x, o := newSealer(t, goldenSuite(open), 5), newOpener(t, goldenSuite(open))
		p := seal(t, x, Datagram, []byte("a head in clear"), []byte("and a body that is not"))
		for bit := range 8 * len(p) {
			p[bit/8] ^= 1 << (bit % 8)
			if _, v := take(t, o, p); v == Fresh {
				t.Errorf("bit %d of byte %d was changed, and it opened", bit%8, bit/8)
			}
			p[bit/8] ^= 1 << (bit % 8)
		}
		if _, v := take(t, o, p); v != Fresh {
			t.Errorf("as it was sealed, it does not open: verdict %d", v)
		}
	})
}

func TestNoLengthButTheWholeOpens(t *testing.T) {
	both(t, func(t *testing.T, open bool) {
		x, o := newSealer(t, goldenSuite(open), 5), newOpener(t, goldenSuite(open))
		p := seal(t, x, Datagram, []byte("a head"), bytes.Repeat([]byte{0, 7}, 70))
		for n := range p {
			if _, v := take(t, o, p[:n]); v == Fresh {
				t.Errorf("%d of %d bytes open", n, len(p))
			}
		}
		for extra := range 40 {
			if _, v := take(t, o, append(bytes.Clone(p), make([]byte, extra+1)...)); v == Fresh {
				t.Errorf("with %d bytes more it opens", extra+1)
			}
		}
		if _, v := take(t, o, p); v != Fresh {
			t.Error("the whole does not open")
		}
	})
}

// TestWhatDiffers: another session, key, epoch or number than the peer's does not open, and costs nothing.
func TestWhatDiffers(t *testing.T) {
	other := goldenSuite(false)
	other.Derive = func(epoch uint32) ([]byte, error) {
		return bytes.Repeat([]byte{byte(epoch) + 0x55}, MaterialSize), nil
	}
	otherKeyed := goldenSuite(true)
	otherKeyed.Keyed ^= 1 << 63
	put := func(at int, v uint64, n int) func([]byte) {
		return func(p []byte) {
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], v)
			copy(p[at:at+n], b[:n])
		}
	}
	for name, tc := range map[string]struct {
		by     Suite
		open   bool
		change func([]byte)
		want   Verdict
	}{
		"another key":              {by: other, want: Forged},
		"another session":          {by: goldenSuite(false), change: put(4, 1, 4), want: Forged},
		"another number":           {by: goldenSuite(false), change: put(8, 77, 8), want: Forged},
		"an epoch that is not yet": {by: goldenSuite(false), change: put(8, 3*keyLife, 8), want: UnknownKey},
		"epoch and number not yet": {by: goldenSuite(false), change: func(p []byte) { p[2] = 3; put(8, 3*keyLife, 8)(p) },
			want: UnknownKey},
		"an epoch beside its number": {by: goldenSuite(false), change: put(2, 1, 2), want: UnknownKey},
		"epoch 2¹⁶ further":          {by: goldenSuite(false), change: put(8, 1<<38, 8), want: UnknownKey},
		"the last number": {by: goldenSuite(false),
			change: func(p []byte) { put(2, 0xffff, 2)(p); put(8, 1<<64-1, 8)(p) }, want: UnknownKey},
		"open: another session": {by: otherKeyed, open: true, want: Forged},
		"open: session not said": {by: goldenSuite(true), open: true, change: func(p []byte) { clear(p[len(p)-16:]) },
			want: Forged},
		"open: wrong checksum": {by: goldenSuite(true), open: true, change: func(p []byte) { p[len(p)-1]++ }, want: Forged},
		"open: another body": {by: goldenSuite(true), open: true, change: func(p []byte) { p[HeaderSize+4]++ },
			want: Forged},
		"open: reserved":         {by: goldenSuite(true), open: true, change: func(p []byte) { p[len(p)-8]++ }, want: Forged},
		"open: epoch not yet":    {by: goldenSuite(true), open: true, change: put(8, 3*keyLife, 8), want: UnknownKey},
		"a sealed one, to open":  {by: goldenSuite(false), open: true, want: Forged},
		"an open one, to sealed": {by: goldenSuite(true), want: Forged},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOpener(t, goldenSuite(tc.open))
			before := o.seen
			p := seal(t, newSealer(t, tc.by, 9), Datagram, []byte("head"), []byte("body"))
			if tc.change != nil {
				tc.change(p)
			}
			if _, v := take(t, o, p); v != tc.want {
				t.Errorf("verdict %d, want %d", v, tc.want)
			}
			if o.seen != before || o.first != 0 {
				t.Error("it left a trace")
			}
		})
	}
}

// TestForgedNumberDoesNotUseItUp: only an authentic packet takes its number.
func TestForgedNumberDoesNotUseItUp(t *testing.T) {
	both(t, func(t *testing.T, open bool) {
		x, o := newSealer(t, goldenSuite(open), 9), newOpener(t, goldenSuite(open))
		p := seal(t, x, Datagram, nil, []byte("body"))
		bad := bytes.Clone(p)
		bad[len(bad)-1] ^= 1
		for range 3 {
			if _, v := take(t, o, bad); v != Forged {
				t.Fatalf("verdict %d", v)
			}
		}
		if _, v := take(t, o, p); v != Fresh {
			t.Errorf("the true one is judged %d", v)
		}
		if _, v := take(t, o, p); v != Replayed {
			t.Errorf("and when it comes again %d", v)
		}
	})
}

func TestSessionThatHasNoMoreKeysSaysSo(t *testing.T) {
	x := newSealer(t, goldenSuite(false), maxEpochs*keyLife-1)
	o := from(t, goldenSuite(false), maxEpochs-2)
	p := make([]byte, 100)
	if _, v := take(t, o, seal(t, x, Datagram, nil, nil)); v != Fresh {
		t.Errorf("the last packet is judged %d", v)
	}
	for range 2 { // and goes on saying so
		if _, err := x.Seal(p, Datagram, nil, nil); err == nil || !strings.Contains(err.Error(), "must be made anew") {
			t.Errorf("sealed with %v", err)
		}
	}
	broken := Suite{Derive: func(uint32) ([]byte, error) { return nil, errors.New("no secret") }}
	if _, err := NewSealer(broken, 1); err == nil || !strings.Contains(err.Error(), "no secret") {
		t.Errorf("%v", err)
	}
	if _, err := NewOpener(broken); err == nil {
		t.Error("an opener without keys")
	}
	short := Suite{Derive: func(uint32) ([]byte, error) { return make([]byte, 27), nil }}
	if _, err := NewOpener(short); err == nil || !strings.Contains(err.Error(), "27 bytes long, not 28") {
		t.Errorf("%v", err)
	}
}

func TestNothingAllocates(t *testing.T) {
	if invariants.Enabled {
		t.Skip("SKIPPED: the race detector allocates")
	}
	for name, open := range seals {
		x, o := newSealer(t, goldenSuite(open), 0), newOpener(t, goldenSuite(open))
		head, body, p := make([]byte, 44), make([]byte, 1396), make([]byte, 1472)
		var h Header
		if n := testing.AllocsPerRun(1000, func() {
			if _, err := x.Seal(p, Datagram, head, body); err != nil {
				t.Error(err)
			}
			if !h.Parse(p) || o.Look(&h) != Fresh || o.Open(body, p, &h) != Fresh {
				t.Error("a packet does not open")
			}
			p[20]++ // forged
			if !h.Parse(p) || o.Look(&h) != Replayed || o.Open(body, p, &h) != Forged {
				t.Error("a forged packet opens")
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations per packet", name, n)
		}
	}
}

func BenchmarkSeal(b *testing.B) { benchmark(b, false) }

func BenchmarkOpen(b *testing.B) { benchmark(b, true) }

func benchmark(b *testing.B, opening bool) {
	for name, open := range seals {
		for _, size := range [...]int{1472, 8972} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				x, o := newSealer(b, goldenSuite(open), 0), newOpener(b, goldenSuite(open))
				head, p := make([]byte, 44), make([]byte, size)
				body := make([]byte, size-Overhead-len(head))
				if _, err := x.Seal(p, Datagram, head, body); err != nil {
					b.Fatal(err)
				}
				var h Header
				if !h.Parse(p) {
					b.Fatal("it does not parse")
				}
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if opening {
						if o.Open(body, p, &h) != Fresh {
							b.Fatal("it does not open")
						}
					} else if _, err := x.Seal(p, Datagram, head, body); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
