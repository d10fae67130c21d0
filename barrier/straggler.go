package barrier

import (
	"math"
	"time"
)

// Straggler says who kept an epoch from ending, as a rank leaves it: the rank that
// entered last. See "Who held the phase" in the package comment for what the
// times hold.
type Straggler struct {
	Rank            int           // entered last; Nobody if there was nobody to wait for
	AfterSecondLast time.Duration // how long after the last but one
	AfterFirst      time.Duration // how long after the first

	MinOffer uint32 // the smallest Offer of all ranks
}

// Nobody is Straggler.Rank for kind None and for N = 1.
const Nobody = -1

// Lag is Straggler on the wire, for the ranks that a message speaks for.
type Lag struct {
	LastRank        uint16 // the rank that entered last
	AfterSecondLast uint32 // µs after the last but one; unknownLag if it is the only one
	AfterFirst      uint32 // µs after the first

	MinOffer uint32 // the smallest offer
}

// unknownLag stands for an unknown time, and for every longer one: 71 minutes.
const unknownLag = math.MaxUint32

func (l Lag) straggler() Straggler {
	return Straggler{
		Rank:            int(l.LastRank),
		AfterSecondLast: time.Duration(l.AfterSecondLast) * time.Microsecond,
		AfterFirst:      time.Duration(l.AfterFirst) * time.Microsecond,
		MinOffer:        l.MinOffer,
	}
}

// entrySet knows of a set of ranks inside an epoch when they entered: µs of this
// rank's clock. A set known from a message is taken to have become complete when
// the message came, since its sender sends in the step that completes it.
type entrySet struct {
	lastRank     int
	lastAt       int64 // when last entered
	secondLastAt int64 // when the one before it did
	firstAt      int64
	minOffer     uint32 // offered
}

// emptySet is the empty set.
func emptySet() entrySet {
	return entrySet{
		lastRank:     Nobody,
		lastAt:       math.MinInt64,
		secondLastAt: math.MinInt64,
		firstAt:      math.MaxInt64,
		minOffer:     math.MaxUint32,
	}
}

// singleEntry is the set of one rank, with what it offers: the one before it is unknown.
func singleEntry(rank int, now int64, offer uint32) entrySet {
	return entrySet{
		lastRank:     rank,
		lastAt:       now,
		secondLastAt: now - unknownLag,
		firstAt:      now,
		minOffer:     offer,
	}
}

// entrySet is the set that a message speaks for.
func (l Lag) entrySet(now int64) entrySet {
	return entrySet{
		lastRank:     int(l.LastRank),
		lastAt:       now,
		secondLastAt: now - int64(l.AfterSecondLast),
		firstAt:      now - int64(l.AfterFirst),
		minOffer:     l.MinOffer,
	}
}

// merge adds a set. Where both have the same last rank it was seen over two ways,
// and the sooner time is nearer the truth.
func (p *entrySet) merge(q entrySet) {
	switch {
	case q.lastRank == p.lastRank:
		p.lastAt = min(p.lastAt, q.lastAt)
		p.secondLastAt = min(max(p.secondLastAt, q.secondLastAt), p.lastAt)
	case q.lastAt > p.lastAt:
		p.secondLastAt = max(p.lastAt, q.secondLastAt)
		p.lastRank, p.lastAt = q.lastRank, q.lastAt
	default:
		p.secondLastAt = max(p.secondLastAt, q.lastAt)
	}
	p.firstAt = min(p.firstAt, q.firstAt)
	p.minOffer = min(p.minOffer, q.minOffer)
}

// lag is what a message says of the set, which is not empty.
func (p *entrySet) lag() Lag {
	return Lag{
		LastRank:        uint16(p.lastRank),
		AfterSecondLast: uint32(min(p.lastAt-p.secondLastAt, unknownLag)),
		AfterFirst:      uint32(min(p.lastAt-p.firstAt, unknownLag)),
		MinOffer:        p.minOffer,
	}
}
