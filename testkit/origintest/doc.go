// Package origintest makes recordings of whole runs for tests of their readers. It connects sources directly to the
// sink for recordings, without a network.
//
// The caller passes a configuration as a user would write it, with the numbers of units. MEPs go to the builder units
// in turn, and one in three is written after the next two: recordings must not depend on the order. Only tests may
// import it.
package origintest
