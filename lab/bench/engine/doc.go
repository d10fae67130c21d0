// Package engine is the descriptor-driven transfer engine of L1-farm §7.2.2 as a pure core. Up to 64
// descriptors are a ring, each with the place that a transfer goes to. A trigger starts one transfer, n transfers, or
// transfers without end. Each transfer takes the next descriptor. While transfers are under way, one trigger more is
// kept; those that come then are refused, and a trigger generator that sees the busy line waits.
//
// It has no clock, and moves no data. What the caller must do: make one with New; give Step what happens, one input at
// a time; carry out a transfer whenever it says Start, and give it Ended when that is over. Who makes triggers asks
// Takes before.
//
// What it does not promise: to be safe for several goroutines.
package engine
