package event_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"pgregory.net/rapid"

	"ringlet/event"
	"ringlet/testkit/must"
)

// goldenSums are published values of the one-at-a-time hash.
var goldenSums = map[string]uint32{
	"":  0,
	"a": 0xCA2E9442,
	"The quick brown fox jumps over the lazy dog": 0x519E91F5,
}

func TestChecksumsOfGoldenVectors(t *testing.T) {
	var pieces [][]byte
	var want []uint32
	for text, sum := range goldenSums {
		for range 3 {
			pieces, want = append(pieces, []byte(text)), append(want, sum)
		}
		if got := event.MDFChecksum([]byte(text)); got != sum {
			t.Errorf("%q: %08x, want %08x", text, got, sum)
		}
	}
	signed := []byte{0x80, 0xFF, 0x7F}
	pieces, want = append(pieces, signed), append(want, checksum(signed))
	compareSums(t, pieces, want)
}

// compareSums computes the checksums of all pieces together.
func compareSums(t must.TB, pieces [][]byte, want []uint32) {
	t.Helper()
	got := make([]uint32, len(pieces)+1)
	for i := range got {
		got[i] = 0xDEADBEEF
	}
	event.MDFChecksums(got, pieces)
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("piece %d of %d, of %d bytes: %08x, want %08x", i, len(pieces), len(pieces[i]), got[i], want[i])
		}
	}
	if got[len(pieces)] != 0xDEADBEEF {
		t.Fatalf("a checksum was written behind the last")
	}
}

func TestChecksumsAreEachThatOfItsPiece(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 300), 0, 40).Draw(t, "pieces")
		want := make([]uint32, len(pieces))
		for i, p := range pieces {
			want[i] = checksum(p)
		}
		compareSums(t, pieces, want)
	})
}

// TestChecksumsOfEveryLength has every length from 0 to 70 meet every other in the lanes, and a long piece that ends
// alone.
func TestChecksumsOfEveryLength(t *testing.T) {
	bytes := make([]byte, 5000)
	for i := range bytes {
		bytes[i] = byte(i*i + i>>3)
	}
	for long := range 4 {
		var pieces [][]byte
		var want []uint32
		for i := range 71 {
			pieces = append(pieces, bytes[i:2*i])
		}
		pieces[long] = bytes
		for _, p := range pieces {
			want = append(want, checksum(p))
		}
		compareSums(t, pieces, want)
	}
}

// records makes n records, unsealed and as they are written one by one.
func records(t testing.TB, n int) (unsealed, sealed []byte) {
	t.Helper()
	for i := range n {
		h := event.MDFHeader{Run: 9, Bunch: uint32(i)}
		fragments := []event.SourceFragment{{Type: 9, Source: 1, Data: bytes.Repeat([]byte{byte(0x90 + i)}, 7*i%400)},
			{Type: 10, Source: 2}}
		var errs [2]error
		unsealed, errs[0] = event.AppendRecordUnsealed(unsealed, h, fragments)
		sealed, errs[1] = event.AppendRecordFromFragments(sealed, h, fragments)
		must.OK(t, errors.Join(errs[:]...))
	}
	return unsealed, sealed
}

func TestSealRecords(t *testing.T) {
	for _, n := range []int{0, 1, 2, 4, 31, 32, 33, 100} {
		unsealed, want := records(t, n)
		if n > 0 && bytes.Equal(unsealed, want) {
			t.Fatal("an unsealed record has a checksum")
		}
		must.OK(t, event.SealRecords(unsealed))
		sameBytes(t, fmt.Sprintf("%d records", n), unsealed, want)
	}
}

func TestSealRecordsRefusesWhatIsNoRecord(t *testing.T) {
	b, want := records(t, 3)
	last := len(b)
	b, want = append(b, 1, 2, 3), append(want, 1, 2, 3)
	var bad *event.FormatError
	if err := event.SealRecords(b); !errors.As(err, &bad) || !errors.Is(err, event.ErrTruncated) ||
		bad.Offset != int64(last) {
		t.Errorf("%v, and the rest begins at %d", err, last)
	}
	sameBytes(t, "the whole records before it", b, want)
}

// TestAppendUnsealedOverDirtyMemory holds that padding is zero whatever was in the room before.
func TestAppendUnsealedOverDirtyMemory(t *testing.T) {
	for size := range 9 {
		f := []event.SourceFragment{{Type: 9, Data: bytes.Repeat([]byte{7}, size)}}
		clean, err := event.AppendRecordUnsealed(nil, event.MDFHeader{}, f)
		must.OK(t, err)
		over, err := event.AppendRecordUnsealed(dirty(200)[:0], event.MDFHeader{}, f)
		must.OK(t, err)
		sameBytes(t, fmt.Sprintf("%d bytes of data", size), over, clean)
	}
}

// TestCursorFindsTheBadChecksum has the cursor, which looks ahead, refuse exactly the records that are bad, wherever
// they are, and go on behind them.
func TestCursorFindsTheBadChecksum(t *testing.T) {
	_, b := records(t, 100)
	rapid.Check(t, func(t *rapid.T) {
		b := bytes.Clone(b)
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, 99), 0, 6).Draw(t, "bad") {
			c := event.NewMDFCursor(b, false)
			for range i + 1 {
				if _, err := c.Next(); err != nil {
					t.Fatal(err)
				}
			}
			// checksum, orbit, magic of the first bank
			kind := rapid.SampledFrom([]int64{12, 40, event.MDFHeaderSize}).Draw(t, "field")
			b[c.Offset()+kind] ^= 1
		}
		checkCursor(t, b)
	})
}

// checkCursor holds the cursor with verification against one without and Record.Verify.
func checkCursor(t *rapid.T, b []byte) {
	verifying, plain := event.NewMDFCursor(b, true), event.NewMDFCursor(b, false)
	for {
		r, errPlain := plain.Next()
		got, err := verifying.Next()
		if errors.Is(errPlain, io.EOF) {
			if !errors.Is(err, io.EOF) {
				t.Fatalf("at the end: %v", err)
			}
			return
		}
		if want := r.Verify(); (want == nil) != (err == nil) || err == nil && !bytes.Equal(r, got) {
			t.Fatalf("record %d: %v, want %v", plain.Index(), err, want)
		} else if err != nil && verifying.Skip() != int64(len(r)) {
			t.Fatalf("record %d was not skipped as it is", plain.Index())
		}
		if plain.Index() != verifying.Index()-b2i(err != nil) {
			t.Fatalf("record %d is told as %d", plain.Index(), verifying.Index())
		}
	}
}

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// FuzzMDFChecksums cuts bytes into pieces of lengths that the bytes themselves name, and seals records made of them.
func FuzzMDFChecksums(f *testing.F) {
	f.Add(bytes.Repeat([]byte{3, 0x80, 1, 0, 9}, 40))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var pieces [][]byte
		var want []uint32
		var unsealed, sealed []byte
		for rest := b; len(rest) > 0; {
			n := min(int(rest[0])+1, len(rest))
			piece := rest[1:n]
			rest = rest[n:]
			pieces, want = append(pieces, piece), append(want, checksum(piece))
			fragments := []event.SourceFragment{{Type: event.BankType(len(rest)), Data: piece}}
			var errs [2]error
			unsealed, errs[0] = event.AppendRecordUnsealed(unsealed, event.MDFHeader{}, fragments)
			sealed, errs[1] = event.AppendRecordFromFragments(sealed, event.MDFHeader{}, fragments)
			must.OK(t, errors.Join(errs[:]...))
		}
		compareSums(t, pieces, want)
		must.OK(t, event.SealRecords(unsealed))
		sameBytes(t, "sealed together", unsealed, sealed)
		_ = event.SealRecords(bytes.Clone(b)) // no panic
	})
}

func TestChecksumsDoNotAllocate(t *testing.T) {
	unsealed, _ := records(t, 100)
	buf := make([]byte, 0, 1000)
	fragments := []event.SourceFragment{{Type: 9, Data: unsealed[:100]}}
	if n := testing.AllocsPerRun(100, func() {
		if err := event.SealRecords(unsealed); err != nil {
			t.Error(err)
		}
		if _, err := event.AppendRecordUnsealed(buf, event.MDFHeader{}, fragments); err != nil {
			t.Error(err)
		}
		for c := event.NewMDFCursor(unsealed, true); ; {
			if r, _ := c.Next(); r == nil {
				break
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkMDFChecksums is records of one size, of sizes that differ by up to a factor of two, and one alone.
func BenchmarkMDFChecksums(b *testing.B) {
	for _, k := range []struct {
		name          string
		n, size, more int
	}{{"1x64K", 1, 64 << 10, 0}, {"32x700B", 32, 700, 0}, {"32x500B-1K", 32, 500, 500},
		{"8x200K-400K", 8, 200 << 10, 200 << 10}} {
		b.Run(k.name, func(b *testing.B) {
			pieces, sums, all := make([][]byte, k.n), make([]uint32, k.n), 0
			for i := range pieces {
				pieces[i] = bytes.Repeat([]byte{byte(i * 37), byte(i)}, (k.size+k.more*i/k.n)/2)
				all += len(pieces[i])
			}
			b.SetBytes(int64(all))
			b.ReportAllocs()
			for b.Loop() {
				event.MDFChecksums(sums, pieces)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(all), "ns/byte")
		})
	}
}
