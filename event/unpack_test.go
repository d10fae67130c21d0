package event_test

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"testing"

	"ringlet/event"
	"ringlet/testkit/must"
	"ringlet/testkit/rootzip"
)

// packedRecord is a record whose payload is a block.
func packedRecord(tb must.TB, block []byte) []byte {
	tb.Helper()
	b, err := event.AppendRecord(nil, event.MDFHeader{Compression: 6, DataType: event.MDFTypeBanks, Run: 7}, block)
	must.OK(tb, err)
	return b
}

// plainRecord has banks that compress well, n times 100 bytes.
func plainRecord(tb must.TB, n int) event.Record {
	tb.Helper()
	var banks []byte
	for i := range n {
		var err error
		banks, err = event.AppendBank(banks, 9, 1, int16(i%7), bytes.Repeat([]byte{byte(i), 2}, 46))
		must.OK(tb, err)
	}
	b, err := event.AppendRecord(nil, event.MDFHeader{DataType: event.MDFTypeBanks, Run: 7}, banks)
	must.OK(tb, err)
	return b
}

func TestCompressedRecordsAreUnpacked(t *testing.T) {
	var file []byte
	var want []event.Record
	for i, pack := range rootzip.Packers() {
		plain := plainRecord(t, 1+3000*i)
		want = append(want, plain)
		file = append(file, packedRecord(t, pack(t, plain.Payload()))...)
	}
	c := event.NewMDFCursor(file, true)
	r := event.NewUnitReader(bytes.NewReader(file), event.UnitReaderOptions{Verify: true})
	for i, plain := range want {
		_, err := c.Next()
		must.OK(t, err)
		sameBytes(t, "record of the cursor", c.Unpacked(), plain)
		unit, err := r.Next()
		must.OK(t, err)
		var buf []byte
		got, err := event.Record(unit).Unpacked(&buf)
		must.OK(t, err)
		sameBytes(t, "record of the reader", got, plain)
		banks, err := event.Record(unit).Banks()
		must.OK(t, err)
		n := 0
		for banks.Next() {
			n++
		}
		if banks.Err() != nil || n != 1+3000*i {
			t.Errorf("record %d: %d banks, %v", i, n, banks.Err())
		}
	}
}

// TestUnpackedKeepsNoChecksumWhereNoneIs: a checksum that is made up would promise what nobody has looked at.
func TestUnpackedKeepsNoChecksumWhereNoneIs(t *testing.T) {
	b := packedRecord(t, rootzip.Zlib(t, plainRecord(t, 2).Payload()))
	clear(b[12:16])
	var buf []byte
	r, err := event.Record(b).Unpacked(&buf)
	if err != nil || r.StoredChecksum() != 0 {
		t.Errorf("checksum %x, %v", r.StoredChecksum(), err)
	}
}

func TestRecordWithoutCompressionIsItself(t *testing.T) {
	for _, code := range []byte{0, 0x30} { // the upper bits are a guess of the gain
		b := plainRecord(t, 3)
		b[16] = code
		var buf []byte
		if r, err := b.Unpacked(&buf); err != nil || &r[0] != &b[0] || buf != nil {
			t.Errorf("compression %#x: %d bytes, %v", code, len(buf), err)
		}
	}
}

// TestRefuseCompressed spoils a block of each kind in turn.
func TestRefuseCompressed(t *testing.T) {
	said := func(add int) func([]byte) []byte {
		return func(b []byte) []byte { add24(b[6:], add); return b }
	}
	cases := []struct {
		what  string
		spoil func([]byte) []byte
		kinds []error
	}{
		{"more than was said", said(-1), []error{event.ErrSize, event.ErrPacked}},
		{"less than was said", said(+1), []error{event.ErrTruncated}},
		{"far less than was said", said(9 << 20), []error{event.ErrTruncated}},
		{"cut", func(b []byte) []byte { // whole by its own account
			cut := len(b) / 3
			add24(b[3:], -cut)
			return b[:len(b)-cut]
		}, []error{event.ErrTruncated, event.ErrPacked}},
		{"longer than the record", func(b []byte) []byte { add24(b[3:], 1); return b }, []error{event.ErrSize}},
		{"shorter than the record", func(b []byte) []byte { return append(b, 0) }, []error{event.ErrSize}},
		{"no block", func(b []byte) []byte { return b[:8] }, []error{event.ErrTruncated}},
		{"nothing of a block", func(b []byte) []byte { clear(b[3:6]); return b[:9] },
			[]error{event.ErrTruncated, event.ErrPacked}},
		{"an unknown kind", func(b []byte) []byte { b[0] = '?'; return b }, []error{event.ErrUnsupported}},
		{"the kind of old", func(b []byte) []byte { copy(b, "CS"); return b }, []error{event.ErrUnsupported}},
		{"zeros", func(b []byte) []byte { clear(b[9:]); return b }, []error{event.ErrPacked}},
	}
	for i, pack := range rootzip.Packers() {
		for _, c := range cases {
			err := event.Record(packedRecord(t, c.spoil(pack(t, plainRecord(t, 3000).Payload())))).CheckBanks()
			if !slices.ContainsFunc(c.kinds, func(kind error) bool { return errors.Is(err, kind) }) {
				t.Errorf("packer %d, %s: %v", i, c.what, err)
			}
			if testing.Verbose() {
				t.Log(err)
			}
		}
	}
	b := packedRecord(t, rootzip.Zlib(t, nil))
	b[16] = 10
	wantFormatError(t, event.Record(b).CheckBanks(), event.ErrUnsupported, "compression", 16)
}

// add24 adds to a number of three bytes.
func add24(b []byte, n int) {
	n += int(b[0]) | int(b[1])<<8 | int(b[2])<<16
	b[0], b[1], b[2] = byte(n), byte(n>>8), byte(n>>16)
}

// TestLZMATrustsNoDictionary: a header that claims 4 GiB costs what the record says that it has.
func TestLZMATrustsNoDictionary(t *testing.T) {
	plain := plainRecord(t, 30)
	block := rootzip.LZMA(t, plain.Payload())
	const head, flags, dictionary = 9, 12, 4
	block[head+flags+dictionary] = 40
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var buf []byte
	got, err := event.Record(packedRecord(t, block)).Unpacked(&buf)
	runtime.ReadMemStats(&after)
	must.OK(t, err)
	sameBytes(t, "record", got, plain)
	if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20 {
		t.Errorf("%d bytes were allocated", n)
	}
}

func FuzzUnpacked(f *testing.F) {
	for _, pack := range rootzip.Packers() {
		f.Add(pack(f, plainRecord(f, 5).Payload()))
	}
	f.Fuzz(func(t *testing.T, block []byte) {
		var buf []byte
		r := event.Record(packedRecord(t, block))
		got, err := r.Unpacked(&buf)
		if err != nil {
			return
		}
		size := int(block[6]) | int(block[7])<<8 | int(block[8])<<16
		if len(got) != r.HeaderSize()+size {
			t.Fatalf("%d bytes behind the header, %d were said", len(got)-r.HeaderSize(), size)
		}
		if again, err := event.ParseRecord(got); err != nil || again.CheckChecksum() != nil {
			t.Fatalf("what came out is no record: %v", err)
		}
	})
}
