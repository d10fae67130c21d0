// Package linked plays a link between two nodes in the simulator: two link cores of the product (transport/link) write
// into each other's memory through paths with a rate, a delay and losses.
//
// It stands for the transaction layer of SCI-bridge and NIC-crossbar (transactions with responses, echoes, repair), as
// the product does it: nothing of the core is modelled, all of it runs. The tests hold the shell against the one of
// transport/simnet, in which the core's own properties are tried: the same datagrams at the same times in the same
// order.
//
// What the caller must do: Models are those of `ringlet sim`. For another model, newPair, requests to the cores,
// scheduleTurn.
//
// What it does not promise: the time that processors take. A path has no queue that overflows: what is lost is lost by
// dice.
package linked
