// Package shmring is the source `shm:NAME`: a ring of fragments in shared memory that a front-end's own process fills.
// The ring is shmem/ring, its layout docs/format/ring.md; clients in C, Python and Go are in docs/clients.md.
//
// It stands for the Reader and the Writer of LHCb-EB §III.B.
//
// The caller opens the ring with Open, and then calls the methods in the order that live.Feed asks for. Close removes
// the name of the ring and tells the front-end.
//
// Fragments do not outlive this process: those that the front-end has committed and this process has not taken are
// lost with the ring. The ring tells the front-end which events are safe, so that it can keep the others.
package shmring
