package transport

import (
	"ringlet/shmem"
	"ringlet/transport/link"
)

// staleConn damages the export table on purpose: the window of a share of the datagrams is looked up under a generation
// that it does not have, as if its row were stale. The table must refuse it and count it. Nothing of such a datagram is
// placed; it counts as lost, so that the peer sends it again.
type staleConn struct {
	directConn
	Receiver // of what is left

	// immutable
	damager *Damager
	table   *shmem.Table
	peer    shmem.Peer

	// owned by the receiver
	reserveCalled bool // Reserve was called for the datagram in hand, so its fate is known
	rowDamaged    bool // the row is damaged for it
}

func (s *staleConn) Start(r Receiver) {
	s.Receiver = r
	s.directConn.Start(s)
}

// Reserve has a datagram opened aside whose row is damaged.
func (s *staleConn) Reserve(head []byte, n int) []byte {
	s.rowDamaged, s.reserveCalled = s.damager.drawTableDamage(), true
	if s.rowDamaged {
		return nil
	}
	return s.Receiver.Reserve(head, n)
}

func (s *staleConn) Commit() {
	s.reserveCalled = false
	s.Receiver.Commit()
}

func (s *staleConn) Abort() {
	s.reserveCalled = false
	s.Receiver.Abort()
}

func (s *staleConn) Receive(d []byte) {
	if !s.reserveCalled {
		s.rowDamaged = s.damager.drawTableDamage()
	}
	s.reserveCalled = false
	if !s.rowDamaged || !s.refused(d) {
		s.Receiver.Receive(d)
	}
}

// refused looks up the first window that a datagram writes to in the damaged row. A straggler whose window has been
// granted anew may hit the new generation; it goes the usual way, where it is refused for the one it has.
func (s *staleConn) refused(d []byte) bool {
	r, ok := link.FirstTarget(d)
	if !ok {
		return false
	}
	r.Gen = s.damager.damageGeneration(r.Gen)
	if _, v := s.table.Acquire(s.peer, r, 0, 0, shmem.AccessNwrite); v == 0 {
		s.table.Release(r)
		return false
	}
	s.damager.damagedTables.Add(1)
	return true
}

// drawTableDamage says whether the row for a datagram is damaged.
func (d *Damager) drawTableDamage() bool { return d.tableRand.Float64() < d.shares.TableShare }

// damageGeneration turns over a bit of one.
func (d *Damager) damageGeneration(gen uint32) uint32 { return gen ^ 1<<d.tableRand.IntN(32) }
