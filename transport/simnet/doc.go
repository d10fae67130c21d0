// Package simnet is a network that exists in memory only: lossy, slow, disorderly and repeatable.
//
// It stands for the wires of the founding documents where a test must not depend on real ones, as TagNet-farm's
// simulation of the torus did for the farm. It has two faces. Pair joins two pure link machines and runs them in
// virtual time without goroutines; the same seed gives the same run to the byte, so properties can be tried on
// thousands of seeds. A Fabric joins named nodes; each node's Network is a carrier like any other (transport.Network),
// whose delays are those of package time: under testing/synctest they cost nothing.
//
// What the caller must do: for a Pair, give Faults, Run, and look at the machines' counters; for a Fabric, make the
// nodes, give each one's Network to transport.New, and close the Networks after the endpoints.
//
// What it does not promise: a model of queues or rates. It drops and delays by dice, not by congestion. A Fabric is not
// repeatable to the byte, since goroutines take turns as they like; its dice are.
package simnet
