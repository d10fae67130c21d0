package express

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestKeysOfRFC9001 has the figures of RFC 9001: appendix A.1 (keys of the client), A.2 (header protection), A.5 (key
// update).
func TestKeysOfRFC9001(t *testing.T) {
	client := unhex(t, "c00cf151ca5be075ed0ebfb5c80323c42d6b7db67881289af4008f1f6c357aea")
	for _, tc := range []struct{ secret, label, want string }{
		{hex.EncodeToString(client), "quic key", "1f369613dd76d5467730efcbe3b1a22d"},
		{hex.EncodeToString(client), "quic iv", "fa044b2f42a3fd3b46fb255c"},
		{hex.EncodeToString(client), "quic hp", "9f50449e04a0e810283a1e9933adedd2"},
		{"9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b", "quic ku",
			"1223504755036d556342ee9361d253421a826c9ecdf3c7148684b36b714881f9"},
	} {
		want := unhex(t, tc.want)
		if got := expand(unhex(t, tc.secret), tc.label, len(want)); !bytes.Equal(got, want) {
			t.Errorf("%s: %x, want %x", tc.label, got, want)
		}
	}
	m := newMask(client)
	p := make([]byte, sampleOffset+sampleSize)
	copy(p[sampleOffset:], unhex(t, "d1b1c98dd7689fb8ec11d242b123dc9b"))
	m.apply(p)
	if want := unhex(t, "037b9aec36"); p[0] != want[0] || !bytes.Equal(p[NumberOffset:HeaderSize], want[1:]) {
		t.Errorf("the mask is %x and %x, want %x", p[0], p[NumberOffset:HeaderSize], want)
	}
}

// TestSizesMustSuit: a size that no library takes is an error of whoever wrote it down, and not of a peer.
func TestSizesMustSuit(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a key longer than HKDF gives was made")
		}
	}()
	expand(make([]byte, SecretSize), "quic key", 255*SecretSize+1)
}

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
			if got := r.isFresh(n); got != want {
				t.Fatalf("number %d, newest %d: fresh %v, want %v", n, newest, got, want)
			}
			if want && rapid.IntRange(0, 9).Draw(t, "authentic") > 0 {
				r.markSeen(n)
				model[n], newest = true, max(newest, n)
				if r.isFresh(n) {
					t.Fatalf("number %d is fresh again", n)
				}
			}
		}
		for n := range model {
			if r.isFresh(n) {
				t.Fatalf("number %d is fresh again at the end", n)
			}
		}
	})
}

// TestReorderingIsTaken: as much as a link may have in flight arrives in any order, all of it, and each packet once.
func TestReorderingIsTaken(t *testing.T) {
	x, o := newSealer(t, 1, 0), newOpener(t, 1, 0)
	rng := rand.New(rand.NewPCG(3, 3))
	for range 4 {
		flight := make([][]byte, replayWindow/2)
		for i := range flight {
			flight[i] = seal(t, x, Datagram, nil, []byte{byte(i)})
		}
		rng.Shuffle(len(flight), func(i, j int) { flight[i], flight[j] = flight[j], flight[i] })
		for _, want := range [...]Verdict{Fresh, Replayed} {
			for _, p := range flight {
				if _, v := openPacket(o, p, false); v != want {
					t.Fatalf("verdict %d, want %d", v, want)
				}
			}
		}
	}
}

// TestKeyChanges: over several changes of keys, in both directions of a session at once, packets that overtake each
// other across the change open all the same, no nonce is used twice with a key, and the key before last is forgotten.
func TestKeyChanges(t *testing.T) {
	for _, epoch := range []uint32{1, 2, 3, 40, 255, 256, maxEpochs - 3} {
		if testing.Short() && epoch > 256 { // going through the epochs before takes seconds
			continue
		}
		for _, direction := range []byte{0, 1} {
			changeKeys(t, direction, epoch)
		}
	}
}

// changeKeys sends across the beginning of an epoch.
func changeKeys(t *testing.T, direction byte, epoch uint32) {
	t.Helper()
	const around = 300
	x, o := newSealer(t, direction, uint64(epoch)*packetsPerKey-around), newOpener(t, direction, epoch-1)
	type used struct{ base, nonce [12]byte }
	nonces, phases := map[used]bool{}, map[byte]int{}
	var packets [][]byte
	for range 2 * around {
		packets = append(packets, seal(t, x, Datagram, []byte("head"), make([]byte, 80)))
		u := used{x.key.iv, x.nonce}
		if nonces[u] {
			t.Fatalf("epoch %d: nonce %x was used twice", epoch, x.nonce)
		}
		nonces[u] = true
		phases[x.header.phase]++
	}
	if phases[0] != around || phases[1] != around || uint32(x.header.phase) != epoch%2 {
		t.Fatalf("epoch %d: packets by phase %v", epoch, phases)
	}
	rand.New(rand.NewPCG(uint64(epoch), 1)).Shuffle(len(packets),
		func(i, j int) { packets[i], packets[j] = packets[j], packets[i] })
	for _, want := range [...]Verdict{Fresh, Replayed} {
		for i, p := range packets {
			if _, v := openPacket(o, p, false); v != want {
				t.Fatalf("epoch %d, packet %d: verdict %d, want %d", epoch, i, v, want)
			}
		}
	}
	if oldest := o.firstEpoch; epoch >= 2 && oldest != epoch-1 {
		t.Errorf("epoch %d: keys from %d on are known", epoch, oldest)
	}
	if epoch < 2 {
		return
	}
	before := newSealer(t, direction, uint64(epoch-1)*packetsPerKey)
	seal(t, before, Datagram, nil, nil)
	if o.keys[0].iv != before.key.iv {
		t.Errorf("epoch %d: the oldest key that is kept is not that of the epoch before", epoch)
	}
}

// TestKeysDiffer: a sealer that starts anywhere has the key of its number, and no two epochs have one in common.
func TestKeysDiffer(t *testing.T) {
	x, y := newSealer(t, 1, packetsPerKey-1), newSealer(t, 1, packetsPerKey)
	a, b := seal(t, x, Datagram, nil, []byte("same")), seal(t, x, Datagram, nil, []byte("same"))
	c := seal(t, y, Datagram, nil, []byte("same"))
	if !bytes.Equal(b, c) || bytes.Equal(a[HeaderSize:], b[HeaderSize:]) {
		t.Error("the key does not follow from the number")
	}
}
