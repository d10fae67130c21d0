package vertex

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"time"

	"ringlet/event/selection"
	"ringlet/filter"
	"ringlet/testkit/cases"
	"ringlet/testkit/must"
	"ringlet/velo"
)

func (f *Finder) load(t testing.TB, boards []velo.Board) {
	f.BeginEvent()
	for _, b := range boards {
		must.OK(t, f.AddBoard(b))
	}
}

func newFinder(t testing.TB, toy *toy) *Finder {
	d, err := NewDetector(toy.g)
	must.OK(t, err)
	return NewFinder(d)
}

// seen is what a search of toy events found.
type seen struct {
	primary, accepted, kept int
	dz, dx                  float64 // how far primary vertices are off, mm
}

// searched searches events with a decay and as many without.
func searched(t *testing.T, toy *toy, events int) (s seen) {
	f := newFinder(t, toy)
	var tracks, spatial, clusters int
	var sz float64
	for i := range 2 * events {
		boards, at := toy.event(uint16(i), i%2 == 0)
		f.load(t, boards)
		clusters += len(f.rHits) + len(f.phiHits)
		r := f.Find(nil)
		tracks, spatial = tracks+r.Tracks, spatial+r.SpatialTracks
		if len(r.Primaries) > 0 && math.Abs(r.Primaries[0].Z-at.z) < 0.5 {
			p := r.Primaries[0]
			s.primary++
			s.dz += (p.Z - at.z) * (p.Z - at.z)
			sz += p.SZ * p.SZ
			s.dx += (p.X - at.x) * (p.X - at.x)
		}
		if f.Verdict(&r).Decision != filter.Accepted {
			continue
		}
		if at.decay {
			s.accepted++
		} else {
			s.kept++
		}
	}
	n := float64(s.primary)
	s.dz, s.dx = math.Sqrt(s.dz/n), math.Sqrt(s.dx/n)
	t.Logf("%d of %d primaries, z off by %.1f µm (said: %.1f), x by %.1f µm; %d decays accepted, %d others; %.0f tracks, "+
		"%.1f in space, %d clusters", s.primary, 2*events, 1000*s.dz, 1000*math.Sqrt(sz/n), 1000*s.dx,
		s.accepted, s.kept, float64(tracks/2/events), float64(spatial)/2/float64(events), clusters/2/events)
	return s
}

func TestVerticesAreFound(t *testing.T) {
	events := cases.Count(400, 100)
	s := searched(t, newToy(7), events)
	if s.primary < 2*events*99/100 || s.dz > 0.02 || s.dx > 0.01 {
		t.Error("primary vertices are not found, or not where they are")
	}
	if s.accepted < events/2 || s.kept > events/25 {
		t.Errorf("of %d events each, %d with a decay are accepted, and %d without", events, s.accepted, s.kept)
	}
}

func TestNothingIsAllocated(t *testing.T) {
	toy := newToy(3)
	f := newFinder(t, toy)
	boards, _ := toy.event(1, true)
	if n := testing.AllocsPerRun(20, func() {
		f.load(t, boards)
		r := f.Find(nil)
		f.Verdict(&r)
	}); n > 0 {
		t.Errorf("%v allocations for an event", n)
	}
}

// TestAnEventDoesNotDependOnThoseBefore holds that a Finder forgets.
func TestAnEventDoesNotDependOnThoseBefore(t *testing.T) {
	toy := newToy(5)
	used := newFinder(t, toy)
	for i := range 30 {
		boards, _ := toy.event(uint16(i), i%3 == 0)
		fresh := newFinder(t, toy)
		fresh.load(t, boards)
		used.load(t, boards)
		a, b := fresh.Find(nil), used.Find(nil)
		if fmt.Sprint(a) != fmt.Sprint(b) {
			t.Fatalf("event %d: %v and %v", i, a, b)
		}
	}
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	toy := newToy(1)
	f := newFinder(t, toy)
	board := func(n int, clusters ...velo.Cluster) velo.Board {
		buf := make([]byte, velo.MaxBoardSize)
		b, err := velo.ParseBoard(buf[:velo.PutBoard(buf, 1, n, clusters, 0)])
		must.OK(t, err)
		return b
	}
	f.BeginEvent()
	must.OK(t, f.AddBoard(board(0, velo.NewCluster(5, false))))
	if f.AddBoard(board(0)) == nil || f.AddBoard(board(toy.g.Boards())) == nil {
		t.Error("a board twice, or one that is none, was taken")
	}
	small := velo.Default()
	small.R.Strips, small.Phi.Zones = 100, small.Phi.Zones[:1]
	g, err := velo.New(small)
	must.OK(t, err)
	d, err := NewDetector(g)
	must.OK(t, err)
	f = NewFinder(d)
	f.BeginEvent()
	for _, n := range []int{0, g.Boards() - 1} {
		if f.AddBoard(board(n, velo.NewCluster(velo.MaxStrips-1, false))) == nil {
			t.Errorf("board %d took a strip that it does not have", n)
		}
	}
}

func TestFilter(t *testing.T) {
	toy := newToy(7)
	d, err := NewDetector(toy.g)
	must.OK(t, err)
	f := newFilter(d)
	boards, _ := toy.event(0x2345, false)
	e := selection.Event{Number: 0x12345}
	for i, b := range boards {
		e.Fragments = append(e.Fragments, selection.Fragment{Source: uint16(i), Type: velo.BankType, Data: b})
	}
	v, err := f.Judge(time.Time{}, &e)
	must.OK(t, err)
	if !v.Decision.Valid() {
		t.Errorf("%+v", v)
	}
	e.Number++
	if _, err := f.Judge(time.Time{}, &e); err == nil {
		t.Error("fragments of another event were taken")
	}
	e.Fragments = e.Fragments[:0]
	if _, err := f.Judge(time.Time{}, &e); err == nil {
		t.Error("an event without data was judged")
	}
}

// FuzzAnyClusters holds that no clusters lead the search astray.
func FuzzAnyClusters(f *testing.F) {
	toy := newToy(2)
	boards, _ := toy.event(1, true)
	var seed []byte
	for _, b := range boards {
		for _, c := range b.Clusters() {
			seed = binary.LittleEndian.AppendUint32(seed, uint32(b.Number())<<16|uint32(c))
		}
	}
	f.Add(seed)
	finder := newFinder(f, toy)
	f.Fuzz(func(t *testing.T, data []byte) {
		toy.begin()
		for ; len(data) >= 4; data = data[4:] {
			w := binary.LittleEndian.Uint32(data)
			toy.hits[int(w>>16)%toy.g.Boards()][velo.NewCluster(int(w)%velo.MaxStrips, false)] = true
		}
		finder.BeginEvent()
		for _, b := range toy.boards(1) {
			must.OK(t, finder.AddBoard(b))
		}
		r := finder.Find(nil)
		for _, p := range r.Primaries {
			if math.IsNaN(p.X + p.Y + p.Z) {
				t.Fatalf("%+v", p)
			}
		}
	})
}

func BenchmarkFind(b *testing.B) {
	toy := newToy(7)
	f := newFinder(b, toy)
	var all [][]velo.Board
	for i := range 50 {
		boards, _ := toy.event(uint16(i), i%2 == 0)
		all = append(all, boards)
	}
	var times [StepCount]time.Duration
	i := 0
	for b.Loop() {
		f.load(b, all[i%len(all)])
		f.Find(&times)
		i++
	}
	for n, name := range []string{"peaks", "tracks", "primary", "others", "space", "secondary"} {
		b.ReportMetric(float64(times[n].Nanoseconds())/1000/float64(i), name+"-µs/op")
	}
}
