package event_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"ringlet/event"
	"ringlet/testkit/mfp"
	"ringlet/testkit/must"
)

// drawMFP draws a packet, with the fragments it holds.
func drawMFP(t *rapid.T, source uint16, first uint64, n int) ([]byte, [][]byte) {
	h := event.MFPHeader{
		FirstEvent: first,
		Source:     source,
		Align:      rapid.Uint8Range(0, 7).Draw(t, "align"),
		Version:    rapid.Byte().Draw(t, "version"),
		Wide:       rapid.Bool().Draw(t, "wide"),
	}
	data, fragments := make([][]byte, n), make([]mfp.Fragment, n)
	for i := range data {
		data[i] = rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "fragment")
		fragments[i] = mfp.Fragment{Type: event.BankType(i % 256), Data: data[i]}
		fragments[i].Words.HasTrigger = rapid.IntRange(0, 60).Draw(t, "trigger") == 0
	}
	return mfp.Build(h, fragments...), data
}

func TestMFPRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "n")
		b, fragments := drawMFP(t, 5, 77, n)
		p, err := event.ParseMFP(b)
		must.OK(t, err)
		size, seen, most := event.MFPHeaderSize(n), 0, event.MaxMFPSize(n, 300, p.Align())
		if p.IsWide() {
			size, most = event.WideMFPHeaderSize(n), event.MaxMFPSize(n, event.MaxNarrowFragment+1, p.Align())
		}
		if p.IsWorded() {
			most += event.WordedMFPHeaderSize(n) - size
			size = event.WordedMFPHeaderSize(n)
		}
		for i, data := range p.Fragments() {
			if !bytes.Equal(data, fragments[i]) || !bytes.Equal(p.Fragment(i), data) ||
				p.FragmentType(i) != event.BankType(i%256) {
				t.Fatalf("fragment %d differs", i)
			}
			padding := 1<<p.Align() - 1
			size += (len(data) + padding) &^ padding
			seen++
		}
		if len(b) > most {
			t.Fatalf("%d bytes, more than the most of %d", len(b), most)
		}
		if seen != n || size != len(b) || int(p.Size()) != len(b) {
			t.Fatalf("%d fragments of %d, size %d of %d", seen, n, size, len(b))
		}
	})
}

// TestMFPSizesAddUp holds the fast pass over the size table against the sum
// written out, at every alignment and at the largest packing.
func TestMFPSizesAddUp(t *testing.T) {
	for align := uint8(0); align <= event.MaxAlign; align++ {
		for _, n := range []int{0, 1, 3, 4, 5, 63, 65535} {
			b := make([]byte, event.MFPHeaderSize(n))
			_, sizes := event.MFPTables(b, n)
			want, x := len(b), uint32(align)
			for i := range n {
				x = x*1664525 + 1013904223
				s := int(x >> 16)
				if n == 65535 && align < 8 {
					s = int(x>>16) % 700
				} else if n == 65535 {
					s = int(x >> 31) // 0 or 1: padding is all there is
				}
				binary.LittleEndian.PutUint16(sizes[2*i:], uint16(s))
				want += (s + 1<<align - 1) / (1 << align) * (1 << align)
			}
			if want > 64<<20 {
				continue // needs a packet too large for a test
			}
			event.PutMFPHeader(b, event.MFPHeader{NumFragments: n, Size: uint32(want), Align: align})
			b = append(b, make([]byte, want-len(b))...)
			if _, err := event.ParseMFP(b); err != nil {
				t.Errorf("align %d, %d fragments: %v", align, n, err)
			}
		}
	}
}

func TestMEPWithGaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.IntRange(0, 6).Draw(t, "m")
		at := event.MEPHeaderSize(m)
		b := dirty(at)
		var sources []uint16
		var offsets []uint32
		source := -1
		for range m {
			source += rapid.IntRange(1, 900).Draw(t, "source step")
			mfp, _ := drawMFP(t, uint16(source), 12, 3)
			b = append(b, dirty(4*rapid.IntRange(0, 5).Draw(t, "gap")+(-len(b)&3))...)
			sources, offsets = append(sources, uint16(source)), append(offsets, uint32(len(b)/4))
			b = append(b, mfp...)
		}
		words, err := event.MEPWords(len(b))
		must.OK(t, err)
		b = append(b, dirty(4*int(words)-len(b))...)
		if _, err := event.PutMEPHeader(b, sources, offsets, words); err != nil {
			t.Fatal(err)
		}
		p, err := event.ParseMEP(b)
		must.OK(t, err)
		if err := p.Verify(); err != nil || p.NumMFPs() != m {
			t.Fatalf("%d MFPs of %d, %v", p.NumMFPs(), m, err)
		}
		if m > 0 {
			i := rapid.IntRange(0, m-1).Draw(t, "MFP to move")
			binary.LittleEndian.PutUint32(b[at-4*(m-i):], offsets[i]-1)
			if _, err := event.ParseMEP(b); err == nil {
				t.Fatal("an MFP moved by a word is accepted")
			}
		}
	})
}

// checksum is the definition, line by line.
func checksum(b []byte) uint32 {
	var h uint32
	for _, c := range b {
		h += uint32(int32(int8(c)))
		h += h << 10
		h ^= h >> 6
	}
	h += h << 3
	h ^= h >> 11
	h += h << 15
	return h
}

func TestChecksumIsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "bytes")
		if got, want := event.MDFChecksum(b), checksum(b); got != want {
			t.Fatalf("%08x, want %08x", got, want)
		}
	})
}

// drawRecord draws a sound record.
func drawRecord(t *rapid.T) event.Record {
	var payload []byte
	for range rapid.IntRange(0, 8).Draw(t, "banks") {
		var err error
		payload, err = event.AppendBank(payload, 9, 1, 2, rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "data"))
		must.OK(t, err)
	}
	r, err := event.AppendRecord(nil, event.MDFHeader{DataType: event.MDFTypeBanks, Run: 1}, payload)
	must.OK(t, err)
	return r
}

func TestReplayGivesTheRecordBack(t *testing.T) {
	var rb event.Rebuilder
	rapid.Check(t, func(t *rapid.T) {
		r := drawRecord(t)
		streams := rapid.IntRange(1, 5).Draw(t, "streams")
		fragments := make([][]byte, streams)
		var cabling []uint16
		c, err := r.Banks()
		must.OK(t, err)
		for c.Next() {
			s := rapid.IntRange(0, streams-1).Draw(t, "stream")
			cabling = append(cabling, uint16(s))
			fragments[s] = append(fragments[s], c.RawBank()...)
		}
		front, err := event.AppendRecordBank(nil, r.Header(), cabling)
		must.OK(t, err)
		fragments[0] = append(front, fragments[0]...)
		built, err := rb.Append(nil, fragments)
		if err != nil || !bytes.Equal(built, r) {
			t.Fatalf("rebuilt % x (%v), want % x", built, err, []byte(r))
		}
	})
}

// TestReaderAndCursorAgree spoils a file of records and holds the two readers
// against each other, in small reads, with Skip.
func TestReaderAndCursorAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var file []byte
		for range rapid.IntRange(0, 6).Draw(t, "records") {
			file = append(file, drawRecord(t)...)
		}
		for range rapid.IntRange(0, 3).Draw(t, "bytes to spoil") {
			if len(file) > 0 {
				file[rapid.IntRange(0, len(file)-1).Draw(t, "place")] ^= rapid.ByteRange(1, 255).Draw(t, "by")
			}
		}
		file = file[:len(file)-rapid.IntRange(0, min(20, len(file))).Draw(t, "cut")]
		must.OK(t, agree(file))
	})
}

// agree walks file with a reader and a cursor to the end, skipping what is bad,
// and says where they differ. Every byte must be in a record or be skipped.
func agree(file []byte) error {
	r := event.NewUnitReader(iotest.HalfReader(bytes.NewReader(file)),
		event.UnitReaderOptions{MaxUnitBytes: 1 << 31, Verify: true})
	c := event.NewMDFCursor(file, true)
	seen := 0
	for {
		a, errA := r.Next()
		b, errB := c.Next()
		ended := errors.Is(errB, io.EOF)
		switch {
		case errors.Is(errA, io.EOF) != ended || (errA == nil) != (errB == nil) || !bytes.Equal(a, b):
			return errors.Join(errors.New("reader and cursor differ"), errA, errB)
		case !ended && (r.Index() != c.Index() || r.Offset() != c.Offset() || r.Offset() != int64(seen)):
			return errors.New("reader and cursor stand at different places")
		case ended && seen != len(file):
			return errors.New("bytes at the end are neither in a record nor skipped")
		case ended:
			return nil
		case errB != nil:
			n, err := r.Skip()
			if m := c.Skip(); err != nil || n != m || n == 0 {
				return errors.Join(errors.New("reader and cursor skip differently"), err)
			}
			seen += int(n)
		default:
			seen += len(b)
		}
	}
}
