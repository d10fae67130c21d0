package vertex

import (
	"fmt"

	"ringlet/event/velo"
)

// Step 1: the clusters of an event, sorted by where they are.

// phiHit is a cluster on a φ plane: its azimuth at the inner radius of its zone, from where the sensor begins.
type phiHit = float64

// Begin forgets the event before.
func (f *Finder) Begin() {
	f.r, f.phi = f.r[:0], f.phi[:0]
	clear(f.spans)
	clear(f.phiAt[0])
	clear(f.phiAt[1])
}

// Add takes the fragment of a board. The bytes are not needed afterwards.
func (f *Finder) Add(fragment velo.Board) error {
	number, n := fragment.Number(), fragment.Len()
	if number >= len(f.detector.boards) {
		return fmt.Errorf("a fragment is of board %d, and the detector has boards 0 to %d", number, len(f.detector.boards)-1)
	}
	b := &f.detector.boards[number]
	if n > 0 && fragment.Cluster(n-1).Strip() >= b.strips {
		return fmt.Errorf("board %d has a cluster at strip %d, and the board has strips 0 to %d", number,
			fragment.Cluster(n-1).Strip(), b.strips-1)
	}
	if b.phi {
		return f.addPhi(b, fragment)
	}
	return f.addR(b, fragment)
}

// addR appends the hits of an r board. Its clusters are in order of the strips, so the hits of a sector are in order of
// the radius.
func (f *Finder) addR(b *board, fragment velo.Board) error {
	if f.spans[f.spanIndex(b.sector, b.plane)].known {
		return errDuplicateBoard(fragment)
	}
	f.spans[f.spanIndex(b.sector, b.plane)].known = true
	sector, base := b.sector, 0
	from := int32(len(f.r))
	for _, c := range fragment.Clusters() {
		for c.Strip() >= base+f.detector.strips {
			f.closeSpan(sector, b.plane, from)
			sector, base, from = sector+1, base+f.detector.strips, int32(len(f.r))
		}
		p := &f.detector.radii[clustersPerStrip*(c.Strip()-base)+c.Size()-1]
		f.r = append(f.r, rHit{r: p.r, weight: p.weight})
	}
	f.closeSpan(sector, b.plane, from)
	return nil
}

// span is where the hits of a plane are in the list.
type span struct {
	first, last int32
	known       bool // the board has come
}

func (f *Finder) closeSpan(sector, plane int, from int32) {
	s := &f.spans[f.spanIndex(sector, plane)]
	s.first, s.last = from, int32(len(f.r))
}

// spanIndex is the place in at of a sector's plane.
func (f *Finder) spanIndex(sector, plane int) int { return sector*f.detector.maxPlanes + plane }

// bucket are the hits of a sector's plane, in order of the radius.
func (f *Finder) bucket(sector, plane int) (first, last int32) {
	s := &f.spans[f.spanIndex(sector, plane)]
	return s.first, s.last
}

// addPhi appends the hits of a φ board: zone by zone, and in order of the azimuth.
func (f *Finder) addPhi(b *board, fragment velo.Board) error {
	zones := f.detector.zones
	spans := f.phiAt[b.side][b.plane*len(zones):][:len(zones)]
	if spans[0].known {
		return errDuplicateBoard(fragment)
	}
	spans[0].known, spans[0].first = true, int32(len(f.phi))
	zone := 0
	for _, c := range fragment.Clusters() {
		at := clustersPerStrip*c.Strip() + c.Size() - 1
		for at >= zones[zone].end {
			spans[zone].last = int32(len(f.phi))
			zone++
			spans[zone].first = int32(len(f.phi))
		}
		f.phi = append(f.phi, f.detector.azimuth[at])
	}
	spans[zone].last = int32(len(f.phi))
	return nil
}

func errDuplicateBoard(fragment velo.Board) error {
	return fmt.Errorf("there are two fragments of board %d in one event", fragment.Number())
}

// hits are those of a sector's plane, in order of the radius.
func (f *Finder) hits(sector, plane int) []rHit {
	s := &f.spans[f.spanIndex(sector, plane)]
	return f.r[s.first:s.last]
}
