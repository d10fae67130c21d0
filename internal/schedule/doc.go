// Package schedule says when the next of many things is due at a mean rate. Sources that are held to a rate (L1-farm
// §7.2.1: the tag generator of programmable frequency) and measurements at a rate use it.
//
// A Pacer is pure: it has no clock and waits for nobody. What the caller must do: make one with NewPacer, or with
// NewPacerFunc where something else than a rate says when things are due; ask NextWait until nothing is left to wait
// for; tell Advance how many things went. The first thing is due at once. One goroutine uses a Pacer.
//
// What it does not promise: the distance between two things. Who was late catches up, as far as the backlog goes. What
// is later than that is given up, and NextWait says how much time that was.
package schedule
