// Package interpreted starts programs in Python for tests: it stands for a user who runs a program with the package in
// clients/python. The caller gives the paths as its own folder sees them.
//
// What is started is the interpreter itself. The python3 of a PATH may be a program that looks for it (pyenv's does),
// which takes half a second and more each time; a test that starts many would wait for that program alone.
//
// It is for tests alone; depguard keeps it out of everything else. It does not promise that there is an interpreter: a
// test is skipped without one, and says so.
package interpreted
