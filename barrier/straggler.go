package barrier

import (
	"math"
	"time"
)

// Straggler is the rank that entered an epoch last, as a rank sees it when it leaves the epoch. "Who held the phase" in
// the package comment says what the times contain.
type Straggler struct {
	Rank            int           // entered last; Nobody if no rank waits for another
	AfterSecondLast time.Duration // time after the entry of the last but one
	AfterFirst      time.Duration // time after the first entry

	MinOffer uint32 // the smallest offer of all ranks
}

// Nobody is Straggler.Rank for kind None and for N = 1.
const Nobody = -1

// Lag is a Straggler in a message, for the ranks that the message speaks for.
type Lag struct {
	LastRank        uint16 // the rank that entered last
	AfterSecondLast uint32 // µs after the last but one; unknownLag if there is only one rank
	AfterFirst      uint32 // µs after the first

	MinOffer uint32 // the smallest offer
}

// unknownLag stands for an unknown time, and for all longer than 71 minutes.
const unknownLag = math.MaxUint32

func (l Lag) straggler() Straggler {
	return Straggler{
		Rank:            int(l.LastRank),
		AfterSecondLast: time.Duration(l.AfterSecondLast) * time.Microsecond,
		AfterFirst:      time.Duration(l.AfterFirst) * time.Microsecond,
		MinOffer:        l.MinOffer,
	}
}

// entrySet says when a set of ranks entered an epoch, in µs of this rank's clock. The set in a message counts as
// complete at the message's arrival, since its sender sends it in the step that completes the set.
type entrySet struct {
	lastRank     int
	lastAt       int64 // when lastRank entered
	secondLastAt int64 // when the last but one entered
	firstAt      int64
	minOffer     uint32 // the smallest offer
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

// singleEntry is the set of one rank, with its offer; the time of the last but one is unknown.
func singleEntry(rank int, now int64, offer uint32) entrySet {
	return entrySet{
		lastRank:     rank,
		lastAt:       now,
		secondLastAt: now - unknownLag,
		firstAt:      now,
		minOffer:     offer,
	}
}

// entrySet is the set of ranks that a message speaks for.
func (l Lag) entrySet(now int64) entrySet {
	return entrySet{
		lastRank:     int(l.LastRank),
		lastAt:       now,
		secondLastAt: now - int64(l.AfterSecondLast),
		firstAt:      now - int64(l.AfterFirst),
		minOffer:     l.MinOffer,
	}
}

// merge adds a set. If both have the same last rank, they saw it over two ways, and the earlier time is nearer the
// truth.
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

// lag returns what a message says of the ranks in the set. The set must not be empty.
func (p *entrySet) lag() Lag {
	return Lag{
		LastRank:        uint16(p.lastRank),
		AfterSecondLast: uint32(min(p.lastAt-p.secondLastAt, unknownLag)),
		AfterFirst:      uint32(min(p.lastAt-p.firstAt, unknownLag)),
		MinOffer:        p.minOffer,
	}
}
