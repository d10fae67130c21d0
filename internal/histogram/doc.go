// Package histogram writes histograms in HdrHistogram's own format, without the garbage that the library makes: a
// megabyte for each, and a node tells several twice a second (docs/design/013-hot-path.md).
//
// What the caller must do: let nobody record in a histogram while it is written. Readers use the library's Decode.
package histogram
