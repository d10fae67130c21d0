package event_test

import (
	"testing"

	"ringlet/event"
	"ringlet/testkit/mfp"
	"ringlet/testkit/must"
)

func TestGoldenBank(t *testing.T) {
	golden := hexFile(t, "bank.hex")
	b, err := event.ParseBank(append(golden, 0xFF, 0xFF))
	must.OK(t, err)
	if b.Length() != 11 || b.PaddedSize() != 12 || b.Type() != 16 || b.Version() != 7 ||
		b.SourceID() != -4091 {
		t.Errorf("length %d, padded %d, type %v, version %d, source %d",
			b.Length(), b.PaddedSize(), b.Type(), b.Version(), b.SourceID())
	}
	sameBytes(t, "data", b.Data(), []byte{0xAA, 0xBB, 0xCC})
	built, err := event.AppendBank(nil, 16, 7, -4091, []byte{0xAA, 0xBB, 0xCC})
	must.OK(t, err)
	sameBytes(t, "built", built, golden)
}

func TestGoldenMFP(t *testing.T) {
	golden := hexFile(t, "mfp.hex")
	p, err := event.ParseMFP(append(golden, 0xFF))
	must.OK(t, err)
	if p.NumFragments() != 3 || p.Size() != 48 || p.FirstEvent() != 1000 || p.Source() != 0x0102 ||
		p.Align() != 3 || p.Version() != 5 || p.IsEndOfRun() {
		t.Errorf("n %d, size %d, first %d, source %d, align %d, version %d",
			p.NumFragments(), p.Size(), p.FirstEvent(), p.Source(), p.Align(), p.Version())
	}
	fragments := [][]byte{{1, 2, 3, 4, 5}, {}, {0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18}}
	types := []event.BankType{9, 77, event.FragmentMissing}
	c := p.Cursor()
	for i, data := range p.Fragments() {
		if !c.Next() || c.Index() != i || c.Event() != 1000+uint64(i) || c.Type() != types[i] {
			t.Errorf("the cursor disagrees with All at fragment %d", i)
		}
		sameBytes(t, "All", data, fragments[i])
		sameBytes(t, "Cursor", c.Data(), fragments[i])
		sameBytes(t, "Fragment", p.Fragment(i), fragments[i])
		if p.FragmentSize(i) != len(fragments[i]) || p.FragmentType(i) != types[i] {
			t.Errorf("fragment %d: size %d, type %v", i, p.FragmentSize(i), p.FragmentType(i))
		}
	}
	if c.Next() {
		t.Error("the cursor goes on after the last fragment")
	}

	whole := make([]mfp.Fragment, len(fragments))
	for i := range fragments {
		whole[i] = mfp.Fragment{Type: types[i], Data: fragments[i]}
	}
	sameBytes(t, "built", mfp.Build(event.MFPHeader{
		FirstEvent: 1000,
		Source:     0x0102,
		Align:      3,
		Version:    5,
	}, whole...), golden)
}

func TestGoldenWideMFP(t *testing.T) {
	golden := hexFile(t, "mfp-wide.hex")
	p, err := event.ParseMFP(append(golden, 0xFF))
	must.OK(t, err)
	if p.NumFragments() != 3 || p.Size() != 52 || p.FirstEvent() != 1000 || p.Source() != 0x0102 || p.Align() != 3 ||
		p.Version() != 5 || !p.IsWide() {
		t.Errorf("n %d, size %d, first %d, source %d, align %d, version %d, wide %v", p.NumFragments(), p.Size(),
			p.FirstEvent(), p.Source(), p.Align(), p.Version(), p.IsWide())
	}
	fragments := [][]byte{{1, 2, 3, 4, 5}, {}, {0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18}}
	types := []event.BankType{9, 77, event.FragmentMissing}
	whole, c := []mfp.Fragment(nil), p.Cursor()
	for i, data := range p.Fragments() {
		if !c.Next() || c.Index() != i || c.Event() != 1000+uint64(i) || c.Type() != types[i] ||
			p.FragmentSize(i) != len(fragments[i]) {
			t.Errorf("the cursor disagrees with Fragments at fragment %d", i)
		}
		sameBytes(t, "Fragments", data, fragments[i])
		sameBytes(t, "Cursor", c.Data(), fragments[i])
		sameBytes(t, "Fragment", p.Fragment(i), fragments[i])
		whole = append(whole, mfp.Fragment{Type: types[i], Data: data})
	}
	if c.Next() {
		t.Error("the cursor goes on after the last fragment")
	}
	h := event.MFPHeader{FirstEvent: 1000, Source: 0x0102, Align: 3, Version: 5, Wide: true}
	sameBytes(t, "built", mfp.Build(h, whole...), golden)
	set(27, 0x40)(golden) // the highest byte of the first size: 1 GiB and 5 bytes
	_, err = event.ParseMFP(golden)
	wantFormatError(t, err, event.ErrRange, "fragment size", 24)
}

func TestGoldenMEPOfBothKinds(t *testing.T) {
	p, err := event.ParseMEP(hexFile(t, "mep-wide.hex"))
	must.OK(t, err)
	must.OK(t, p.Verify())
	for i, want := range []bool{false, true} {
		f, err := p.MFP(i)
		must.OK(t, err)
		if f.IsWide() != want || string(f.Fragment(0)) != "abc" {
			t.Errorf("MFP %d: wide %v, fragment %q", i, f.IsWide(), f.Fragment(0))
		}
	}
}

func TestGoldenMFPByTables(t *testing.T) {
	golden := hexFile(t, "mfp.hex")
	buf := make([]byte, 48)
	event.PutMFPHeader(buf, event.MFPHeader{
		NumFragments: 3,
		Size:         48,
		FirstEvent:   1000,
		Source:       0x0102,
		Align:        3,
		Version:      5,
	})
	types, sizes := event.MFPTables(buf, 3)
	copy(types, []byte{9, 77, 92})
	copy(sizes, []byte{5, 0, 0, 0, 8, 0})
	copy(buf[event.MFPHeaderSize(3):], []byte{1, 2, 3, 4, 5})
	copy(buf[event.MFPHeaderSize(3)+8:], []byte{0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18})
	sameBytes(t, "written by tables", buf, golden)
}

func TestGoldenEndOfRun(t *testing.T) {
	golden := hexFile(t, "mfp-end.hex")
	p, err := event.ParseMFP(golden)
	must.OK(t, err)
	if c := p.Cursor(); c.Next() || !p.IsEndOfRun() || p.NumFragments() != 0 || p.Source() != 7 {
		t.Errorf("end of run %v, n %d, source %d", p.IsEndOfRun(), p.NumFragments(), p.Source())
	}
	built := make([]byte, event.MFPFixedSize)
	event.PutMFPHeader(built, event.MFPHeader{Size: event.MFPFixedSize, FirstEvent: event.EndOfRun, Source: 7})
	sameBytes(t, "built", built, golden)
}

func TestGoldenMEP(t *testing.T) {
	golden := hexFile(t, "mep.hex")
	p, err := event.ParseMEP(append(golden, 0xFF))
	must.OK(t, err)
	if p.NumMFPs() != 3 || len(p.Bytes()) != 124 {
		t.Errorf("n %d, %d bytes", p.NumMFPs(), len(p.Bytes()))
	}
	if err := p.Verify(); err != nil {
		t.Error(err)
	}
	sources, offsets := []uint16{3, 7, 256}, []uint32{7, 17, 24}
	i := 0
	for f, err := range p.MFPs() {
		must.OK(t, err)
		if p.Source(i) != sources[i] || f.Source() != sources[i] || p.Offset(i) != 4*int(offsets[i]) || f.FirstEvent() != 9 {
			t.Errorf("MFP %d: source %d, %d, offset %d, first event %d", i, p.Source(i), f.Source(), p.Offset(i), f.FirstEvent())
		}
		i++
	}
	header := dirty(64)
	n, err := event.PutMEPHeader(header, sources, offsets, 31)
	must.OK(t, err)
	sameBytes(t, "header", header[:n], golden[:28])
	if n != event.MEPHeaderSize(3) {
		t.Errorf("the header has %d bytes, MEPHeaderSize says %d", n, event.MEPHeaderSize(3))
	}
}

func TestGoldenMDF(t *testing.T) {
	golden := hexFile(t, "mdf.hex")
	r, err := event.ParseRecord(append(golden, 0xFF))
	must.OK(t, err)
	want := event.MDFHeader{
		Size:        88,
		Checksum:    0xE3DE8374,
		DataType:    event.MDFTypeBanks,
		TriggerMask: [4]uint32{0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD, 0xFFFFFFFC},
		Run:         6718861,
		Orbit:       10,
		Bunch:       3562,
	}
	if got := r.HeaderFields(); got != want {
		t.Errorf("header %+v, want %+v", got, want)
	}
	if r.Version() != 3 || r.HeaderSize() != 48 || r.Size() != 88 || r.Run() != 6718861 {
		t.Errorf("version %d, header %d bytes, size %d, run %d", r.Version(), r.HeaderSize(), r.Size(), r.Run())
	}
	if err := r.Verify(); err != nil {
		t.Error(err)
	}
	built, err := event.AppendRecord(nil, want, golden[48:])
	must.OK(t, err)
	sameBytes(t, "built", built, golden)
}

func TestGoldenReplay(t *testing.T) {
	golden := hexFile(t, "mdf.hex")
	fragments := [][]byte{hexFile(t, "replay-0.hex"), hexFile(t, "replay-1.hex")}
	built, err := new(event.Rebuilder).Append([]byte{1, 2}, fragments)
	must.OK(t, err)
	sameBytes(t, "rebuilt", built, append([]byte{1, 2}, golden...))

	r, err := event.ParseRecord(golden)
	must.OK(t, err)
	cabling := []uint16{0, 1, 1, 0}
	for i, f := range split(t, r, func(i int, _ event.Bank) uint16 { return cabling[i] }, 2) {
		sameBytes(t, "split", f, fragments[i])
	}
}

func TestGoldenGenerated(t *testing.T) {
	built, err := event.AppendRecordFromFragments(nil, event.MDFHeader{
		Run:         42,
		Orbit:       7,
		Bunch:       5,
		Compression: 9,
	},
		[]event.SourceFragment{
			{Type: 9, Version: 2, Source: 1, Data: []byte{1, 2, 3, 4, 5}},
			{Type: 77, Source: 0xFFFE},
		})
	must.OK(t, err)
	sameBytes(t, "built", built, hexFile(t, "generated.hex"))
}

// dirty is a buffer of rubbish, to show that padding is really written.
func dirty(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 0xEE
	}
	return b
}

// TestWalksMayEndEarly: whoever has seen enough leaves a walk, and is not asked again.
func TestWalksMayEndEarly(t *testing.T) {
	p, err := event.ParseMEP(hexFile(t, "mep.hex"))
	must.OK(t, err)
	mfps, fragments, banks := 0, 0, 0
	for m, err := range p.MFPs() {
		must.OK(t, err)
		for range m.Fragments() {
			fragments++
			break
		}
		mfps++
		break
	}
	for _, err := range event.Banks(append(hexFile(t, "bank.hex"), hexFile(t, "bank.hex")...)) {
		must.OK(t, err)
		banks++
		break
	}
	if mfps != 1 || fragments != 1 || banks != 1 {
		t.Errorf("%d MFPs, %d fragments, %d banks seen", mfps, fragments, banks)
	}
}
