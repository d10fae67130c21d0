// Package guarded gives tests memory between two protected pages: a read or write beyond the memory ends the process.
//
// What the caller must do: not use the memory after the end of the test. It is for tests alone; depguard keeps it out
// of everything else.
package guarded
