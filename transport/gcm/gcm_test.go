package gcm

import (
	"bufio"
	"bytes"
	"crypto/cipher"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringlet/testkit/cases"
)

// forEachForm runs a test for every form that this processor has; crypto/cipher is the one that the others are held to.
func forEachForm(t *testing.T, test func(t *testing.T, f form)) {
	t.Helper()
	for f := wideForm; f <= libraryForm; f++ {
		t.Run(f.String(), func(t *testing.T) {
			if !f.isSupported() {
				t.Skipf("this processor cannot compute %v", f)
			}
			test(t, f)
		})
	}
}

func newAEAD(t testing.TB, key []byte, f form) AEAD {
	t.Helper()
	a, err := newForm(key, f)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestVectors has those of NIST and of Wycheproof.
func TestVectors(t *testing.T) {
	forEachForm(t, func(t *testing.T, f form) {
		for _, file := range []string{"cavp.txt", "wycheproof.txt"} {
			for i, v := range vectors(t, file) {
				v.check(t, newAEAD(t, v.key, f), i)
			}
		}
	})
}

type vector struct {
	key, nonce, plain, aad, sealed []byte
	valid                          bool
}

func vectors(t *testing.T, name string) (all []vector) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		var b [6][]byte
		words := strings.Fields(lines.Text())
		for i := range b {
			if b[i], err = hex.DecodeString(strings.Trim(words[i], "-")); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, vector{
			key:    b[0],
			nonce:  b[1],
			plain:  b[2],
			aad:    b[3],
			sealed: append(b[4], b[5]...),
			valid:  words[6] == "valid",
		})
	}
	if lines.Err() != nil || len(all) < 60 {
		t.Fatalf("%s: %d vectors, %v", name, len(all), lines.Err())
	}
	return all
}

func (v vector) check(t *testing.T, a cipher.AEAD, i int) {
	t.Helper()
	if got := a.Seal(nil, v.nonce, v.plain, v.aad); v.valid != bytes.Equal(got, v.sealed) {
		t.Errorf("vector %d: sealed %x, want %x (valid %v)", i, got, v.sealed, v.valid)
	}
	got, err := a.Open(nil, v.nonce, v.sealed, v.aad)
	if v.valid != (err == nil) || (v.valid && !bytes.Equal(got, v.plain)) {
		t.Errorf("vector %d: opened %x, %v, want %x (valid %v)", i, got, err, v.plain, v.valid)
	}
}

// TestEveryLength compares each length up to 70,000 with crypto/cipher, at places that do not agree with any alignment,
// with additional data of any length up to 300, apart and in place.
func TestEveryLength(t *testing.T) {
	forEachForm(t, func(t *testing.T, f form) {
		rng := rand.NewChaCha8([32]byte{byte(f)})
		random := rand.New(rng)
		key := make([]byte, KeySize)
		_, _ = rng.Read(key)
		ours, theirs := newAEAD(t, key, f), newAEAD(t, key, libraryForm)
		const most = 70_000
		memory, want := make([]byte, 2*most+1024), make([]byte, 0, most+Overhead)
		_, _ = rng.Read(memory)
		step := cases.Count(1, 37)
		for n := 0; n <= most; n += step {
			nonce, aad := memory[random.IntN(64):][:NonceSize], memory[random.IntN(64):][:random.IntN(301)]
			src := memory[512+random.IntN(64):][:n]
			want = theirs.Seal(want[:0], nonce, src, aad)
			out := memory[most+700+random.IntN(64):][:n+Overhead]
			if n%2 == 0 { // in place
				out = src[:n+Overhead]
			}
			if got := ours.Seal(out[:0], nonce, src, aad); !bytes.Equal(got, want) {
				t.Fatalf("%d bytes, %d of additional data: sealed bytes differ", n, len(aad))
			}
			back := memory[512+random.IntN(64):][:n]
			if n%2 == 0 {
				back = out[:n]
			}
			got, err := ours.Open(back[:0], nonce, out, aad)
			if err != nil {
				t.Fatalf("%d bytes, %d of additional data: %v", n, len(aad), err)
			}
			if again := theirs.Seal(nil, nonce, got, aad); n < 4096 && !bytes.Equal(again, want) {
				t.Fatalf("%d bytes: opened bytes differ", n)
			}
		}
	})
}

// TestForged: a bit changed anywhere in the message, the tag, the nonce or the additional data, a byte less: nothing is
// opened, and nothing of it stays in memory.
func TestForged(t *testing.T) {
	forEachForm(t, func(t *testing.T, f form) {
		a := newAEAD(t, []byte("0123456789abcdef"), f)
		for _, n := range []int{0, 1, 15, 16, 85, 255, 256, 257, 511, 512, 513, 1424, 9000} {
			nonce, aad, plain := make([]byte, NonceSize), make([]byte, 60), bytes.Repeat([]byte{7}, n)
			sealed := a.Seal(nil, nonce, plain, aad)
			for i, in := range [][]byte{sealed, nonce, aad} {
				for range 40 {
					at, bit := rand.IntN(len(in)), byte(1)<<rand.IntN(8)
					in[at] ^= bit
					out := bytes.Repeat([]byte{9}, n)
					got, err := a.Open(out[:0], nonce, sealed, aad)
					if err == nil || got != nil {
						t.Fatalf("%d bytes: opened with bit %d of byte %d of input %d changed", n, bit, at, i)
					}
					if bytes.IndexByte(out, 7) >= 0 {
						t.Fatalf("%d bytes: plaintext of a forged message stays in memory", n)
					}
					in[at] ^= bit
				}
			}
			if _, err := a.Open(nil, nonce, sealed[:len(sealed)-1], aad); err == nil {
				t.Errorf("%d bytes: opened without its last byte", n)
			}
			if _, err := a.Open(nil, nonce, sealed, aad); err != nil {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
	})
}

// TestRefusals: what a caller does wrong is refused as crypto/cipher refuses it, before anything is written.
func TestRefusals(t *testing.T) {
	if _, err := New(make([]byte, 24)); err == nil {
		t.Error("a key of 24 bytes is taken")
	}
	if _, err := newForm(make([]byte, KeySize), libraryForm+1); err == nil {
		t.Error("a form that there is not is taken")
	}
	forEachForm(t, func(t *testing.T, f form) {
		a := newAEAD(t, make([]byte, KeySize), f)
		b := make([]byte, 300)
		nonce := make([]byte, NonceSize)
		sealed := a.Seal(nil, nonce, b[:100], nil)
		for name, call := range map[string]func(){
			"nonce of 11":              func() { a.Seal(nil, nonce[:11], b, nil) },
			"nonce of 11, opening":     func() { _, _ = a.Open(nil, nonce[:11], sealed, nil) },
			"output within plaintext":  func() { a.Seal(b[10:10], nonce, b[:100], nil) },
			"output over the message":  func() { _, _ = a.Open(sealed[1:1], nonce, sealed, nil) },
			"output over the aad":      func() { a.Seal(b[:0], nonce, b[:16], b[16:20]) },
			"output over aad, opening": func() { _, _ = a.Open(b[:0], nonce, sealed, b[:20]) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: not refused", name)
					}
				}()
				call()
			}()
		}
	})
}

// TestNoGarbage: sealing and opening allocate nothing where there is room.
func TestNoGarbage(t *testing.T) {
	forEachForm(t, func(t *testing.T, f form) {
		a := newAEAD(t, make([]byte, KeySize), f)
		nonce, aad, plain := make([]byte, NonceSize), make([]byte, 40), make([]byte, 1424)
		sealed, back := make([]byte, 0, len(plain)+Overhead), make([]byte, 0, len(plain))
		if n := testing.AllocsPerRun(100, func() {
			sealed = a.Seal(sealed[:0], nonce, plain, aad)
			if _, err := a.Open(back, nonce, sealed, aad); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

// FuzzSeal holds each form to crypto/cipher.
func FuzzSeal(f *testing.F) {
	f.Add(make([]byte, KeySize+NonceSize), []byte("a message"), []byte("additional"))
	f.Add(bytes.Repeat([]byte{255}, KeySize+NonceSize), make([]byte, 600), []byte{})
	f.Fuzz(func(t *testing.T, secret, plain, aad []byte) {
		if len(secret) < KeySize+NonceSize {
			return
		}
		key, nonce := secret[:KeySize], secret[KeySize:][:NonceSize]
		want := newAEAD(t, key, libraryForm).Seal(nil, nonce, plain, aad)
		for f := wideForm; f < libraryForm; f++ {
			if !f.isSupported() {
				continue
			}
			a := newAEAD(t, key, f)
			if got := a.Seal(nil, nonce, plain, aad); !bytes.Equal(got, want) {
				t.Fatalf("%v: sealed bytes differ", f)
			}
			if got, err := a.Open(nil, nonce, want, aad); err != nil || !bytes.Equal(got, plain) {
				t.Fatalf("%v: opened bytes differ, %v", f, err)
			}
			if len(secret) > KeySize+NonceSize { // a message that somebody made up
				_, wrong := a.Open(nil, nonce, secret, aad)
				_, library := newAEAD(t, key, libraryForm).Open(nil, nonce, secret, aad)
				if (wrong == nil) != (library == nil) {
					t.Fatalf("%v: made-up message: %v, crypto/cipher: %v", f, wrong, library)
				}
			}
		}
	})
}
