// Package histogram writes histograms in HdrHistogram's own format. The library's encoder makes a megabyte of garbage
// for each, and a node reports several histograms twice a second (docs/design/015); Encode reuses its memory.
//
// What the caller must do: keep other goroutines from recording in a histogram while Encode runs. To read the text, use
// the library's Decode.
package histogram
