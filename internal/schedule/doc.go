// Package schedule computes when the next item is due at a mean rate. Sources with a limited rate (L1-farm §7.2.1: the
// tag generator of programmable frequency) and measurements at a rate use it.
//
// A Pacer is pure: it has no clock and does not wait. What the caller must do: make one with NewPacer, or with
// NewPacerFunc if a function and not a rate gives the times; call NextWait and sleep until the wait is 0; tell Advance
// how many items it has sent. The first item is due at once. One goroutine uses a Pacer.
//
// What it does not promise: the distance between two items. A caller that is late catches up by at most the backlog;
// the Pacer gives up any further delay, and NextWait returns how much time is lost.
package schedule
