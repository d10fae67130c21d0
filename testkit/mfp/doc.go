// Package mfp lays out MFPs (docs/format/mfp.md) for tests, independently of the code of the program.
//
// It is for tests alone; depguard keeps it out of everything else.
package mfp

import (
	"encoding/binary"

	"ringlet/event"
)

// A Fragment is the fragment of one event in an MFP.
type Fragment struct {
	Type  event.BankType
	Data  []byte
	Words event.Words
}

// Build makes the packet of the fragments; it computes h.NumFragments and h.Size, and h.Wide and h.Worded unless they
// are set.
func Build(h event.MFPHeader, fragments ...Fragment) []byte {
	h.NumFragments = len(fragments)
	for _, f := range fragments {
		h.Worded = h.Worded || f.Words.HasTrigger || f.Words.HasStamp
		h.Wide = h.Wide || h.Worded || len(f.Data) > event.MaxNarrowFragment
	}
	size, tables := event.MFPHeaderSize(h.NumFragments), event.MFPTables
	if h.Wide {
		size, tables = event.WideMFPHeaderSize(h.NumFragments), event.WideMFPTables
	}
	b := make([]byte, size)
	types, sizes := tables(b, h.NumFragments)
	for i, f := range fragments {
		types[i] = uint8(f.Type)
		if h.Wide {
			binary.LittleEndian.PutUint32(sizes[4*i:], uint32(len(f.Data)))
			continue
		}
		binary.LittleEndian.PutUint16(sizes[2*i:], uint16(len(f.Data)))
	}
	for _, f := range fragments {
		if h.Worded {
			b = appendWord(b, f.Words.HasTrigger, f.Words.Trigger)
			b = appendWord(b, f.Words.HasStamp, f.Words.Stamp)
		}
	}
	for _, f := range fragments {
		b = append(b, f.Data...)
		b = append(b, make([]byte, -len(f.Data)&(1<<h.Align-1))...)
	}
	h.Size = uint32(len(b))
	event.PutMFPHeader(b, h)
	return b
}

func appendWord(b []byte, has bool, word uint64) []byte {
	if !has {
		word = 1<<64 - 1
	}
	return binary.LittleEndian.AppendUint64(b, word)
}
