package transport

import (
	"ringlet/shmem"
	"ringlet/transport/link"
)

// staleConn damages the export table on purpose: for a share of the datagrams it looks the window up under a wrong
// generation, as if the table's row were stale. The table must refuse and count the look-up. Such a datagram is not
// placed but counts as lost, so the peer sends it again.
type staleConn struct {
	directConn
	Receiver // gets the datagrams that are not refused

	// immutable
	damager *Damager
	table   *shmem.Table
	peer    shmem.Peer

	// owned by the receiver
	reserveCalled bool // Reserve has already drawn rowDamaged for the current datagram
	rowDamaged    bool // the row is damaged for the current datagram
}

func (s *staleConn) Start(r Receiver) {
	s.Receiver = r
	s.directConn.Start(s)
}

// Reserve returns nil for a datagram with a damaged row, so that its bytes reach no window.
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

// refused looks up the first window of a datagram in the damaged row. If that window has since been granted anew, the
// flipped generation of a late datagram may by chance be the new one; refused then returns false, and the link refuses
// the datagram for its true, old generation.
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

// drawTableDamage decides by chance whether the row for a datagram is damaged.
func (d *Damager) drawTableDamage() bool { return d.tableRand.Float64() < d.shares.TableShare }

// damageGeneration flips one bit of a generation.
func (d *Damager) damageGeneration(gen uint32) uint32 { return gen ^ 1<<d.tableRand.IntN(32) }
