package readoutunit

import (
	"math"

	"ringlet/event/placing"
	"ringlet/tagnet"
)

// left is what a readout unit knows of builder units that were excluded, or whose link is down. What was not sent to
// one by a token that is withdrawn is over at once. What was sent is waited for by nobody, but its memory is the
// network's until the write has its outcome or the link is down.
type left struct {
	valid   []uint64    // by builder unit: tokens of cycles before this one are withdrawn
	lost    []bool      // by builder unit: there is no link to it any more
	writes  []int       // by builder unit: writes under way that are left
	times   []uint32    // by builder unit: exclusions that came
	excl    []Exclusion // not settled
	told    uint64      // exclusions that came
	tokens  uint64      // that were withdrawn, and by which nothing was written
	failed  uint64      // writes that had no outcome when the link went down; they are among tokens
	tooLate uint64      // grants of windows that are not wanted any more
}

// Exclusion is one of a builder unit.
type Exclusion struct {
	BU     int
	Number uint64 // its place among all that came
	Times  uint32 // exclusions of this builder unit so far, with this one
}

func newLeft(bus int) left {
	return left{
		valid:  make([]uint64, bus),
		lost:   make([]bool, bus),
		writes: make([]int, bus),
		times:  make([]uint32, bus),
	}
}

// forever is the cycle before which all tokens for a lost builder unit are withdrawn.
const forever = math.MaxUint64

// exclude takes an exclusion; one that is known changes nothing else.
func (l *left) exclude(w tagnet.Withdrawal) {
	if int(w.BU) < len(l.valid) {
		l.valid[w.BU] = max(l.valid[w.BU], w.Before)
		l.times[w.BU]++
		l.excl = append(l.excl, Exclusion{int(w.BU), l.told, l.times[w.BU]})
	}
	l.told++
}

// settled gives the next exclusion of which nothing is under way any more, each once. One of a lost builder unit never
// is.
func (l *left) settled() (x Exclusion, ok bool) {
	for i, x := range l.excl {
		if l.writes[x.BU] == 0 && !l.lost[x.BU] {
			l.excl = append(l.excl[:i], l.excl[i+1:]...)
			return x, true
		}
	}
	return Exclusion{}, false
}

// late says that a grant is of a transfer that its builder unit's exclusion has ended, and counts it.
func (l *left) late(bu int, t *Transfer, g *placing.Grant) bool {
	if l.valid[bu] == 0 || t != nil && t.Stage == stageAnnounced && t.MEP == g.MEP && uint32(t.Attempt) == g.Attempt {
		return false
	}
	l.tooLate++
	return true
}

// Leftovers counts what became of tokens for builder units that were excluded or lost.
type Leftovers struct {
	Withdrawn  uint64 `help:"tokens by which nothing was written, since their builder unit was excluded or lost"`
	Failed     uint64 `count:"writes_lost" help:"writes under way to a builder unit when it was excluded or lost"`
	LateGrants uint64 `help:"windows granted by a builder unit that was excluded meanwhile"`
}

func (l *left) counts() Leftovers { return Leftovers{l.tokens, l.failed, l.tooLate} }

// Void tells that the token of a cycle for a builder unit is withdrawn.
func (s *Transfers) Void(cycle uint64, bu int) bool { return cycle < s.left.valid[bu] }

// leave ends what is to be done for a token that is withdrawn.
func (s *Transfers) leave(t *Transfer) {
	switch t.Stage {
	case stageAnnounced, stageGranted:
		t.Stage = stageDone
		s.open--
		s.left.tokens++
	case stageSent:
		t.Stage = stageLeft
		s.open--
		s.sent--
		s.left.writes[t.BU]++
	}
}

// Withdraw takes the exclusion of a builder unit. It concerns all tokens that are here: those that are good come behind
// it.
func (s *Transfers) Withdraw(w tagnet.Withdrawal) {
	s.left.exclude(w)
	for i := range s.places {
		if t := &s.places[i]; t.BU == w.BU {
			s.leave(t)
		}
	}
}

// Lose takes that the link to a builder unit is down: nothing sent to it will have an outcome any more. All tokens for
// it that are still to come are withdrawn.
func (s *Transfers) Lose(bu int) {
	if s.left.lost[bu] {
		return
	}
	s.left.valid[bu], s.left.lost[bu] = forever, true
	for i := range s.places {
		t := &s.places[i]
		if int(t.BU) != bu {
			continue
		}
		if s.leave(t); t.Stage == stageLeft {
			t.Stage = stageDone
			s.left.writes[bu]--
			s.left.failed++
			s.left.tokens++
		}
	}
}

// Lost tells whether the link to a builder unit is down.
func (s *Transfers) Lost(bu int) bool { return s.left.lost[bu] }

// Settled gives the next exclusion of which nothing is under way any more, each once.
func (s *Transfers) Settled() (Exclusion, bool) { return s.left.settled() }

// Leftovers counts what became of withdrawn tokens.
func (s *Transfers) Leftovers() Leftovers { return s.left.counts() }

// LeftWrites is the number of writes under way that nobody waits for.
func (s *Transfers) LeftWrites() (n int) {
	for _, w := range s.left.writes {
		n += w
	}
	return n
}
