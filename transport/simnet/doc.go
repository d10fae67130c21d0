// Package simnet is a network that exists in memory only: lossy, slow, disorderly and repeatable.
//
// It has two faces. Pair joins two pure link machines and runs them in virtual time without goroutines; the same seed gives the
// same run to the byte, so properties can be tried on thousands of seeds. Network is a carrier like any other
// (transport.Network), whose delays are those of package time: under testing/synctest they cost nothing.
//
// What the caller must do: give Faults, run, and look at the machines' counters. What it does not promise: a model of queues or
// rates. It drops and delays by dice, not by congestion.
package simnet
