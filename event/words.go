package event

import "encoding/binary"

// Words are what else a front-end may say of a fragment. In a worded MFP the value 2^64-1 stands for none.
type Words struct {
	HasTrigger, HasStamp bool
	Trigger              uint64 // number of the trigger
	Stamp                uint64 // ns since 1970, UTC
}

const (
	wordBytes = 16        // of a fragment in the table of words
	noWord    = 1<<64 - 1 // there is none
)

// WordedMFPHeaderSize is MFPHeaderSize for a worded packet.
func WordedMFPHeaderSize(n int) int { return mfpHeaderSize(n, true) + wordBytes*n }

// WordsTable gives the table of words of a worded packet of n fragments at the start of dst, which must hold
// WordedMFPHeaderSize(n) bytes. PutWords fills it.
func WordsTable(dst []byte, n int) []byte {
	return dst[mfpHeaderSize(n, true):WordedMFPHeaderSize(n):WordedMFPHeaderSize(n)]
}

// PutWords writes the words of fragment i to a table.
func PutWords(table []byte, i int, w Words) {
	trigger, stamp := uint64(noWord), uint64(noWord)
	if w.HasTrigger {
		trigger = w.Trigger
	}
	if w.HasStamp {
		stamp = w.Stamp
	}
	binary.LittleEndian.PutUint64(table[wordBytes*i:], trigger)
	binary.LittleEndian.PutUint64(table[wordBytes*i+8:], stamp)
}

// IsWorded says whether fragments of the packet may have words.
func (p MFP) IsWorded() bool { return p.worded }

// Words are those of fragment i. It panics unless 0 ≤ i < N.
func (p MFP) Words(i int) (w Words) {
	if !p.worded {
		_ = p.types()[i]
		return w
	}
	b := p.b[p.data-wordBytes*(p.fragmentCount-i) : p.data : p.data]
	w.Trigger, w.Stamp = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	w.HasTrigger, w.HasStamp = w.Trigger != noWord, w.Stamp != noWord
	if !w.HasTrigger {
		w.Trigger = 0
	}
	if !w.HasStamp {
		w.Stamp = 0
	}
	return w
}
