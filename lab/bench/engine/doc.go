// Package engine is the descriptor-driven transfer engine of L1-farm §7.2.2 as a pure core. Up to 64 descriptors form a
// ring; each names the place of a transfer. A trigger starts one transfer, n transfers, or transfers without end; each
// transfer uses the next descriptor. While transfers are under way, the engine keeps one more trigger and refuses
// others; a trigger generator that sees the busy line waits.
//
// It has no clock, and moves no data. What the caller must do: make a Core with New; call Step with one input at a
// time; carry out a transfer whenever Step returns Start, and call Step with Ended when the transfer is over. A trigger
// generator asks Accepts before it triggers.
//
// What it does not promise: to be safe for several goroutines.
package engine
