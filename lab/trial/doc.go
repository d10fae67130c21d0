// Package trial is the common part of benches and sweeps: things that are measured in turn over rounds, their figures,
// the medians, the ratios of two figures of one round, and bounds on them.
//
// It puts each figure beside its limit, measured in the same round: a figure alone says as much about the machine and
// its neighbours as about the program.
//
// Everything here is a pure function but Loop, which calls the caller's. The caller draws an order (DrawOrder), has
// Loop take the turns, and puts the results of each round into a Round. From Rounds come Spreads, rows of a table
// (Fill), and the verdict on a Bound.
package trial
