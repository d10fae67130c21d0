// Package cases goes over the cases of a test: all of them, or in the short form a part.
//
// A test of a fault has a case for each discipline, carrier or shape of a run, and the same code handles a fault in
// every case. In the short form of the tests (go test -short) a test runs a third of its cases. Which third follows
// from its name: the tests of several faults have every case among them, and the same test has the same cases each
// time.
//
// Where a test does one thing again and again, Count says how often.
//
// What the caller must do: nothing but to range over it, in the test that has the cases.
package cases

import (
	"hash/fnv"
	"iter"
	"maps"
	"slices"
	"testing"
)

// shortShare is how much of the cases a short test runs: one in so many.
const shortShare = 3

// Select returns the cases that this test runs now, in the order of their names.
func Select[C any](t testing.TB, all map[string]C) iter.Seq2[string, C] {
	return func(yield func(string, C) bool) {
		for i, name := range slices.Sorted(maps.Keys(all)) {
			if testing.Short() && !runsInShort(t.Name(), i, len(all)) {
				continue
			}
			if !yield(name, all[name]) {
				return
			}
		}
	}
}

// runsInShort says whether a short test runs its i-th case of n: every third from where the test's name says, at least
// one.
func runsInShort(test string, i, n int) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(test))
	first := int(h.Sum32() % uint32(min(n, shortShare)))
	return i%shortShare == first
}

// Count is a number of a test, such as how often it does something: the first, or in the short form the second.
func Count[N any](all, short N) N {
	if testing.Short() {
		return short
	}
	return all
}
