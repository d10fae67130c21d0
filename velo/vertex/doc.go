// Package vertex is the filter of the founding documents: it finds the tracks of an event in a silicon-strip vertex
// detector, the vertex in which they were made, and a second vertex behind it, where a particle decayed.
//
// It stands for the level-1 vertex trigger (L1-farm §3.4, TagNet-farm §II.A), in the documents' steps:
// tracks in r and z alone, the primary vertex by a histogram, tracks in space where the impact parameter is large, the
// secondary vertex. docs/design/053-filters.md says what it finds, and what it costs.
//
//  1. NewDetector computes tables of a geometry, once, or says with a GeometryError what it lacks.
//  2. NewFinder makes a Finder for each goroutine.
//  3. For each event: Begin, Add for each board, Find, Verdict. Or newFilter makes a filter.Filter of all that.
//
// Find and what it calls are pure, and allocate nothing. An event is bounded by what its boards can hold, 127 clusters
// each; lists that are full leave out what comes after.
//
// # What it does not promise
//
// Tracks are straight lines: there is no magnetic field. A track that changes its sector is found in parts or not at
// all. Of boards that are missing the search knows nothing: it finds what the others show.
package vertex
