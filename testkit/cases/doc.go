// Package cases selects the cases of a test: all of them, or with go test -short a third.
//
// A test of a fault has a case for each discipline, carrier or shape of a run, but the same code handles the fault in
// every case. The name of the test determines its third: the same test always runs the same cases, while the tests of
// several faults together cover all of them.
//
// Count is for a test that repeats one thing: how often it does so.
//
// What the caller must do: range over Select in the test that has the cases.
package cases

import (
	"hash/fnv"
	"iter"
	"maps"
	"slices"
	"testing"
)

// shortShare: a short test runs one case in shortShare.
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

// runsInShort says whether a short test runs its i-th case of n: every third one, beginning at a case that the test's
// name determines.
func runsInShort(test string, i, n int) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(test))
	first := int(h.Sum32() % uint32(min(n, shortShare)))
	return i%shortShare == first
}

// Count is a number of a test, such as how often it repeats something: all, or short with go test -short.
func Count[N any](all, short N) N {
	if testing.Short() {
		return short
	}
	return all
}
