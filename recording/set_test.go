package recording

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ringlet/testkit/must"
)

// model is a set as a map, which is slow and plain.
type model map[uint64]exception

func (m model) add(e Entry) bool {
	o, ok := m[e.MEP]
	if !ok || e.Attempt > o.attempt {
		m[e.MEP] = exception{e.Attempt, e.Events}
	}
	return ok
}

func (m model) events() (n uint64) {
	for _, o := range m {
		n += uint64(o.events)
	}
	return n
}

// gaps goes through every event.
func (m model) gaps(packing int, triggered uint64, limit int) Gaps {
	g := Gaps{Ranges: []Range{}}
	for ev := range triggered {
		if o, ok := m[ev/uint64(packing)]; ok && ev%uint64(packing) < uint64(o.events) {
			continue
		}
		g.EventCount++
		switch last := len(g.Ranges) - 1; {
		case last >= 0 && g.Ranges[last].To+1 == ev:
			g.Ranges[last].To = ev
		default:
			g.Ranges = append(g.Ranges, Range{ev, ev})
		}
	}
	if len(g.Ranges) > limit {
		g.UnlistedRanges = uint64(len(g.Ranges) - limit)
		g.Ranges = g.Ranges[:limit]
	}
	return g
}

func drawEntries(t *rapid.T, packing int) []Entry {
	base := rapid.SampledFrom([]uint64{0, 0, 65_500, 131_000, 1 << 30}).Draw(t, "base")
	span := rapid.SampledFrom([]uint64{1, 100, 3000}).Draw(t, "span")
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	entries := make([]Entry, rapid.IntRange(0, 800).Draw(t, "n"))
	for i := range entries {
		e := Entry{MEP: base + r.Uint64N(span), Events: uint32(packing), Attempt: 1}
		if r.IntN(10) == 0 {
			e.Attempt, e.Events = r.Uint32N(5), r.Uint32N(uint32(packing)+1)
		}
		entries[i] = e
	}
	return entries
}

func TestSetIsWhatAMapIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		packing := rapid.IntRange(1, 7).Draw(t, "packing")
		halves, models := [2]*MEPSet{NewMEPSet(packing), NewMEPSet(packing)}, [2]model{{}, {}}
		for i, e := range drawEntries(t, packing) {
			if got, want := halves[i%2].Add(e), models[i%2].add(e); got != want {
				t.Fatalf("adding %+v: copied %v, want %v", e, got, want)
			}
		}
		s, m, copies := halves[0], models[0], uint64(0)
		for mep, o := range models[1] {
			if m.add(Entry{MEP: mep, Attempt: o.attempt, Events: o.events}) {
				copies++
			}
		}
		if got := s.Union(halves[1]); got != copies {
			t.Fatalf("%d copies, want %d", got, copies)
		}
		sameSet(t, s, m)
		for _, triggered := range []uint64{0, 1, 900, uint64(packing) * 3100} {
			for _, limit := range []int{0, 3, 1 << 20} {
				gotGaps(t, s.Missing(triggered, limit), m.gaps(packing, triggered, limit))
			}
		}
		back := NewSetReader(NewMEPSet(packing), 1<<60)
		for piece := range s.Pieces() {
			if len(piece) > maxPiece {
				t.Fatalf("a piece of %d bytes", len(piece))
			}
			must.OK(t, back.Add(piece))
		}
		read, err := back.Set()
		must.OK(t, err)
		sameSet(t, read, m)
	})
}

func sameSet(t must.TB, s *MEPSet, m model) {
	t.Helper()
	if s.MEPs() != uint64(len(m)) || s.Events() != m.events() {
		t.Fatalf("%d MEPs, %d events; want %d, %d", s.MEPs(), s.Events(), len(m), m.events())
	}
	for mep, o := range m {
		if a, ok := s.highestAttempt(mep); !ok || a != o.attempt {
			t.Fatalf("MEP %d: attempt %d %v, want %d", mep, a, ok, o.attempt)
		}
	}
}

func gotGaps(t must.TB, got, want Gaps) {
	t.Helper()
	if got.EventCount != want.EventCount || got.UnlistedRanges != want.UnlistedRanges ||
		len(got.Ranges) != len(want.Ranges) {
		t.Fatalf("missing %+v, want %+v", got, want)
	}
	for i := range got.Ranges {
		if got.Ranges[i] != want.Ranges[i] {
			t.Fatalf("range %d is %v, want %v", i, got.Ranges[i], want.Ranges[i])
		}
	}
}

// A block of live data in which every MEP is an exception does not fit into one piece.
func TestSetOfExceptionsTravelsInSmallPieces(t *testing.T) {
	s := NewLiveMEPSet(60_000)
	for mep := range uint64(blockMEPs + 100) {
		s.Add(Entry{
			MEP:        mep,
			FirstEvent: mep << 40,
			Events:     59_999,
			Attempt:    4_000_000_000,
		})
	}
	r, pieces := NewSetReader(NewLiveMEPSet(60_000), 1<<40), 0
	for piece := range s.Pieces() {
		pieces++
		if len(piece) > maxPiece {
			t.Fatalf("a piece of %d bytes", len(piece))
		}
		must.OK(t, r.Add(piece))
	}
	back, err := r.Set()
	if err != nil || back.MEPs() != s.MEPs() || back.Events() != s.Events() || pieces != 4 {
		t.Fatalf("%v after %d pieces: %v", back, pieces, err)
	}
	if a, ok := back.highestAttempt(blockMEPs + 99); !ok || a != 4_000_000_000 {
		t.Fatalf("attempt %d %v", a, ok)
	}
}

// A piece may have more words than a block has: earlier programs wrote such pieces into the ledgers of backlogs.
func TestSetReaderTakesAPieceOfManyBlocks(t *testing.T) {
	const words = 3 * blockWords
	piece := binary.AppendUvarint([]byte{pieceVersion, 1, 7}, words) // from MEP 65,536 + 7 × 64 on
	piece = append(piece, 1)                                         // exceptions
	for range words {
		piece = binary.LittleEndian.AppendUint64(piece, math.MaxUint64)
	}
	piece = append(binary.AppendUvarint(piece, 2*blockMEPs), 2, 4)
	first := uint64(stretchMEPs + 7*64)
	want := NewMEPSet(10)
	for i := range uint64(words * 64) {
		e := Entry{MEP: first + i, Events: 10, Attempt: 1}
		if i == 2*blockMEPs {
			e.Events, e.Attempt = 4, 2
		}
		want.Add(e)
	}
	r := NewSetReader(NewMEPSet(10), 1<<40)
	must.OK(t, r.Add(piece))
	if diff := cmp.Diff(slices.Collect(copied(want)), slices.Collect(copied(r.set))); diff != "" {
		t.Error(diff)
	}
}

// TestASetIsAsLargeAsWhatIsInIt: numbers that are far apart take little memory, so an index cannot make a reader take
// much more than it has bytes.
func TestASetIsAsLargeAsWhatIsInIt(t *testing.T) {
	const meps = 1000
	for name, s := range map[string]*MEPSet{"recorded": NewMEPSet(10), "live": NewLiveMEPSet(10)} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range uint64(meps) {
			s.Add(Entry{
				MEP:        i << 40,
				FirstEvent: i,
				Events:     1,
				Attempt:    1,
			})
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > meps*4096 {
			t.Errorf("%s: %d bytes for %d MEPs", name, got, meps)
		}
	}
}

func TestSetReaderRefusesNonsense(t *testing.T) {
	s := NewMEPSet(10)
	for mep := range uint64(100) {
		s.Add(Entry{MEP: mep * 3, Events: 10, Attempt: 1})
	}
	s.Add(Entry{MEP: 1, Events: 4, Attempt: 2})
	var pieces [][]byte
	for p := range s.Pieces() {
		pieces = append(pieces, append([]byte(nil), p...))
	}
	feed := func(limit uint64, pieces ...[]byte) error {
		r := NewSetReader(NewMEPSet(10), limit)
		for _, p := range pieces {
			if err := r.Add(p); err != nil {
				if r.Add(p) == nil {
					t.Error("an error was not final")
				}
				return err
			}
		}
		_, err := r.Set()
		return err
	}
	must.OK(t, feed(3000, pieces...))
	for name, err := range map[string]error{
		"a limit":         feed(2970, pieces...),
		"no end":          feed(3000, pieces[0]),
		"nothing":         feed(3000),
		"twice":           feed(3000, pieces[0], pieces[0], pieces[1]),
		"behind the end":  feed(3000, pieces[0], pieces[1], pieces[0]),
		"only an end":     feed(3000, pieces[1]),
		"cut":             feed(3000, pieces[0][:20], pieces[1]),
		"cut at the end":  feed(3000, pieces[0][:len(pieces[0])-1], pieces[1]),
		"more at the end": feed(3000, append(append([]byte(nil), pieces[0]...), 0), pieces[1]),
		"empty":           feed(3000, []byte{}),
	} {
		if pe := (*pieceError)(nil); !errors.As(err, &pe) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzSetReader(f *testing.F) {
	s := NewMEPSet(10)
	for mep := range uint64(200) {
		s.Add(Entry{MEP: mep * mep, Events: uint32(mep % 11), Attempt: uint32(mep % 3)})
	}
	for p := range s.Pieces() {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, piece []byte) {
		r := NewSetReader(NewMEPSet(10), 1<<40)
		if r.Add(piece) != nil {
			return
		}
		s := r.set
		var meps, events uint64
		for e := range s.entries {
			meps++
			events += uint64(e.Events)
		}
		if meps != s.MEPs() || events != s.Events() {
			t.Fatalf("it says %d MEPs of %d events, it has %d of %d", s.MEPs(), s.Events(), meps, events)
		}
	})
}
