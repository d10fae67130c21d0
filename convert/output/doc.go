// Package output writes rows to files for analysis: Parquet, JSON lines, and ROOT trees. Every kind has the same
// columns:
//
//	run, event, orbit, bunch, source, type, version, missing, size, data
//
// It has one table of kinds, as other packages of this project do. Open makes a file, Write adds rows, Close makes the
// file whole and synchronises it. One goroutine owns a file. Memory of a file is bounded by its row group or baskets;
// Buffered and Flush let the owner of many files bound their sum.
//
// A file that was not closed is of no use. The package does not rename, and does not resume: package conversion does.
package output
