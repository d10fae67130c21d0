// Package hostlimits says which limits of a machine bind the data plane, and what to do about each: socket buffers, the
// MTU, UDP segmentation and aggregation, the processors and their governor, the space for shared memory, lockable
// memory.
//
// It stands for the demand that a user who measures less than the tables promise learns why from the program, not from
// a search. Read takes a Snapshot of this machine, Judge compares one with what is wanted; Judge is a pure function, so
// a snapshot may come from another machine. The caller says in Wants what the run needs; zero means that it does not
// matter. Memory and SharedMemory say what memory a process may use, and which processes share it; Tasks, how many
// there may be.
//
// It does not promise that a limit it does not name is no limit, and it changes nothing on the machine.
package hostlimits
