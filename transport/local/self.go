package local

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"ringlet/internal/invariants"
	"ringlet/shmem"
	"ringlet/shmem/ring"
)

// In a node's link to itself both processes are one: the mailbox is memory of this process, the table is the node's
// own, and waking a sleeper takes no system call.

// NewSelf makes a node's link to itself; call Start next. Table need not be shared, and Self is Peer.
func NewSelf(cfg Config) *Link {
	if cfg.Ring == 0 {
		cfg.Ring = defaultRing
	}
	mem := make([]byte, ring.HeaderSize+cfg.Ring)
	made := ring.Init(mem, ring.Settings{Use: ring.Messages, LargestRecord: largestRecord})
	in, read := ring.OpenConsumer("this process", mem, ring.Messages)
	out, written := ring.OpenProducer("this process", mem)
	err := errors.Join(made, read, written)
	invariants.Check(err == nil, "the mailbox of a link to oneself: %v", err)
	arrivalBell, freedBell := newProcessBell(), newProcessBell()
	in.RecordsBell, in.SpaceBell = arrivalBell, freedBell
	out.RecordsBell, out.SpaceBell = arrivalBell, freedBell
	l := newLink(cfg, in)
	l.peerTable, l.outbox, l.peerJoined, l.toSelf = selfTable{cfg.Table, cfg.Self}, out, true, true
	return l
}

// selfTable is a node's export table, through which the node itself writes.
type selfTable struct {
	table *shmem.Table
	self  shmem.Peer
}

func (o selfTable) Acquire(r shmem.Ref, off, n uint32, a shmem.Access) ([]byte, shmem.Violation) {
	return o.table.Acquire(o.self, r, off, n, a)
}
func (o selfTable) Release(r shmem.Ref) { o.table.Release(r) }
func (selfTable) Close() error          { return nil }

// processBell is a shmem.Bell for goroutines of one process. No peer can die without a wake-up there, so Sleep has no
// time-out.
type processBell struct {
	waiters atomic.Int32

	mu   sync.Mutex // guards the next two
	seq  uint32
	rung *sync.Cond
}

func newProcessBell() *processBell {
	b := &processBell{}
	b.rung = sync.NewCond(&b.mu)
	return b
}

func (b *processBell) HasWaiters() bool { return b.waiters.Load() != 0 }

func (b *processBell) Wake() {
	if b.HasWaiters() {
		b.ForceWake()
	}
}

func (b *processBell) ForceWake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seq++
	b.rung.Broadcast()
}

func (b *processBell) AddWaiter() (seq uint32) {
	b.waiters.Add(1)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seq
}

func (b *processBell) Sleep(seq uint32, _ time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.seq == seq {
		b.rung.Wait()
	}
}

func (b *processBell) RemoveWaiter() { b.waiters.Add(-1) }
