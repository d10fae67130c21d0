package event_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"ringlet/event"
)

// Each case spoils one thing in a golden file; the error must name it.
type spoiled struct {
	name   string
	spoil  func(b []byte) []byte
	kind   error
	field  string
	offset int64
}

func set(at int, v ...byte) func([]byte) []byte {
	return func(b []byte) []byte { copy(b[at:], v); return b }
}

func cut(n int) func([]byte) []byte {
	return func(b []byte) []byte { return b[:n] }
}

func refuse(t *testing.T, golden string, parse func([]byte) error, cases []spoiled) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			wantFormatError(t, parse(c.spoil(hexFile(t, golden))), c.kind, c.field, c.offset)
		})
	}
}

// verified parses and then verifies.
func verified[P interface{ Verify() error }](parse func([]byte) (P, error)) func([]byte) error {
	return func(b []byte) error {
		p, err := parse(b)
		if err != nil {
			return err
		}
		return p.Verify()
	}
}

func TestRefuseBank(t *testing.T) {
	parse := func(b []byte) error { _, err := event.ParseBank(b); return err }
	refuse(t, "bank.hex", parse, []spoiled{
		{"nothing", cut(0), event.ErrTruncated, "header", 0},
		{"half a header", cut(7), event.ErrTruncated, "header", 0},
		{"magic", set(1, 0), event.ErrMagic, "magic", 0},
		{"length below the header", set(2, 7), event.ErrSize, "length", 2},
		{"length beyond the input", set(2, 13), event.ErrTruncated, "length", 2},
		{"padding missing", cut(11), event.ErrTruncated, "length", 2},
	})
	for _, err := range event.Banks(hexFile(t, "bank.hex")[:11]) {
		wantFormatError(t, err, event.ErrTruncated, "length", 2)
	}
	long := make([]byte, event.MaxBankData+1)
	_, err := event.AppendBank(nil, 9, 0, 1, long)
	wantFormatError(t, err, event.ErrRange, "length", 2)
	if b, err := event.AppendBank(nil, 9, 0, 1, long[1:]); err != nil || len(b) != 1<<16 {
		t.Errorf("the largest bank: %d bytes, %v", len(b), err)
	}
}

func TestRefuseMFP(t *testing.T) {
	parse := func(b []byte) error { _, err := event.ParseMFP(b); return err }
	refuse(t, "mfp.hex", parse, []spoiled{
		{"nothing", cut(0), event.ErrTruncated, "header", 0},
		{"half a header", cut(19), event.ErrTruncated, "header", 0},
		{"magic", set(0, 0), event.ErrMagic, "magic", 0},
		{"size below the header", set(4, 31), event.ErrSize, "packet size", 4},
		{"size beyond the input", set(4, 49), event.ErrTruncated, "packet size", 4},
		{"size of 4 GiB", set(4, 255, 255, 255, 255), event.ErrTruncated, "packet size", 4},
		{"size beyond the fragments", func(b []byte) []byte { b[4] = 52; return append(b, 0, 0, 0, 0) }, event.ErrSize,
			"packet size", 4},
		{"a fragment too large", set(28, 9), event.ErrSize, "packet size", 4},
		{"the largest fragment", set(28, 255, 255), event.ErrSize, "packet size", 4},
		{"too many fragments", set(2, 255, 255), event.ErrSize, "packet size", 4},
		{"align", set(18, 17), event.ErrRange, "align", 18},
		{"align beyond 64 bits", set(18, 255), event.ErrRange, "align", 18},
		{"into the end of run", set(8, 0xFD, 255, 255, 255, 255, 255, 255, 255), event.ErrRange, "first event id", 8},
	})
}

func TestRefuseMEP(t *testing.T) {
	parse := verified(event.ParseMEP)
	refuse(t, "mep.hex", parse, []spoiled{
		{"nothing", cut(0), event.ErrTruncated, "header", 0},
		{"magic", set(0, 0), event.ErrMagic, "magic", 0},
		{"size below the header", set(4, 6), event.ErrSize, "total size", 4},
		{"size beyond the input", set(4, 32), event.ErrTruncated, "total size", 4},
		{"size of 16 GiB", set(4, 255, 255, 255, 255), event.ErrTruncated, "total size", 4},
		{"size cuts the last MFP", set(4, 30), event.ErrSize, "MFP size", 100},
		{"sources unsorted", set(10, 2), event.ErrOrder, "source id", 10},
		{"sources equal", set(10, 3), event.ErrOrder, "source id", 10},
		{"source not that of the MFP", set(10, 6), event.ErrOrder, "MFP source id", 84},
		{"offset in the header", set(16, 6), event.ErrOrder, "offset", 16},
		{"offset overlaps", set(20, 14), event.ErrOrder, "offset", 20},
		{"offset beyond the end", set(24, 31), event.ErrSize, "offset", 24},
		{"offset of 16 GiB", set(24, 255, 255, 255, 255), event.ErrSize, "offset", 24},
		{"offset not at an MFP", set(20, 16), event.ErrMagic, "MFP magic", 64},
		{"MFP overlaps the next", set(72, 32), event.ErrOrder, "offset", 24},
		{"MFP beyond the end", set(100, 29), event.ErrSize, "MFP size", 100},
		{"MFP smaller than a header", set(100, 19), event.ErrSize, "MFP size", 100},
		{"MFP bad inside", set(120, 1), event.ErrSize, "packet size", 100},
		{"other first event", set(76, 8), event.ErrOrder, "event range", 76},
	})
}

func TestRefuseToWriteMEP(t *testing.T) {
	buf := make([]byte, 28)
	put := func(dst []byte, sources []uint16, offsets []uint32, words uint32) error {
		_, err := event.PutMEPHeader(dst, sources, offsets, words)
		return err
	}
	s, o := []uint16{3, 7, 256}, []uint32{7, 17, 24}
	wantFormatError(t, put(buf[:27], s, o, 31), event.ErrRange, "header", 0)
	wantFormatError(t, put(buf, s, o[:2], 31), event.ErrRange, "number of MFPs", 2)
	wantFormatError(t, put(buf, s, o, 6), event.ErrSize, "total size", 4)
	wantFormatError(t, put(buf, s, o, 24), event.ErrSize, "offset", 24)
	wantFormatError(t, put(buf, s, []uint32{6, 17, 24}, 31), event.ErrSize, "offset", 16)
	wantFormatError(t, put(buf, s, []uint32{7, 7, 24}, 31), event.ErrSize, "offset", 20)
	wantFormatError(t, put(buf, []uint16{3, 3, 4}, o, 31), event.ErrOrder, "source id", 10)
	_, err := event.MEPWords(1<<34 + 1)
	wantFormatError(t, err, event.ErrRange, "total size", 4)
	if w, err := event.MEPWords(13); w != 4 || err != nil {
		t.Errorf("13 bytes are %d words, %v", w, err)
	}
}

func TestRefuseRecord(t *testing.T) {
	parse := verified(event.ParseRecord)
	refuse(t, "mdf.hex", parse, []spoiled{
		{"nothing", cut(0), event.ErrTruncated, "header", 0},
		{"sizes disagree", set(4, 89), event.ErrSize, "record size", 0},
		{"size below the header", func(b []byte) []byte { b[0], b[4], b[8] = 19, 19, 19; return b }, event.ErrSize,
			"record size", 0},
		{"truncated", cut(87), event.ErrTruncated, "record size", 0},
		{"sub-header beyond the record", func(b []byte) []byte {
			copy(b[17:], []byte{0x2F})
			b[0], b[4], b[8] = 79, 79, 79
			return b
		}, event.ErrSize, "sub-header length", 17},
		{"version 3 without its sub-header", set(17, 0x36), event.ErrSize, "sub-header length", 17},
		{"compressed", set(16, 1), event.ErrUnsupported, "compressed banks", 48},
		{"not banks", set(18, event.MDFTypeMEP), event.ErrUnsupported, "data type", 18},
		{"bank magic", set(60, 0), event.ErrMagic, "magic", 60},
		{"bank beyond the record", set(82, 9), event.ErrTruncated, "length", 82},
		{"checksum", set(56, 0x81), event.ErrChecksum, "checksum", 12},
	})
	b := set(56, 0x81)(hexFile(t, "mdf.hex"))
	clear(b[12:16])
	if err := parse(b); err != nil {
		t.Errorf("a record without checksum is refused: %v", err)
	}
	old := set(17, 0x20)(hexFile(t, "mdf.hex"))
	if r, err := event.ParseRecord(old); err != nil || r.HeaderSize() != 20 || r.Run() != 0 {
		t.Errorf("a version 2 header is not taken as it stands: %v", err)
	}
}

func TestRefuseRebuild(t *testing.T) {
	f0, f1 := hexFile(t, "replay-0.hex"), hexFile(t, "replay-1.hex")
	cases := []struct {
		name      string
		fragments [][]byte
		kind      error
		words     string
	}{
		{"no streams", nil, event.ErrTruncated, "no fragment"},
		{"empty fragment", [][]byte{{}, f1}, event.ErrTruncated, "header"},
		{"no record bank", [][]byte{f1, f0}, event.ErrUnsupported, "not with the record bank"},
		{"stream absent", [][]byte{f0}, event.ErrRange, "stream 1, there are 1"},
		{"bank absent", [][]byte{f0, f1[:12]}, event.ErrTruncated, "bank 2 of the record should stand in stream 1's"},
		{"bank bad", [][]byte{f0, append([]byte{0}, f1[1:]...)}, event.ErrMagic, "bank 1 of the record"},
		{"bank too many", [][]byte{f0, append(bytes.Clone(f1), f1...)}, event.ErrSize,
			"stream 1's fragment belong to no bank"},
		{"size in the header", [][]byte{set(8, 0x59)(bytes.Clone(f0)), f1}, event.ErrSize, "88 bytes, its header says 89"},
		{"record bank of another version", [][]byte{set(5, 1)(bytes.Clone(f0)), f1}, event.ErrUnsupported, "version 1"},
		{"record bank too short", [][]byte{set(2, 0x20)(bytes.Clone(f0)), f1}, event.ErrSize, "record's header"},
		{"record bank odd", [][]byte{set(2, 0x3F)(bytes.Clone(f0)), f1}, event.ErrSize, "whole u16"},
	}
	for _, c := range cases {
		dst, err := new(event.Rebuilder).Append([]byte{7}, c.fragments)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.words) || len(dst) != 1 {
			t.Errorf("%s: got %v and %d bytes, want %v with %q and dst as it was", c.name, err, len(dst), c.kind, c.words)
		}
	}
	header := hexFile(t, "mdf.hex")[:48]
	_, err := event.AppendRecordBank(nil, header[:47], nil)
	wantFormatError(t, err, event.ErrSize, "sub-header length", 17)
	_, err = event.AppendRecordBank(nil, header, make([]uint16, 32740))
	wantFormatError(t, err, event.ErrRange, "number of banks", 48)
	if _, err = event.AppendRecordBank(nil, header, make([]uint16, 32739)); err != nil {
		t.Error(err)
	}
	same := make([]byte, 1<<16)
	many := make([]event.SourceFragment, 1<<16)
	for i := range many {
		many[i].Data = same
	}
	dst, err := event.AppendRecordFromFragments([]byte{7}, event.MDFHeader{}, many)
	wantFormatError(t, err, event.ErrRange, "record size", 0)
	if len(dst) != 1 {
		t.Errorf("dst has %d bytes after a refusal, had 1", len(dst))
	}
}

func TestFormatErrorIsASentence(t *testing.T) {
	_, err := event.ParseRecord(set(4, 89)(hexFile(t, "mdf.hex")))
	placed := event.LocateError(err, 3, 1000)
	const want = "mdf record 3 at offset 1000: record size: the three sizes 88, 89 and 88 disagree"
	if placed.Error() != want {
		t.Errorf("got %q, want %q", placed, want)
	}
	if event.LocateError(nil, 3, 1000) != nil || !errors.Is(event.LocateError(bytes.ErrTooLarge, 3, 0),
		bytes.ErrTooLarge) {
		t.Error("Located changes errors that are not FormatErrors")
	}
}

// TestBankOfARecordIsNamed holds that the error for a bank says in which record of the file it stands.
func TestBankOfARecordIsNamed(t *testing.T) {
	record := hexFile(t, "mdf.hex")
	bad := set(60, 0)(bytes.Clone(record))
	clear(bad[12:16]) // without a checksum, so that the bank is what is wrong
	c := event.NewMDFCursor(append(record, bad...), true)
	_, first := c.Next()
	_, err := c.Next()
	if first != nil || !errors.Is(err, event.ErrMagic) || !strings.HasPrefix(err.Error(), "raw bank in record 1 ") {
		t.Errorf("%v, then %v", first, err)
	}
}
