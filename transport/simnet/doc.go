// Package simnet is a network in memory only: it loses, delays and reorders datagrams, and is repeatable.
//
// It takes the place of real wires in tests that must not depend on them, as TagNet-farm's simulation of the torus did
// for the farm. It has two forms. Pair joins two pure link machines and runs them in virtual time without goroutines;
// the same seed gives the same run to the byte, so tests can try properties with thousands of seeds. A Fabric joins
// named nodes; each node's Network is a carrier (transport.Network) whose delays are those of package time: under
// testing/synctest they take no real time.
//
// The caller must do the following: for a Pair, set Faults, Run, and check the machines' counters; for a Fabric, make
// the nodes, give each one's Network to transport.New, and close the Networks after the endpoints.
//
// The package does not model queues or rates: it drops and delays by chance, not by congestion. A Fabric is not
// repeatable to the byte, since the order of goroutines varies; its random numbers are.
package simnet
