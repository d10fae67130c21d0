// Package vertex is the filter of the founding documents: it finds the tracks of an event in a silicon-strip vertex
// detector, the vertex in which they were made, and a second vertex behind it, where a particle decayed.
//
// It stands for the level-1 vertex trigger (L1-farm §3.4, TagNet-farm §II.A), in the documents' steps:
// tracks in r and z alone, the primary vertex by a histogram, tracks in space where the impact parameter is large, the
// secondary vertex. docs/design/053-filters.md says what it finds, and what it costs.
//
//  1. NewDetector computes the tables of a geometry, once; a GeometryError says why a detector cannot be searched.
//  2. NewFinder makes a Finder for each goroutine.
//  3. For each event: BeginEvent, AddBoard for each board, Find, Verdict. Kind makes a filter.Filter of these.
//
// Find does no I/O and allocates nothing. A board has at most 127 clusters, which bounds an event; when a list is full,
// the search leaves out the rest.
//
// # What it does not promise
//
// Tracks are straight lines: there is no magnetic field. A track that changes its sector is found in parts or not at
// all. If boards are missing, the search uses the others, and does not say so.
package vertex
