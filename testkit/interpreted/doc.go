// Package interpreted runs Python programs for tests as a user would, with the package in clients/python. Paths are
// relative to the caller's folder.
//
// It starts the interpreter itself. The python3 in PATH may be a wrapper that searches the interpreter (pyenv's is),
// which takes half a second and more at each start.
//
// It is for tests alone; depguard keeps it out of everything else. Without an interpreter the test is skipped, with a
// message.
package interpreted
