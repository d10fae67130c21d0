// Package mfp lays out MFPs for tests, as docs/format/mfp.md has them. The program makes its own with pattern.FillMFP.
//
// It is for tests alone; depguard keeps it out of everything else.
package mfp

import (
	"encoding/binary"

	"ringlet/event"
)

// A Fragment is what an MFP holds of one event.
type Fragment struct {
	Type event.BankType
	Data []byte
}

// Build gives the packet of the fragments; h.N and h.Size follow from them.
func Build(h event.MFPHeader, fragments ...Fragment) []byte {
	h.NumFragments = len(fragments)
	b := make([]byte, event.MFPHeaderSize(h.NumFragments))
	types, sizes := event.MFPTables(b, h.NumFragments)
	for i, f := range fragments {
		types[i] = uint8(f.Type)
		binary.LittleEndian.PutUint16(sizes[2*i:], uint16(len(f.Data)))
	}
	for _, f := range fragments {
		b = append(b, f.Data...)
		b = append(b, make([]byte, -len(f.Data)&(1<<h.Align-1))...)
	}
	h.Size = uint32(len(b))
	event.PutMFPHeader(b, h)
	return b
}
