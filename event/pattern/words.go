package pattern

import (
	"encoding/binary"
	"math/bits"
)

// The loops of this file are nearly the whole cost of generating and checking data: about one word a cycle. fillWords
// writes
//
//  1. whole groups of four words (unrolled, so that the additions overlap)
//  2. the remaining whole words
//  3. the last word, cut to the size: its remaining bytes are zero, and pad the fragment
//
// overfillWords needs more room behind the fragment, and omits step 2: it ends with a whole group.

// Multiples of the step between two words, modulo 2^64.
const (
	mask64           = 1<<64 - 1
	stepWord  uint64 = wordIncrement
	stepTwo   uint64 = 2 * wordIncrement & mask64
	stepThree uint64 = 3 * wordIncrement & mask64
	stepGroup uint64 = 4 * wordIncrement & mask64
)

// overfillBytes is how many bytes after a fragment overfillWords may change.
const overfillBytes = 32

// overfillWords does what fillWords does, but may write up to overfillBytes behind size: dst must have them, and the
// caller must overwrite them next. It writes whole groups and cuts the last word afterwards. The only branch that
// depends on the length is the end of the loop: a mispredicted branch costs as much as ten words. The bytes after size
// become zero up to a multiple of eight.
func overfillWords(dst []byte, size int, w uint64) {
	last := w + uint64(size/8)*stepWord
	for at := 0; at < size; at += 32 {
		group := dst[at : at+32 : at+32]
		binary.LittleEndian.PutUint64(group[0:8], w)
		binary.LittleEndian.PutUint64(group[8:16], w+stepWord)
		binary.LittleEndian.PutUint64(group[16:24], w+stepTwo)
		binary.LittleEndian.PutUint64(group[24:32], w+stepThree)
		w += stepGroup
	}
	binary.LittleEndian.PutUint64(dst[size&^7:], last&(1<<(8*uint(size&7))-1))
}

// fillWords writes the first size bytes of the sequence that begins with w to dst. If dst is longer, up to seven bytes
// after size become zero: they are padding, or the caller overwrites them next.
func fillWords(dst []byte, size int, w uint64) {
	body := dst[:size]
	for len(body) >= 32 {
		binary.LittleEndian.PutUint64(body[0:8], w)
		binary.LittleEndian.PutUint64(body[8:16], w+stepWord)
		binary.LittleEndian.PutUint64(body[16:24], w+stepTwo)
		binary.LittleEndian.PutUint64(body[24:32], w+stepThree)
		w += stepGroup
		body = body[32:]
	}
	for len(body) >= 8 {
		binary.LittleEndian.PutUint64(body[0:8], w)
		w += stepWord
		body = body[8:]
	}
	if len(body) == 0 {
		return
	}
	last := w & (1<<(8*uint(len(body))) - 1)
	if tail := dst[size-len(body):]; len(tail) >= 8 {
		binary.LittleEndian.PutUint64(tail[0:8], last)
		return
	}
	if size >= 8 { // one store writes the end of the word before once more, and the last bytes
		remainingBits := 8 * uint(len(body))
		binary.LittleEndian.PutUint64(dst[size-8:size], (w-stepWord)>>remainingBits|last<<(64-remainingBits))
		return
	}
	for i := range body {
		body[i] = byte(last >> (8 * i))
	}
}

// mismatch compares data with the sequence that begins with w. It returns the offset of the first byte that differs,
// the byte of the sequence and the byte of data; or -1. It combines the differences of a whole group, and searches the
// byte only if there is a difference.
func mismatch(data []byte, w uint64) (offset int, want, got byte) {
	body := data
	for len(body) >= 32 {
		d := binary.LittleEndian.Uint64(body[0:8]) ^ w
		d |= binary.LittleEndian.Uint64(body[8:16]) ^ (w + stepWord)
		d |= binary.LittleEndian.Uint64(body[16:24]) ^ (w + stepTwo)
		d |= binary.LittleEndian.Uint64(body[24:32]) ^ (w + stepThree)
		if d != 0 {
			break
		}
		w += stepGroup
		body = body[32:]
	}
	for len(body) >= 8 {
		if d := binary.LittleEndian.Uint64(body[0:8]) ^ w; d != 0 {
			at := bits.TrailingZeros64(d) / 8
			return len(data) - len(body) + at, byte(w >> (8 * at)), body[at]
		}
		w += stepWord
		body = body[8:]
	}
	for i, b := range body {
		if want := byte(w >> (8 * i)); b != want {
			return len(data) - len(body) + i, want, b
		}
	}
	return -1, 0, 0
}
