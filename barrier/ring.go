package barrier

import "math/bits"

// maxRounds is how many rounds a dissemination of MaxRanks has.
const maxRounds = 16

// ring tells who signals whom in a dissemination barrier, by formula.
//
// In round k rank r signals r+2^k and is signalled by r−2^k, modulo n. With
// 2^k < n the steps of two rounds differ modulo n, so sender and receiver tell
// the round, and no message has to.
type ring struct{ n int }

// rounds returns ⌈log₂n⌉.
func (g ring) rounds() int { return bits.Len(uint(g.n - 1)) }

// ahead returns the rank that r signals in a round, behind the one it waits for.
func (g ring) ahead(r, round int) int  { return (r + 1<<round) % g.n }
func (g ring) behind(r, round int) int { return (r - 1<<round + g.n) % g.n }

// round returns the round in which one rank signals another, or false if it never does.
func (g ring) round(from, to int) (int, bool) {
	step := to - from
	if step < 0 {
		step += g.n
	}
	return bits.TrailingZeros(uint(step)), step != 0 && step&(step-1) == 0
}

// adjacent reports whether one of two ranks signals the other.
func (g ring) adjacent(a, b int) bool {
	_, there := g.round(a, b)
	_, back := g.round(b, a)
	return there || back
}
