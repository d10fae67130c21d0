package event_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"ringlet/event"
	"ringlet/testkit/mfp"
	"ringlet/testkit/must"
)

// Each target holds: no panic; every view inside the input; what is accepted,
// built anew from the values read, is the input again, padding aside.

func FuzzParseBank(f *testing.F) {
	f.Add(hexFile(f, "bank.hex"))
	f.Add(hexFile(f, "replay-1.hex"))
	f.Fuzz(func(t *testing.T, b []byte) {
		walked := 0
		for c := event.NewBankCursor(b); c.Next(); {
			bank := c.Bank()
			inside(t, b, bank)
			built, err := event.AppendBank(nil, bank.Type(), bank.Version(), bank.SourceID(), bank.Data())
			must.OK(t, err)
			sameBytes(t, "bank", built[:bank.Length()], bank)
			if len(built) != len(c.RawBank()) || c.Offset() != walked {
				t.Fatalf("%d bytes built, %d stand there; offset %d, walked %d", len(built), len(c.RawBank()), c.Offset(), walked)
			}
			walked += len(c.RawBank())
		}
	})
}

func FuzzParseMFP(f *testing.F) {
	f.Add(hexFile(f, "mfp.hex"))
	f.Add(hexFile(f, "mfp-end.hex"))
	f.Add(hexFile(f, "mfp-wide.hex"))
	f.Add(hexFile(f, "mfp-worded.hex"))
	f.Add(set(27, 0x40)(hexFile(f, "mfp-wide.hex"))) // a size of a GiB and more
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := event.ParseMFP(b)
		first, n, same := event.MFPEvents(b)
		if (err == nil) != (same == nil) || err == nil && (first != p.FirstEvent() || n != p.NumFragments()) {
			t.Errorf("%d events from %d, %v; a view of them: %+v, %v", n, first, same, p, err)
		}
		if err != nil {
			return
		}
		inside(t, b, p.Bytes())
		var fragments []mfp.Fragment
		for c := p.Cursor(); c.Next(); {
			inside(t, b, c.Data())
			fragments = append(fragments, mfp.Fragment{Type: c.Type(), Data: c.Data(), Words: p.Words(c.Index())})
		}
		sameBytes(t, "packet", mfp.Build(event.MFPHeader{
			FirstEvent: p.FirstEvent(),
			Source:     p.Source(),
			Align:      p.Align(),
			Version:    p.Version(),
			Wide:       p.IsWide(),
			Worded:     p.IsWorded(),
		}, fragments...), zeroMFPPadding(p))
		types, sizes, data := make([]byte, n), make([]byte, 4*n), make([]byte, len(b))
		if size, ok := p.CopyFragments(types, sizes, data, 0, n, true); !ok || size > len(p.Bytes()) {
			t.Fatalf("%d bytes of %d copied: %v", size, len(p.Bytes()), ok)
		}
	})
}

func FuzzParseMEP(f *testing.F) {
	f.Add(hexFile(f, "mep.hex"))
	f.Add(hexFile(f, "mep-wide.hex"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := event.ParseMEP(b)
		if err != nil {
			return
		}
		inside(t, b, p.Bytes())
		var sources []uint16
		var offsets []uint32
		for i := range p.NumMFPs() {
			sources = append(sources, p.Source(i))
			offsets = append(offsets, uint32(p.Offset(i)/event.MEPWordBytes))
			if m, err := p.MFP(i); err == nil {
				inside(t, p.Bytes(), m.Bytes())
			}
		}
		header := dirty(event.MEPHeaderSize(p.NumMFPs()))
		if _, err := event.PutMEPHeader(header, sources, offsets, uint32(len(p.Bytes())/event.MEPWordBytes)); err != nil {
			t.Fatal(err)
		}
		want := bytes.Clone(p.Bytes()[:len(header)])
		if p.NumMFPs()%2 == 1 {
			clear(want[event.MEPFixedSize+2*p.NumMFPs():][:2])
		}
		sameBytes(t, "header", header, want)
		_ = p.Verify()
	})
}

func FuzzParseRecord(f *testing.F) {
	f.Add(hexFile(f, "mdf.hex"))
	f.Add(hexFile(f, "generated.hex"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := event.ParseRecord(b)
		if err != nil {
			return
		}
		inside(t, b, r)
		if r.Verify() != nil {
			return
		}
		c, err := r.Banks()
		must.OK(t, err)
		for c.Next() {
			inside(t, b, c.Bank())
		}
		if r.Version() == event.MDFVersion && r.HeaderSize() == event.MDFHeaderSize && r.StoredChecksum() != 0 {
			built, err := event.AppendRecord(nil, r.HeaderFields(), r.Payload())
			must.OK(t, err)
			sameBytes(t, "record", built, r)
		}
		if len(r) < event.MaxNarrowFragment {
			fragments := split(t, r, func(i int, _ event.Bank) uint16 { return uint16(i % 3) }, 3)
			rebuilt, err := new(event.Rebuilder).Append(nil, fragments)
			must.OK(t, err)
			sameBytes(t, "replayed", rebuilt, r)
		}
	})
}

func FuzzUnitReader(f *testing.F) {
	record := hexFile(f, "mdf.hex")
	f.Add(record)
	f.Add(bytes.Repeat(record, 3))
	f.Add(bytes.Repeat(hexFile(f, "mep.hex"), 3))
	f.Add(append(hexFile(f, "mfp.hex"), set(4, 1)(hexFile(f, "mfp.hex"))...))
	f.Add(append(set(4, 1)(bytes.Clone(record)), record...))
	f.Fuzz(func(t *testing.T, b []byte) {
		must.OK(t, agree(b))
		for _, format := range []string{event.FormatMEP, event.FormatMFP} { // every byte is in a packet or left out
			r, seen := event.NewUnitReader(bytes.NewReader(b), event.UnitReaderOptions{Format: format, MaxUnitBytes: 1 << 31}), 0
			for {
				unit, err := r.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				skipped, skipErr := r.Skip() // nothing, where none was refused
				must.OK(t, skipErr)
				if seen += len(unit) + int(skipped); err != nil && skipped == 0 {
					t.Fatalf("%s: no way past %v", format, err)
				}
			}
			if seen != len(b) {
				t.Fatalf("%s: %d of %d bytes", format, seen, len(b))
			}
		}
	})
}

func FuzzRebuildRecord(f *testing.F) {
	f.Add(hexFile(f, "replay-0.hex"), hexFile(f, "replay-1.hex"))
	f.Fuzz(func(t *testing.T, f0, f1 []byte) {
		built, err := new(event.Rebuilder).Append(nil, [][]byte{f0, f1})
		if err != nil {
			return
		}
		info, err := event.ParseRecordBank(f0)
		if err != nil || info.Size() != len(built) {
			t.Fatalf("rebuilt %d bytes of a record of %d: %v", len(built), info.Size(), err)
		}
	})
}
