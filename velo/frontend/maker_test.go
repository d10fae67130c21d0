package frontend

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"

	"ringlet/event"
	"ringlet/velo"
)

func maker(t testing.TB, c MakerConfig) *Maker {
	t.Helper()
	m, err := NewMaker(detector(t, nil), c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// fill is the MFP of a source.
func fill(t testing.TB, m *Maker, source uint16, first uint64, n int) []byte {
	t.Helper()
	dst := bytes.Repeat([]byte{0xEE}, m.MaxMFP(source, n))
	size, _, err := m.FillMFP(dst, source, first, n, false)
	if err != nil {
		t.Fatal(err)
	}
	return dst[:size]
}

// TestSameBytes: the bytes of a board depend on seed and events alone: not on the number of goroutines, on the other
// boards that are made, or on the events of the same block.
func TestSameBytes(t *testing.T) {
	all := maker(t, MakerConfig{Seed: 4, Streams: 100, Workers: 1})
	many := maker(t, MakerConfig{Seed: 4, Streams: 100, Workers: 7})
	some := maker(t, MakerConfig{Seed: 4, FirstSource: 40, Streams: 25, Workers: 2})
	other := maker(t, MakerConfig{Seed: 5, Streams: 100, Workers: 2})
	hash := sha256.New()
	for source := range uint16(100) {
		want := fill(t, all, source, 65_530, 20)
		hash.Write(want)
		if !bytes.Equal(want, fill(t, many, source, 65_530, 20)) {
			t.Fatalf("source %d differs with 7 goroutines", source)
		}
		if source >= 40 && source < 65 && !bytes.Equal(want, fill(t, some, source, 65_530, 20)) {
			t.Fatalf("source %d differs where only 25 are made", source)
		}
		if bytes.Equal(want, fill(t, other, source, 65_530, 20)) {
			t.Fatalf("source %d is the same with another seed", source)
		}
		checkMFP(t, want, source, 65_530, 20)
	}
	single := fill(t, all, 12, 65_533, 1)
	block, err := event.ParseMFP(fill(t, all, 12, 65_530, 20))
	if err != nil {
		t.Fatal(err)
	}
	alone, err := event.ParseMFP(single)
	if err != nil {
		t.Fatal(err)
	}
	c, d := block.Cursor(), alone.Cursor()
	for range 4 {
		c.Next()
	}
	if d.Next(); !bytes.Equal(c.Data(), d.Data()) {
		t.Error("an event alone differs from the same in a block")
	}
	const golden = "7b03d0a8b48df9bd"
	if got := fmt.Sprintf("%x", hash.Sum(nil)[:8]); runtime.GOARCH == "amd64" && got != golden {
		t.Errorf("the bytes of seed 4 have the hash %s, they had %s: recordings cannot be compared with their seed", got,
			golden)
	}
}

// checkMFP holds an MFP to what a reader expects.
func checkMFP(t *testing.T, b []byte, source uint16, first uint64, n int) {
	t.Helper()
	m, err := event.ParseMFP(b)
	if err != nil {
		t.Fatal(err)
	}
	if m.Source() != source || m.FirstEvent() != first || m.NumFragments() != n || m.Version() != velo.Version ||
		len(m.Bytes()) != len(b) {
		t.Fatalf("source %d, first event %d, %d fragments, version %d", m.Source(), m.FirstEvent(), m.NumFragments(),
			m.Version())
	}
	for c := m.Cursor(); c.Next(); {
		board, err := velo.ParseBoard(c.Data())
		if err != nil || c.Type() != velo.BankType {
			t.Fatal(err, c.Type())
		}
		if board.Number() != int(source) || board.Event() != uint16(c.Event()) {
			t.Fatalf("board %d, event %d in event %d of source %d", board.Number(), board.Event(), c.Event(), source)
		}
	}
}

// TestSpareSources: sources beyond the last board have fragments without clusters.
func TestSpareSources(t *testing.T) {
	m := maker(t, MakerConfig{Seed: 4, FirstSource: 99, Streams: 3, Align: 3, Workers: 1})
	for source := range uint16(3) {
		b := fill(t, m, 99+source, 0, 10)
		checkMFP(t, b, 99+source, 0, 10)
		if empty := len(b) == MinMFP(10, 3); empty != (source > 0) {
			t.Errorf("source %d has %d bytes", 99+source, len(b))
		}
	}
}

// TestRenumber: a block that comes again has other event ids and nothing else that is new.
func TestRenumber(t *testing.T) {
	m := maker(t, MakerConfig{Seed: 4, Streams: 3, Workers: 1})
	b := fill(t, m, 1, 0, 9)
	old := bytes.Clone(b)
	m.Renumber(b, 1<<40+65_530, 9)
	binary.LittleEndian.PutUint64(b[8:], 1<<40+65_530)
	checkMFP(t, b, 1, 1<<40+65_530, 9)
	m.Renumber(b, 0, 9)
	binary.LittleEndian.PutUint64(b[8:], 0)
	if !bytes.Equal(b, old) {
		t.Error("with its own numbers again, the block differs")
	}
}

func TestTruthsOfABlock(t *testing.T) {
	m := maker(t, MakerConfig{Seed: 4, Streams: 2, Workers: 3, KeepTruth: true})
	e := detector(t, nil).newSimulator(4, false)
	fill(t, m, 0, 100, 8)
	for i, got := range m.Truths() {
		want := e.simulate(uint64(100 + i))
		if got.Event != want.Event || len(got.Tracks) != len(want.Tracks) || got.Tracks[0] != want.Tracks[0] ||
			len(got.Vertices) != len(want.Vertices) {
			t.Errorf("event %d: %d particles, want %d", got.Event, len(got.Tracks), len(want.Tracks))
		}
	}
	if len(m.Truths()) != 8 {
		t.Errorf("%d events", len(m.Truths()))
	}
}

func TestMakerRefuses(t *testing.T) {
	m := maker(t, MakerConfig{Seed: 4, Streams: 2})
	dst := make([]byte, m.MaxMFP(0, 10))
	for _, c := range []struct {
		source uint16
		first  uint64
		n      int
		dst    []byte
	}{{2, 0, 10, dst}, {0, event.EndOfRun - 3, 10, dst}, {0, 0, -1, dst}, {0, 0, 10, dst[1:]}} {
		if _, _, err := m.FillMFP(c.dst, c.source, c.first, c.n, false); err == nil {
			t.Errorf("source %d, %d events from %d in %d bytes were made", c.source, c.n, c.first, len(c.dst))
		}
	}
}

// BenchmarkRenumber is one event of 100 boards in blocks that come again.
func BenchmarkRenumber(b *testing.B) {
	m := maker(b, MakerConfig{Seed: 4, Streams: 100, Workers: 2})
	const n = 100
	var mfps [][]byte
	for source := range uint16(100) {
		mfps = append(mfps, bytes.Clone(fill(b, m, source, 0, n)))
	}
	first := uint64(0)
	for b.Loop() {
		for _, one := range mfps {
			m.Renumber(one, first, n)
		}
		first += n
	}
	b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "events/s")
}
