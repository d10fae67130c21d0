package vertex

import (
	"fmt"

	"ringlet/velo"
)

// Step 1: the clusters of an event, sorted by sector and plane.

// phiHit is a cluster on a φ plane: its azimuth at the inner radius of its zone, counted from where the sensor begins.
type phiHit = float64

// BeginEvent removes the boards of the event before.
func (f *Finder) BeginEvent() {
	f.rHits, f.phiHits = f.rHits[:0], f.phiHits[:0]
	clear(f.rSpans)
	clear(f.phiSpans[0])
	clear(f.phiSpans[1])
}

// AddBoard adds the clusters of a board's fragment. It does not keep the bytes.
func (f *Finder) AddBoard(fragment velo.Board) error {
	number, n := fragment.Number(), fragment.NumClusters()
	if number >= len(f.detector.boards) {
		return fmt.Errorf("a fragment is of board %d, and the detector has boards 0 to %d", number, len(f.detector.boards)-1)
	}
	b := &f.detector.boards[number]
	if n > 0 && fragment.Cluster(n-1).Strip() >= b.strips {
		return fmt.Errorf("board %d has a cluster at strip %d, and the board has strips 0 to %d", number,
			fragment.Cluster(n-1).Strip(), b.strips-1)
	}
	if b.isPhi {
		return f.addPhi(b, fragment)
	}
	return f.addR(b, fragment)
}

// addR appends the hits of an r board. Clusters are in order of the strips, hence the hits of a sector in order of the
// radius.
func (f *Finder) addR(b *board, fragment velo.Board) error {
	if f.rSpans[f.spanIndex(b.sector, b.plane)].boardSeen {
		return errDuplicateBoard(fragment)
	}
	f.rSpans[f.spanIndex(b.sector, b.plane)].boardSeen = true
	sector, base := b.sector, 0
	from := int32(len(f.rHits))
	for _, c := range fragment.Clusters() {
		for c.Strip() >= base+f.detector.stripsPerSector {
			f.closeSpan(sector, b.plane, from)
			sector, base, from = sector+1, base+f.detector.stripsPerSector, int32(len(f.rHits))
		}
		p := &f.detector.radii[clustersPerStrip*(c.Strip()-base)+c.Size()-1]
		f.rHits = append(f.rHits, rHit{r: p.r, weight: p.weight})
	}
	f.closeSpan(sector, b.plane, from)
	return nil
}

// span is the range of a plane's hits in the list.
type span struct {
	first, last int32
	boardSeen   bool // the event has a fragment of the board
}

func (f *Finder) closeSpan(sector, plane int, from int32) {
	s := &f.rSpans[f.spanIndex(sector, plane)]
	s.first, s.last = from, int32(len(f.rHits))
}

// spanIndex is the index in rSpans of a sector's plane.
func (f *Finder) spanIndex(sector, plane int) int { return sector*f.detector.maxPlanes + plane }

// hitRange is the range in rHits of the hits of a sector's plane, in order of the radius.
func (f *Finder) hitRange(sector, plane int) (first, last int32) {
	s := &f.rSpans[f.spanIndex(sector, plane)]
	return s.first, s.last
}

// addPhi appends the hits of a φ board: zone by zone, and in order of the azimuth.
func (f *Finder) addPhi(b *board, fragment velo.Board) error {
	zones := f.detector.zones
	spans := f.phiSpans[b.side][b.plane*len(zones):][:len(zones)]
	if spans[0].boardSeen {
		return errDuplicateBoard(fragment)
	}
	spans[0].boardSeen, spans[0].first = true, int32(len(f.phiHits))
	zone := 0
	for _, c := range fragment.Clusters() {
		at := clustersPerStrip*c.Strip() + c.Size() - 1
		for at >= zones[zone].endCluster {
			spans[zone].last = int32(len(f.phiHits))
			zone++
			spans[zone].first = int32(len(f.phiHits))
		}
		f.phiHits = append(f.phiHits, f.detector.azimuth[at])
	}
	spans[zone].last = int32(len(f.phiHits))
	return nil
}

func errDuplicateBoard(fragment velo.Board) error {
	return fmt.Errorf("there are two fragments of board %d in one event", fragment.Number())
}

// hits are those of a sector's plane, in order of the radius.
func (f *Finder) hits(sector, plane int) []rHit {
	s := &f.rSpans[f.spanIndex(sector, plane)]
	return f.rHits[s.first:s.last]
}
