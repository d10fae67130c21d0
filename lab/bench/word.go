package bench

import "encoding/binary"

// The words that the patterns write. Each word of 8 bytes tells its writer, its write, and its place in the write: a
// word of another write, another sender or another place differs, and so does memory that was never written.

const (
	wordSize     = 8
	wordSpread   = 0x9e3779b97f4a7c15 // 2^64 over the golden ratio; odd, so that different words stay different
	wordSequence = 1<<40 - 1          // mask of a sequence number; at 10 M writes/s it lasts a day
)

// word is the word at an index of a write.
func word(source int, seq uint64, index int) uint64 {
	return (uint64(source+1)<<56 | (seq&wordSequence)<<16 | uint64(index)) * wordSpread
}

// decodeWord is the inverse of word. A source below 0 means that the word is of no flow.
func decodeWord(w uint64) (source int, seq uint64, index int) {
	const back = 0xf1de83e19937733d // back × wordSpread = 1 modulo 2^64
	w *= back
	return int(w>>56) - 1, w >> 16 & wordSequence, int(w & 0xffff)
}

// fillWords makes the words of a write.
func fillWords(b []byte, source int, seq uint64) {
	for i := 0; i+wordSize <= len(b); i += wordSize {
		binary.LittleEndian.PutUint64(b[i:], word(source, seq, i/wordSize))
	}
}

// countWrong counts the words that differ from those of a write.
func countWrong(b []byte, source int, seq uint64) (n int) {
	for i := 0; i+wordSize <= len(b); i += wordSize {
		if binary.LittleEndian.Uint64(b[i:]) != word(source, seq, i/wordSize) {
			n++
		}
	}
	return n
}
