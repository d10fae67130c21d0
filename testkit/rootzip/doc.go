// Package rootzip compresses as ROOT's library does, for tests of what reads it: nine bytes, and what the writer of
// each library gives.
//
// What the caller must do: give at most 16 MiB. It is for tests alone; depguard keeps it out of everything else.
package rootzip
