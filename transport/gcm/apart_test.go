package gcm

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"ringlet/internal/invariants"
	"ringlet/testkit/cases"
)

// TestApart compares messages in two places with what crypto/cipher makes of them in one, for each length of a packet.
func TestApart(t *testing.T) {
	forEachForm(t, func(t *testing.T, f form) {
		rng := rand.NewChaCha8([32]byte{7, byte(f)})
		random := rand.New(rng)
		key := make([]byte, KeySize)
		_, _ = rng.Read(key)
		ours, theirs := newAEAD(t, key, f), newAEAD(t, key, libraryForm)
		const most = 9000
		memory, sealed, opened := make([]byte, most+512), make([]byte, most+512), make([]byte, most+512)
		_, _ = rng.Read(memory)
		step := cases.Count(1, 37)
		for n := 0; n <= most-FirstSize; n += step {
			nonce, aad := memory[random.IntN(64):][:NonceSize], memory[random.IntN(64):][:random.IntN(40)]
			first := (*[FirstSize]byte)(memory[random.IntN(64):])
			rest := memory[128+random.IntN(64):][:n]
			want := theirs.Seal(nil, nonce, append(first[:], rest...), aad)
			got := sealed[random.IntN(64):][:FirstSize+n+Overhead]
			ours.SealApart(got, nonce, first, rest, aad)
			if !bytes.Equal(got, want) {
				t.Fatalf("%d bytes: sealed otherwise than by crypto/cipher", n)
			}
			var peeked [FirstSize]byte
			if ours.Peek(&peeked, nonce, got); peeked != *first {
				t.Fatalf("%d bytes: the first bytes are %x, want %x", n, peeked, *first)
			}
			to := opened[random.IntN(64):][:n]
			if err := ours.OpenApart(to, nonce, bytes.Clone(got), aad); err != nil || !bytes.Equal(to, rest) {
				t.Fatalf("%d bytes: %v", n, err)
			}
			got[random.IntN(len(got))] ^= 1 << random.IntN(8)
			if err := ours.OpenApart(to, nonce, got, aad); err == nil || !bytes.Equal(to, make([]byte, n)) {
				t.Fatalf("%d bytes: opened after a bit was changed, or something stayed", n)
			}
		}
	})
}

// TestApartOverlaps holds that what cannot be done is refused.
func TestApartOverlaps(t *testing.T) {
	for f := wideForm; f < libraryForm; f++ {
		if !f.isSupported() {
			continue
		}
		a, b, nonce := newAEAD(t, make([]byte, KeySize), f), make([]byte, 400), make([]byte, NonceSize)
		for name, call := range map[string]func(){
			"sealed over the rest":   func() { a.SealApart(b, nonce, new([FirstSize]byte), b[100:200], nil) },
			"sealed over the aad":    func() { a.SealApart(b[:200], nonce, new([FirstSize]byte), b[300:400], b[:10]) },
			"opened over the sealed": func() { _ = a.OpenApart(b[50:70], nonce, b[:100], nil) },
			"no room":                func() { a.SealApart(b[:100:100], nonce, new([FirstSize]byte), make([]byte, 50), nil) },
			"a short nonce":          func() { a.Peek(new([FirstSize]byte), nonce[1:], b) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%v: %s: no panic", f, name)
					}
				}()
				call()
			}()
		}
		if a.OpenApart(b[:1], nonce, b[100:100+FirstSize+Overhead], nil) == nil {
			t.Errorf("%v: a message of another length opens", f)
		}
	}
}

func TestApartAllocatesNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("SKIPPED: the race detector allocates")
	}
	forEachForm(t, func(t *testing.T, f form) {
		a, nonce := newAEAD(t, make([]byte, KeySize), f), make([]byte, NonceSize)
		rest, sealed := make([]byte, 1400), make([]byte, FirstSize+1400+Overhead)
		var first [FirstSize]byte
		aad := make([]byte, 13)
		if n := testing.AllocsPerRun(100, func() {
			a.SealApart(sealed, nonce, &first, rest, aad)
			a.Peek(&first, nonce, sealed)
			if a.OpenApart(rest, nonce, sealed, aad) != nil {
				t.Error("it does not open")
			}
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}
