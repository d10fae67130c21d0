// Package hostlimits says which limits of a machine bind the data plane, and what to do about each: socket buffers, the
// MTU, UDP segmentation and aggregation, the processors and their governor, the space for shared memory, lockable
// memory.
//
// It stands for the demand that a user who measures less than the tables promise learns the reason from the program,
// not from a search. ReadSnapshot takes a Snapshot of this machine, and FindLimits compares a snapshot with
// Requirements, where zero means that a resource does not matter. FindLimits is a pure function, so the snapshot may
// come from another machine. MemoryLimit and SharedMemory say how much memory a process may use, and which processes
// share it; TaskLimit, how many processes and threads there may be.
//
// It does not promise to name every limit, and it changes nothing on the machine.
package hostlimits
