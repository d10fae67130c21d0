// Package doctor checks a host before a run: socket buffers, packet sizes, memory, ports, disk, clocks.
//
// It gives a shift crew an answer to "what is wrong and what do I do", and is for LHCb-EB §III.A. Package ecs/diagnosis
// finds what is wrong during a run.
//
// The caller says in Options where to look, reads Facts with Read, and judges them with Judge, a pure function: facts
// recorded on another host get the same judgement. Wants, made by WantsOf, is what a configuration needs of the host.
//
// Read changes nothing that lasts: it binds the ports for a moment and, if there is a peer, sends UDP datagrams to a
// port on which no process listens, to learn whether they arrive. A run may fail although no check does.
package doctor
