// Package origintest makes recordings for tests of what reads them: whole runs, but without a network. It stands for no
// idea of the documents; it is where sources and the sink for recordings meet directly.
//
// The caller gives a configuration as a user would write it, with the numbers of units. Each MEP goes to one builder
// unit after the other, two of them in the order in which they would not have been finished. Only tests may import it.
package origintest
