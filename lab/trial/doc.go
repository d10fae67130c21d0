// Package trial is what benches and sweeps have in common: things that are measured in turn over rounds, their figures,
// the medians, the ratios of two figures of one round, and bounds that are set for them.
//
// It stands for the demand that a figure is judged beside its limit, measured in the same round: a figure alone says
// as much of the machine and its neighbours as of the program.
//
// Everything here is a pure function but Loop, which calls the caller's. The caller draws an order (DrawOrder), has a
// Loop take its turns, puts what came of them into one Round for each round, and asks: for a Spread, for a row of a
// table (Fill), for the verdict on a Bound.
package trial
