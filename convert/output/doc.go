// Package output writes rows to files for analysis: Parquet, JSON lines, ROOT trees, HDF5 and npz. Every kind has the
// same columns:
//
//	run, event, orbit, bunch, source, type, version, missing, size, data
//
// Kinds is the table of formats. Open creates a file, Write adds rows, Close completes the file and syncs it. One
// goroutine owns a file. The memory of a file is bounded by its row group or baskets; with Buffered and Flush the owner
// of many files bounds their sum.
//
// A file without Close is unusable. Package conversion renames files and resumes conversions.
package output
