package express

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestReplayWindowIsAMap: a number is fresh if it was never seen and lies within reach of the newest; what is further
// back is refused.
func TestReplayWindowIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r replay
		model := map[uint64]bool{}
		var newest uint64
		r.next = rapid.SampledFrom([]uint64{0, 1, 63, 64, 1 << 40}).Draw(t, "start")
		start := r.next
		for range rapid.IntRange(1, 300).Draw(t, "numbers") {
			back := rapid.OneOf(rapid.Uint64Range(0, 200), rapid.Uint64Range(0, 2*replayWindow)).Draw(t, "back")
			ahead := rapid.OneOf(rapid.Uint64Range(0, 3), rapid.Uint64Range(0, 200),
				rapid.Uint64Range(0, 3*replayWindow)).Draw(t, "ahead")
			n := max(start, r.next) + ahead
			n -= min(n-start, back)
			want := !model[n] && (n >= r.next || r.next-n <= replayWindow-64)
			if got := r.fresh(n); got != want {
				t.Fatalf("number %d, newest %d: fresh %v, want %v", n, newest, got, want)
			}
			if want && rapid.IntRange(0, 9).Draw(t, "authentic") > 0 {
				r.see(n)
				model[n], newest = true, max(newest, n)
				if r.fresh(n) {
					t.Fatalf("number %d is fresh again", n)
				}
			}
		}
		for n := range model {
			if r.fresh(n) {
				t.Fatalf("number %d is fresh again at the end", n)
			}
		}
	})
}

// TestReorderingIsTaken: as much as a link may have in flight arrives in any order, all of it, and each packet once.
func TestReorderingIsTaken(t *testing.T) {
	both(t, func(t *testing.T, open bool) {
		x, o := newSealer(t, goldenSuite(open), 0), newOpener(t, goldenSuite(open))
		rng := rand.New(rand.NewPCG(3, 3))
		for range 4 {
			flight := make([][]byte, replayWindow/2)
			for i := range flight {
				flight[i] = seal(t, x, Datagram, nil, []byte{byte(i)})
			}
			rng.Shuffle(len(flight), func(i, j int) { flight[i], flight[j] = flight[j], flight[i] })
			for _, want := range [...]Verdict{Fresh, Replayed} {
				for _, p := range flight {
					if _, v := take(t, o, p); v != want {
						t.Fatalf("verdict %d, want %d", v, want)
					}
				}
			}
		}
	})
}

// TestKeyChanges: over several changes of keys, in both directions of a session at once, packets that overtake each
// other across the change open all the same, no nonce is used twice with a key, and the key before last is forgotten.
func TestKeyChanges(t *testing.T) {
	for _, epoch := range []uint32{1, 2, 3, 40, 255, 256, maxEpochs - 3} {
		for _, way := range []byte{0, 0x80} { // each direction has its own secret
			s := goldenSuite(false)
			derive := s.Derive
			s.Derive = func(epoch uint32) ([]byte, error) {
				m, err := derive(epoch)
				for i := range m {
					m[i] ^= way
				}
				return m, err
			}
			changeKeys(t, s, epoch)
		}
	}
}

// changeKeys sends across the beginning of an epoch.
func changeKeys(t *testing.T, s Suite, epoch uint32) {
	t.Helper()
	const around = 300
	x := newSealer(t, s, uint64(epoch)*keyLife-around)
	o := from(t, s, max(epoch-1, 1))
	if epoch == 1 {
		o = newOpener(t, s)
	}
	type used struct {
		base, nonce [12]byte
	}
	nonces := map[used]bool{}
	var packets [][]byte
	for range 2 * around {
		packets = append(packets, seal(t, x, Datagram, []byte("head"), []byte("body")))
		u := used{x.key.base, x.nonce}
		if nonces[u] {
			t.Fatalf("epoch %d: nonce %x was used twice", epoch, x.nonce)
		}
		nonces[u] = true
	}
	rand.New(rand.NewPCG(uint64(epoch), 1)).Shuffle(len(packets),
		func(i, j int) { packets[i], packets[j] = packets[j], packets[i] })
	keys := map[uint16]int{}
	for i, p := range packets {
		var h Header
		if !h.Parse(p) {
			t.Fatal("a packet does not parse")
		}
		keys[h.Epoch]++
		if body, v := take(t, o, p); v != Fresh || string(body) != "body" {
			t.Fatalf("epoch %d, packet %d of epoch %d: verdict %d", epoch, i, h.Epoch, v)
		}
	}
	if len(keys) != 2 || keys[uint16(epoch-1)] != around || keys[uint16(epoch)] != around {
		t.Fatalf("epoch %d: packets by key %v", epoch, keys)
	}
	for _, p := range packets {
		if _, v := take(t, o, p); v != Replayed {
			t.Fatalf("epoch %d: verdict %d on what was seen", epoch, v)
		}
	}
	if known := uint64(o.first); epoch >= 2 && (known != uint64(epoch)-1 || known+uint64(len(o.keys)) != uint64(epoch)+2) {
		t.Errorf("epoch %d: keys from %d on are known", epoch, known)
	}
	if epoch < 2 {
		return
	}
	old := newSealer(t, s, uint64(epoch-1)*keyLife-1)
	old.epoch = 1 << 31 // as none is: it takes the key of its number
	if _, v := take(t, o, seal(t, old, Datagram, nil, nil)); v == Fresh {
		t.Errorf("epoch %d: a packet with a key long past opens", epoch)
	}
}

// TestKeysDiffer: no two epochs have a key in common, and a sealer that starts anywhere has the key of its number.
func TestKeysDiffer(t *testing.T) {
	s := goldenSuite(false)
	x, y := newSealer(t, s, keyLife-1), newSealer(t, s, keyLife)
	a, b := seal(t, x, Datagram, nil, []byte("same")), seal(t, x, Datagram, nil, []byte("same"))
	c := seal(t, y, Datagram, nil, []byte("same"))
	if string(b) != string(c) || string(a[HeaderSize:]) == string(b[HeaderSize:]) {
		t.Error("the key does not follow from the number")
	}
}
