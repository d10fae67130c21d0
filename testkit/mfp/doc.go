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
	Type event.BankType
	Data []byte
}

// Build makes the packet of the fragments; it computes h.NumFragments and h.Size.
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
