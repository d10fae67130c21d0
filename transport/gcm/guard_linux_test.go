package gcm

import (
	"testing"

	"ringlet/testkit/guarded"
)

// TestNothingBeyond: input and output end where memory ends, and begin where it begins: a byte read or written beyond
// them would end the process.
func TestNothingBeyond(t *testing.T) {
	in, out, extra := guarded.Pages(t, 2), guarded.Pages(t, 2), guarded.Pages(t, 2)
	forEachForm(t, func(t *testing.T, f form) {
		a := newAEAD(t, make([]byte, KeySize), f)
		nonce := extra[:NonceSize]
		for n := range 1200 {
			for _, end := range []bool{true, false} {
				src, dst, aad := in[:n], out[:0:n+Overhead], extra[:n%200]
				if end {
					src, dst, aad = in[len(in)-n:], out[len(out)-n-Overhead:][:0], extra[len(extra)-n%200:]
				}
				sealed := a.Seal(dst, nonce, src, aad)
				if _, err := a.Open(src[:0], nonce, sealed, aad); err != nil {
					t.Fatal(n, err)
				}
				checkApart(t, a, src, dst, aad, nonce)
			}
		}
	})
}

// checkApart seals and opens a message of which the first bytes lie elsewhere, and peeks at bytes that nothing follows.
func checkApart(t *testing.T, a AEAD, src, dst, aad, nonce []byte) {
	t.Helper()
	if len(src) < FirstSize {
		return
	}
	first, rest, sealed := (*[FirstSize]byte)(src), src[FirstSize:], dst[:len(src)+Overhead]
	a.SealApart(sealed, nonce, first, rest, aad)
	if err := a.OpenApart(rest, nonce, sealed, aad); err != nil {
		t.Fatal(len(src), err)
	}
	var peeked [FirstSize]byte
	a.Peek(&peeked, nonce, src[len(src)-FirstSize:])
}
