package shmem

import (
	"sync/atomic"
	"time"
)

// Bell wakes goroutines of other processes that sleep in the kernel until something in shared memory has changed.
//
// Who changes something stores it atomically and then rings. Who waits calls Announce, looks whether what it wants is
// there, calls Sleep if not, and Retire in any case, and looks again. A ring without waiters is one load.
type Bell struct{ b bell }

// BellAt is the bell that lies at mem[off:off+8], zero at first. The memory must stay mapped while the Bell is used.
func BellAt(mem []byte, off int) Bell {
	return Bell{bell{seq: word32(mem, off), waiters: word32(mem, off+4)}}
}

// Ring wakes all who have announced that they wait. Nobody waiting, it makes no system call.
func (b Bell) Ring() { b.b.ring() }

// RingAll wakes all sleepers, and makes those that are about to sleep look again.
func (b Bell) RingAll() { b.b.ringAll() }

// Announce tells who rings that somebody waits.
func (b Bell) Announce() (seq uint32) {
	b.b.waiters.Add(1)
	return b.b.seq.Load()
}

// Sleep returns when the bell rang after Announce, when patience is over, or for no reason.
func (b Bell) Sleep(seq uint32, patience time.Duration) { b.b.sleep(seq, patience) }

// Retire takes back Announce.
func (b Bell) Retire() { b.b.waiters.Add(^uint32(0)) }

// Word64 is the aligned 64-bit word at mem[off:off+8], for memory that processes share.
func Word64(mem []byte, off int) *atomic.Uint64 { return word64(mem, off) }
