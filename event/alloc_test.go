package event_test

import (
	"bytes"
	"testing"

	"ringlet/event"
)

var sink uint64 // keeps results alive in tests of allocation and benchmarks

// TestNoAllocations holds all that runs per packet or per fragment at zero.
func TestNoAllocations(t *testing.T) {
	mfp, mep, record := hexFile(t, "mfp.hex"), hexFile(t, "mep.hex"), hexFile(t, "mdf.hex")
	fragments := [][]byte{hexFile(t, "replay-0.hex"), hexFile(t, "replay-1.hex")}
	dst := make([]byte, 0, 4096)
	buf := make([]byte, 4096)
	sources, offsets := []uint16{3, 7, 256}, []uint32{7, 17, 24}
	var rb event.Rebuilder
	generated := []event.SourceFragment{{Type: 9, Data: mfp}}

	for name, f := range map[string]func() error{
		"ParseMFP, All and Cursor": func() error {
			p, err := event.ParseMFP(mfp)
			for i, data := range p.Fragments() {
				sink += uint64(i + len(data) + len(p.Fragment(i)))
			}
			for c := p.Cursor(); c.Next(); {
				sink += c.Event() + uint64(len(c.Data()))
			}
			return err
		},
		"ParseMEP, MFPs and Verify": func() error {
			p, err := event.ParseMEP(mep)
			for m, err := range p.MFPs() {
				if err != nil {
					return err
				}
				sink += uint64(m.NumFragments())
			}
			if err != nil {
				return err
			}
			return p.Verify()
		},
		"ParseRecord, Banks and Verify": func() error {
			r, err := event.ParseRecord(record)
			for b, err := range event.Banks(r.Payload()) {
				if err != nil {
					return err
				}
				sink += uint64(b.Length())
			}
			if err != nil {
				return err
			}
			return r.Verify()
		},
		"MDFCursor": func() error {
			c := event.NewMDFCursor(record, true)
			_, err := c.Next()
			return err
		},
		"PutMEPHeader": func() error { _, err := event.PutMEPHeader(buf, sources, offsets, 31); return err },
		"Rebuilder":    func() error { _, err := rb.Append(dst, fragments); return err },
		"AppendRecordFromFragments": func() error {
			_, err := event.AppendRecordFromFragments(dst, event.MDFHeader{}, generated)
			return err
		},
	} {
		if err := f(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n := testing.AllocsPerRun(100, func() { _ = f() }); n != 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
	}
}

// TestUnitReaderAllocatesOnlyItsBuffer: a thousand records cost what one does.
func TestUnitReaderAllocatesOnlyItsBuffer(t *testing.T) {
	file := bytes.Repeat(hexFile(t, "mdf.hex"), 1000)
	r := event.NewUnitReader(bytes.NewReader(file), event.UnitReaderOptions{Verify: true})
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(900, func() { _, _ = r.Next() }); n != 0 {
		t.Errorf("%v allocations a record, want none", n)
	}
}
