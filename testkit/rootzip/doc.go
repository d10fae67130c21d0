// Package rootzip compresses as ROOT's library does, for tests of the reader: a head of nine bytes, and the output of
// the writer of each library.
//
// What the caller must do: compress at most 16 MiB at a time. It is for tests alone; depguard keeps it out of
// everything else.
package rootzip
