package barrier

import (
	"math"
	"time"
)

// Held says who kept an epoch from ending, as a rank leaves it: the rank that
// entered last. See "Who held the phase" in the package comment for what the
// times hold.
type Held struct {
	Rank int           // entered last; Nobody if there was nobody to wait for
	By   time.Duration // how long after the last but one
	Span time.Duration // how long after the first

	Least uint32 // the smallest Offer of all ranks
}

// Nobody is Held.Rank for kind None and for N = 1.
const Nobody = -1

// Lag is Held on the wire, for the ranks that a message speaks for.
type Lag struct {
	Last uint16 // the rank that entered last
	By   uint32 // µs after the last but one; never if it is the only one
	Span uint32 // µs after the first

	Least uint32 // the smallest offer
}

// never stands for an unknown time, and for every longer one: 71 minutes.
const never = math.MaxUint32

func (l Lag) held() Held {
	return Held{
		Rank:  int(l.Last),
		By:    time.Duration(l.By) * time.Microsecond,
		Span:  time.Duration(l.Span) * time.Microsecond,
		Least: l.Least,
	}
}

// part knows of a set of ranks inside an epoch when they entered: µs of this
// rank's clock. A set known from a message is taken to have become complete when
// the message came, since its sender sends in the step that completes it.
type part struct {
	last   int
	at     int64 // when last entered
	second int64 // when the one before it did
	first  int64
	least  uint32 // offered
}

// nobodyYet is the empty set.
func nobodyYet() part {
	return part{
		last:   Nobody,
		at:     math.MinInt64,
		second: math.MinInt64,
		first:  math.MaxInt64,
		least:  math.MaxUint32,
	}
}

// alone is the set of one rank, with what it offers: the one before it is never.
func alone(rank int, now int64, offer uint32) part {
	return part{
		last:   rank,
		at:     now,
		second: now - never,
		first:  now,
		least:  offer,
	}
}

// heard is the set that a message speaks for.
func (l Lag) heard(now int64) part {
	return part{
		last:   int(l.Last),
		at:     now,
		second: now - int64(l.By),
		first:  now - int64(l.Span),
		least:  l.Least,
	}
}

// merge adds a set. Where both have the same last rank it was seen over two ways,
// and the sooner sight of it is nearer the truth.
func (p *part) merge(q part) {
	switch {
	case q.last == p.last:
		p.at = min(p.at, q.at)
		p.second = min(max(p.second, q.second), p.at)
	case q.at > p.at:
		p.second = max(p.at, q.second)
		p.last, p.at = q.last, q.at
	default:
		p.second = max(p.second, q.at)
	}
	p.first = min(p.first, q.first)
	p.least = min(p.least, q.least)
}

// lag is what a message says of the set, which is not empty.
func (p *part) lag() Lag {
	return Lag{
		Last:  uint16(p.last),
		By:    uint32(min(p.at-p.second, never)),
		Span:  uint32(min(p.at-p.first, never)),
		Least: p.least,
	}
}
