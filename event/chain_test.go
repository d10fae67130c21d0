package event

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"ringlet/testkit/must"
)

// patterned is data of n bytes.
func patterned(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i>>8) + byte(i)*3 + seed
	}
	return b
}

// TestChains: fragments of any size come out of a record as they went in, and the record is as long as bankedSize says.
func TestChains(t *testing.T) {
	sizes := rapid.OneOf(rapid.IntRange(0, 200), rapid.IntRange(MaxBankData-9, MaxBankData+20),
		rapid.IntRange(2*pieceBytes-20, 2*pieceBytes+20), rapid.Just(3*pieceBytes-chainHeadSize), rapid.IntRange(0, 300_000))
	rapid.Check(t, func(t *rapid.T) {
		var in []SourceFragment
		want := MDFHeaderSize
		for i := range rapid.IntRange(1, 4).Draw(t, "fragments") {
			n := sizes.Draw(t, "size")
			in = append(in, SourceFragment{
				Type:    BankType(rapid.SampledFrom([]int{9, 51, 255}).Draw(t, "type")),
				Version: rapid.Byte().Draw(t, "version"),
				Source:  rapid.Uint16().Draw(t, "source"),
				Data:    patterned(n, byte(i)),
			})
			want += bankedSize(n)
		}
		record, err := AppendRecordFromFragments(nil, MDFHeader{Run: 3}, in)
		must.OK(t, err)
		if len(record) != want {
			t.Fatalf("%d bytes, want %d", len(record), want)
		}
		must.OK(t, Record(record).Verify())
		banks, err := Record(record).Banks()
		must.OK(t, err)
		c, at := JoinBanks(banks), 0
		for _, f := range in {
			if !c.Next() {
				t.Fatal(c.Err())
			}
			got := c.Fragment()
			if got.Type != f.Type || got.Version != f.Version || got.Source != f.Source || !bytes.Equal(got.Data, f.Data) {
				t.Fatalf("fragment of %d bytes: %d bytes, type %v, version %d, source %d", len(f.Data), len(got.Data), got.Type,
					got.Version, got.Source)
			}
			if c.Offset() != at || (c.Banks() > 1) != (len(f.Data) > MaxBankData) {
				t.Fatalf("%d banks at %d", c.Banks(), c.Offset())
			}
			at += bankedSize(len(f.Data))
		}
		if c.Next() || c.Err() != nil {
			t.Fatal(c.Err())
		}
	})
}

// chained is a record of a chain of three banks between two others.
func chained(t must.TB) []byte {
	record, err := AppendRecordFromFragments(nil, MDFHeader{}, []SourceFragment{
		{Type: 9, Source: 1, Data: patterned(10, 1)},
		{Type: 51, Version: 2, Source: 7, Data: patterned(2*pieceBytes+100, 2)},
		{Type: 9, Source: 1, Data: patterned(20, 1)},
	})
	must.OK(t, err)
	return record
}

// TestBrokenChains: what is no whole chain is refused, in each place, and nothing is allocated for it.
func TestBrokenChains(t *testing.T) {
	first := MDFHeaderSize + bankedSize(10)
	second := first + BankHeaderSize + pieceBytes
	third := second + BankHeaderSize + pieceBytes
	for name, change := range map[string]func([]byte) []byte{
		"a size that is too large for the format": func(b []byte) []byte {
			binary.LittleEndian.PutUint32(b[first+8:], MaxFragment+1)
			return b
		},
		"a size that a bank has":      func(b []byte) []byte { b[first+10] = 0; return b },
		"a size beyond the record":    func(b []byte) []byte { b[first+10] = 0xF0; return b },
		"a size of one bank more":     func(b []byte) []byte { b[first+10]++; return b },
		"a byte less":                 func(b []byte) []byte { b[first+8]--; return b },
		"more than a type":            func(b []byte) []byte { b[first+14] = 1; return b },
		"it begins in its middle":     func(b []byte) []byte { b[first+5] = laterPiece; return b },
		"it begins twice":             func(b []byte) []byte { b[second+5] = firstPiece; return b },
		"another source":              func(b []byte) []byte { b[third+6]++; return b },
		"another type":                func(b []byte) []byte { b[second+4] = 9; return b },
		"an unknown version":          func(b []byte) []byte { b[third+5] = 2; return b },
		"it lacks its last bank":      func(b []byte) []byte { return append(b[:third:third], b[len(b)-28:]...) },
		"the record ends in a bank":   func(b []byte) []byte { return b[:second+100] },
		"the record ends before one":  func(b []byte) []byte { return b[:second] },
		"a first bank without a head": func(b []byte) []byte { b[first+2], b[first+3] = 12, 0; return b[:first+12] },
	} {
		b := change(bytes.Clone(chained(t)))[MDFHeaderSize:]
		c := JoinBanks(NewBankCursor(b))
		for c.Next() {
			continue
		}
		var wrong *FormatError
		if !errors.As(c.Err(), &wrong) {
			t.Errorf("%s: %v", name, c.Err())
		}
		if cap(c.joined) > len(b) {
			t.Errorf("%s: %d bytes for %d", name, cap(c.joined), len(b))
		}
	}
}

// FuzzJoinBanks: whatever the bytes, fragments lie in them or were joined from them, and the walk that only looks gives
// the same error.
func FuzzJoinBanks(f *testing.F) {
	f.Add(chained(f)[MDFHeaderSize:])
	f.Add(chained(f)[MDFHeaderSize:100])
	f.Fuzz(func(t *testing.T, b []byte) {
		c, look := JoinBanks(NewBankCursor(b)), JoinBanks(NewBankCursor(b))
		look.onlyLook = true
		total := 0
		for c.Next() {
			total += len(c.Fragment().Data)
			if !look.Next() {
				t.Fatal("the walk that only looks ends before")
			}
		}
		if look.Next() || (look.Err() == nil) != (c.Err() == nil) || total > len(b) || cap(c.joined) > len(b) {
			t.Fatalf("%v, and %v; %d bytes of %d", c.Err(), look.Err(), total, len(b))
		}
	})
}
