// Package shmring is the source `shm:NAME`: a ring in shared memory that a front-end's own process fills. The ring is
// shmem/ring, its layout docs/format/ring.md, and who fills it from C, Python or Go finds docs/clients.md.
//
// It stands for the Reader and the Writer of LHCb-EB §III.B.
//
// What the caller must do: Open makes the ring and its name; then it is a live.Feed, with the order that live.Feed asks
// for. Close takes the name away and tells the front-end.
//
// It does not promise that fragments outlive this process: what the front-end has committed and this process has not
// taken is gone with the ring. The front-end can keep what is not yet safe; the ring tells it.
package shmring
