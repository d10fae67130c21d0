// Package guarded gives tests memory between pages that nobody may touch: a byte read or written beyond it ends the
// process.
//
// What the caller must do: keep nothing of it beyond the end of the test. It is for tests alone; depguard keeps it
// out of everything else.
package guarded
