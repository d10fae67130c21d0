package barrier

import (
	"math"
	"time"
)

// Straggler says who kept an epoch from ending, as a rank leaves it: the rank that
// entered last. See "Who held the phase" in the package comment for what the
// times hold.
type Straggler struct {
	Rank   int           // entered last; Nobody if there was nobody to wait for
	Behind time.Duration // how long after the last but one
	Span   time.Duration // how long after the first

	MinOffer uint32 // the smallest Offer of all ranks
}

// Nobody is Straggler.Rank for kind None and for N = 1.
const Nobody = -1

// Lag is Straggler on the wire, for the ranks that a message speaks for.
type Lag struct {
	Last   uint16 // the rank that entered last
	Behind uint32 // µs after the last but one; unknownLag if it is the only one
	Span   uint32 // µs after the first

	MinOffer uint32 // the smallest offer
}

// unknownLag stands for an unknown time, and for every longer one: 71 minutes.
const unknownLag = math.MaxUint32

func (l Lag) straggler() Straggler {
	return Straggler{
		Rank:     int(l.Last),
		Behind:   time.Duration(l.Behind) * time.Microsecond,
		Span:     time.Duration(l.Span) * time.Microsecond,
		MinOffer: l.MinOffer,
	}
}

// entrySet knows of a set of ranks inside an epoch when they entered: µs of this
// rank's clock. A set known from a message is taken to have become complete when
// the message came, since its sender sends in the step that completes it.
type entrySet struct {
	last     int
	lastAt   int64 // when last entered
	secondAt int64 // when the one before it did
	firstAt  int64
	minOffer uint32 // offered
}

// emptySet is the empty set.
func emptySet() entrySet {
	return entrySet{
		last:     Nobody,
		lastAt:   math.MinInt64,
		secondAt: math.MinInt64,
		firstAt:  math.MaxInt64,
		minOffer: math.MaxUint32,
	}
}

// singleEntry is the set of one rank, with what it offers: the one before it is unknown.
func singleEntry(rank int, now int64, offer uint32) entrySet {
	return entrySet{
		last:     rank,
		lastAt:   now,
		secondAt: now - unknownLag,
		firstAt:  now,
		minOffer: offer,
	}
}

// entrySet is the set that a message speaks for.
func (l Lag) entrySet(now int64) entrySet {
	return entrySet{
		last:     int(l.Last),
		lastAt:   now,
		secondAt: now - int64(l.Behind),
		firstAt:  now - int64(l.Span),
		minOffer: l.MinOffer,
	}
}

// merge adds a set. Where both have the same last rank it was seen over two ways,
// and the sooner time is nearer the truth.
func (p *entrySet) merge(q entrySet) {
	switch {
	case q.last == p.last:
		p.lastAt = min(p.lastAt, q.lastAt)
		p.secondAt = min(max(p.secondAt, q.secondAt), p.lastAt)
	case q.lastAt > p.lastAt:
		p.secondAt = max(p.lastAt, q.secondAt)
		p.last, p.lastAt = q.last, q.lastAt
	default:
		p.secondAt = max(p.secondAt, q.lastAt)
	}
	p.firstAt = min(p.firstAt, q.firstAt)
	p.minOffer = min(p.minOffer, q.minOffer)
}

// lag is what a message says of the set, which is not empty.
func (p *entrySet) lag() Lag {
	return Lag{
		Last:     uint16(p.last),
		Behind:   uint32(min(p.lastAt-p.secondAt, unknownLag)),
		Span:     uint32(min(p.lastAt-p.firstAt, unknownLag)),
		MinOffer: p.minOffer,
	}
}
