package pattern

import (
	"encoding/binary"
	"math/bits"
)

// The loops of this file are the whole cost of generating and of checking: about one word a cycle.
//
//  1. whole groups of four words (unrolled, so that the additions overlap)
//  2. the words left
//  3. the last word, cut to the size: its remaining bytes are zero, which pads the fragment at the same time
//
// Where more of the caller's buffer follows, overfill needs no second step: it ends with a whole group.

// Multiples of the step between two words, modulo 2^64.
const (
	mask64           = 1<<64 - 1
	stepWord  uint64 = wordIncrement
	stepTwo   uint64 = 2 * wordIncrement & mask64
	stepThree uint64 = 3 * wordIncrement & mask64
	stepGroup uint64 = 4 * wordIncrement & mask64
)

// overfillBytes is how many bytes after a fragment overfill may change.
const overfillBytes = 32

// overfillWords is fill for a dst that has 32 bytes more than size (behind), which the caller writes next. Whole groups
// are written, and the last word is cut afterwards: the length costs no branch but the end of the loop, and a branch
// that the processor guesses wrong costs as much as ten words. The bytes after size become zero up to a multiple of
// eight.
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

// fillWords writes the size bytes of the sequence that begins with w to dst. Where dst is longer, up to seven bytes
// after size become zero: the padding, or bytes the caller writes next.
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
	if size >= 8 { // the end of the word before once more, and the last bytes behind it
		remainingBits := 8 * uint(len(body))
		binary.LittleEndian.PutUint64(dst[size-8:size], (w-stepWord)>>remainingBits|last<<(64-remainingBits))
		return
	}
	for i := range body {
		body[i] = byte(last >> (8 * i))
	}
}

// mismatch compares data with the sequence that begins with w and returns the offset of the first byte that differs,
// with the byte wanted and the byte found; or -1. It adds up the differences of a whole group before it looks at them,
// and searches only if there are any.
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
