package express

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"ringlet/internal/invariants"
)

const session = 0x8bad_cafe_0bad_f00d

// secret is a traffic secret; each way has its own.
func secret(direction byte) []byte { return bytes.Repeat([]byte{direction, 0x5e}, SecretSize/2) }

// newSealer makes a sealer whose next packet has the given number.
func newSealer(t testing.TB, direction byte, number uint64) *Sealer {
	t.Helper()
	x, err := NewSealer(secret(direction), session)
	if err != nil {
		t.Fatal(err)
	}
	x.header.number = number
	return x
}

// newOpener makes an opener to which the epoch before the given one is the oldest that it knows, as if all before had
// been used.
func newOpener(t testing.TB, direction byte, epoch uint32) *Opener {
	t.Helper()
	o, err := NewOpener(secret(direction))
	if err != nil {
		t.Fatal(err)
	}
	for o.firstEpoch+1 < epoch {
		before := o.firstEpoch
		if o.advanceKeys(); o.firstEpoch == before {
			t.Fatalf("there is no key of epoch %d", before+3)
		}
	}
	o.replay.next = uint64(o.firstEpoch) * packetsPerKey
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

// openPacket does what the socket's reader does with a packet: the packet stays as it is.
func openPacket(o *Opener, p []byte, aside bool) ([]byte, Verdict) {
	p = bytes.Clone(p)
	if id, ok := SessionID(p); !ok || id != session {
		return nil, Malformed
	}
	if v := o.Inspect(p); v != Fresh {
		return nil, v
	}
	if !aside {
		if first, rest := o.Peek(); first != nil {
			d := append(bytes.Clone(first), make([]byte, rest)...)
			return d, o.OpenRest(d[len(first):])
		}
	}
	_, d, v := o.Open(make([]byte, PlainSize(p)))
	return d, v
}

func random(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func TestWhatIsSealedOpens(t *testing.T) {
	x, o := newSealer(t, 1, 0), newOpener(t, 1, 0)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 4000 {
		head, body := random(rng, rng.IntN(100)), random(rng, rng.IntN(1<<rng.IntN(14)))
		p := seal(t, x, Datagram, head, body)
		if !IsSession(p) {
			t.Fatalf("packet %d is taken for one of quic-go", i)
		}
		want := append(bytes.Clone(head), body...)
		if got, v := openPacket(o, p, i%2 == 0); v != Fresh || !bytes.Equal(got, want) {
			t.Fatalf("packet %d of %d and %d bytes: verdict %d", i, len(head), len(body), v)
		}
		if len(body) > 16 && bytes.Contains(p, body) || len(head) > 16 && bytes.Contains(p, head) {
			t.Fatalf("packet %d can be read", i)
		}
	}
}

func TestProbes(t *testing.T) {
	x, o := newSealer(t, 1, 0), newOpener(t, 1, 0)
	data := []byte("8 bytes.")
	for _, tc := range []struct {
		kind Kind
		body []byte
		want Verdict
	}{
		{Probe, append(data, make([]byte, 1000)...), Fresh},
		{ProbeAnswer, data, Fresh},
		{Probe, data[1:], Malformed},                        // PATH_CHALLENGE has 8 bytes
		{Probe, append(data, 0, 0, 1), Malformed},           // another frame behind it
		{0x1c, append(data, make([]byte, 9)...), Malformed}, // CONNECTION_CLOSE
	} {
		p := seal(t, x, tc.kind, nil, tc.body)
		if v := o.Inspect(p); v != Fresh {
			t.Fatalf("verdict %d", v)
		}
		if first, _ := o.Peek(); first != nil {
			t.Errorf("kind %#x is taken for a datagram", tc.kind)
		}
		k, got, v := o.Open(make([]byte, PlainSize(p)))
		if v != tc.want || v == Fresh && (k != tc.kind || !bytes.Equal(got, tc.body)) {
			t.Errorf("kind %#x of %d bytes: verdict %d, want %d", tc.kind, len(tc.body), v, tc.want)
		}
	}
}

// TestNoBitCanBeChanged holds that all of a packet is authenticated.
func TestNoBitCanBeChanged(t *testing.T) {
	for _, body := range []int{5, 200} {
		x, o := newSealer(t, 1, 5), newOpener(t, 1, 0)
		p := seal(t, x, Datagram, []byte("a head"), make([]byte, body))
		for bit := range 8 * len(p) {
			p[bit/8] ^= 1 << (bit % 8)
			if _, v := openPacket(o, p, bit%2 == 0); v == Fresh {
				t.Errorf("bit %d of byte %d was changed, and it opened", bit%8, bit/8)
			}
			p[bit/8] ^= 1 << (bit % 8)
		}
		if _, v := openPacket(o, p, false); v != Fresh {
			t.Errorf("as it was sealed, it does not open: verdict %d", v)
		}
	}
}

func TestNoLengthButTheWholeOpens(t *testing.T) {
	x, o := newSealer(t, 1, 5), newOpener(t, 1, 0)
	p := seal(t, x, Datagram, []byte("a head"), bytes.Repeat([]byte{0, 7}, 70))
	for n := range p {
		if _, v := openPacket(o, p[:n], false); v == Fresh {
			t.Errorf("%d of %d bytes open", n, len(p))
		}
	}
	for extra := range 40 {
		if _, v := openPacket(o, append(bytes.Clone(p), make([]byte, extra+1)...), false); v == Fresh {
			t.Errorf("with %d bytes more it opens", extra+1)
		}
	}
	if _, v := openPacket(o, p, false); v != Fresh {
		t.Error("the whole does not open")
	}
}

// TestWhatDiffers: another key, number or header than the peer's does not open, and costs nothing.
func TestWhatDiffers(t *testing.T) {
	at := func(direction byte, number uint64) func(*Sealer) {
		return func(x *Sealer) { *x = *newSealer(t, direction, number) }
	}
	for name, tc := range map[string]struct {
		by     func(*Sealer)
		change func(shown []byte) // of the packet without its header protection
		want   Verdict
	}{
		"a key that is not yet":     {by: at(1, 3*packetsPerKey), want: UnknownKey},
		"a number 2^31 further":     {change: func(p []byte) { p[NumberOffset] ^= 0x40 }, want: UnknownKey},
		"a phase beside its number": {change: func(p []byte) { p[0] ^= phaseBit }, want: UnknownKey},
		"another number":            {change: func(p []byte) { p[HeaderSize-1] ^= 0x20 }, want: Forged},
		"spin":                      {change: func(p []byte) { p[0] ^= spinBit }, want: Forged},
		"reserved":                  {change: func(p []byte) { p[0] ^= 0x10 }, want: Malformed},
		"a short number":            {change: func(p []byte) { p[0] ^= 0x02 }, want: Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			o, x := newOpener(t, 1, 0), newSealer(t, 1, 9)
			if tc.by != nil {
				tc.by(x)
			}
			before := o.replay
			p := seal(t, x, Datagram, []byte("head"), make([]byte, 100))
			if tc.change != nil {
				o.mask.apply(p)
				tc.change(p)
				o.mask.apply(p)
			}
			if _, v := openPacket(o, p, false); v != tc.want {
				t.Errorf("verdict %d, want %d", v, tc.want)
			}
			if o.replay != before || o.firstEpoch != 0 {
				t.Error("it left a trace")
			}
		})
	}
	o, p := newOpener(t, 1, 0), seal(t, newSealer(t, 2, 9), Datagram, nil, []byte("of the other way"))
	if _, v := openPacket(o, p, false); v == Fresh {
		t.Error("it opens with the key of the other way")
	}
}

// TestForgedNumberDoesNotUseItUp: only an authentic packet takes its number.
func TestForgedNumberDoesNotUseItUp(t *testing.T) {
	x, o := newSealer(t, 1, 9), newOpener(t, 1, 0)
	p := seal(t, x, Datagram, nil, make([]byte, 90))
	bad := bytes.Clone(p)
	bad[len(bad)-1] ^= 1
	for range 3 {
		if _, v := openPacket(o, bad, false); v != Forged {
			t.Fatalf("verdict %d", v)
		}
	}
	if _, v := openPacket(o, p, false); v != Fresh {
		t.Errorf("the true one is judged %d", v)
	}
	if _, v := openPacket(o, p, false); v != Replayed {
		t.Errorf("and when it comes again %d", v)
	}
}

func TestSessionThatHasNoMoreKeysSaysSo(t *testing.T) {
	x, o := newSealer(t, 1, maxEpochs*packetsPerKey-1), newOpener(t, 1, maxEpochs-2)
	if _, v := openPacket(o, seal(t, x, Datagram, nil, nil), false); v != Fresh {
		t.Errorf("the last packet is judged %d", v)
	}
	for range 2 { // and goes on saying so
		if _, err := x.Seal(make([]byte, 100), Datagram, nil, nil); err == nil ||
			!strings.Contains(err.Error(), "must be made anew") {
			t.Errorf("sealed with %v", err)
		}
	}
	short := make([]byte, 31)
	if _, err := NewSealer(short, 1); err == nil || !strings.Contains(err.Error(), "31 bytes; it must have 32") {
		t.Errorf("%v", err)
	}
	if _, err := NewOpener(short); err == nil {
		t.Error("an opener without keys")
	}
}

func TestNothingAllocates(t *testing.T) {
	if invariants.Enabled {
		t.Skip("SKIPPED: the race detector allocates")
	}
	x, o := newSealer(t, 1, 0), newOpener(t, 1, 0)
	head, body, p := make([]byte, 44), make([]byte, 1396), make([]byte, 1472)
	aside := make([]byte, len(p))
	if n := testing.AllocsPerRun(1000, func() {
		for _, aimed := range [...]bool{true, false} {
			n, err := x.Seal(p, Datagram, head, body)
			if err != nil || o.Inspect(p[:n]) != Fresh {
				t.Error("a packet cannot be opened")
			}
			first, rest := o.Peek()
			v := Forged
			if aimed && len(first) > 0 {
				v = o.OpenRest(body[:rest])
			} else if !aimed {
				_, _, v = o.Open(aside)
			}
			if v != Fresh {
				t.Errorf("verdict %d", v)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations per packet", n)
	}
}

func BenchmarkSeal(b *testing.B) { benchmark(b, false) }

func BenchmarkOpen(b *testing.B) { benchmark(b, true) }

func benchmark(b *testing.B, opening bool) {
	for _, size := range [...]int{1472, 8972} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			x, o := newSealer(b, 1, 0), newOpener(b, 1, 0)
			head, p := make([]byte, 44), make([]byte, size)
			body := make([]byte, size-Overhead-len(head))
			if _, err := x.Seal(p, Datagram, head, body); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			var shown [HeaderSize]byte
			copy(shown[:], p)
			for b.Loop() {
				if !opening {
					if _, err := x.Seal(p, Datagram, head, body); err != nil {
						b.Fatal(err)
					}
					continue
				}
				copy(p, shown[:])
				o.replay = replay{}
				if o.Inspect(p) != Fresh {
					b.Fatal("it cannot be opened")
				}
				if _, rest := o.Peek(); o.OpenRest(body[:rest]) != Fresh {
					b.Fatal("it does not open")
				}
			}
		})
	}
}

// TestNumbers holds number to RFC 9000, appendix A.3, and to what it is for.
func TestNumbers(t *testing.T) {
	for _, tc := range []struct {
		next uint64
		low  uint32
		want uint64
	}{
		{0, 0, 0}, {0, 1<<32 - 1, 1<<32 - 1}, {1 << 32, 5, 1<<32 + 5}, {1 << 32, 1<<32 - 1, 1<<32 - 1},
		{1<<32 - 1, 0, 1 << 32}, {5<<32 + 1<<31, 0, 6 << 32}, {5<<32 + 1<<31 - 1, 0, 5 << 32},
		{1<<62 - 1, 7, 1<<62 - 1<<32 + 7},
	} {
		if got := expandNumber(tc.low, tc.next); got != tc.want {
			t.Errorf("%#x after %#x is %#x, want %#x", tc.low, tc.next, got, tc.want)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10000 {
		next := rng.Uint64N(1<<62-1<<33) + 1<<32
		n := next - 1<<31 + 1 + rng.Uint64N(1<<32-1)
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], n)
		if got := expandNumber(binary.BigEndian.Uint32(b[4:]), next); got != n {
			t.Fatalf("%#x after %#x is %#x", n, next, got)
		}
	}
}
