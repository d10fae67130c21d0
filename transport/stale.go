package transport

import (
	"ringlet/shmem"
	"ringlet/transport/link"
)

// stale damages the export table on purpose: the window of a share of the datagrams is looked up under a generation
// that it does not have, as if its row were stale. The table must refuse it and count it. Nothing of such a datagram is
// placed; it counts as lost, so that the peer sends it again.
type stale struct {
	directConn
	Receiver // of what is left

	// immutable
	by    *Damager
	table *shmem.Table
	peer  shmem.Peer

	// owned by the receiver
	aimed bool // the datagram in hand has been aimed, so its fate is known
	now   bool // the row is damaged for it
}

func (s *stale) Start(r Receiver) {
	s.Receiver = r
	s.directConn.Start(s)
}

// Aim has a datagram opened aside whose row is damaged.
func (s *stale) Aim(head []byte, n int) []byte {
	s.now, s.aimed = s.by.row(), true
	if s.now {
		return nil
	}
	return s.Receiver.Aim(head, n)
}

func (s *stale) Land() {
	s.aimed = false
	s.Receiver.Land()
}

func (s *stale) Miss() {
	s.aimed = false
	s.Receiver.Miss()
}

func (s *stale) Receive(d []byte) {
	if !s.aimed {
		s.now = s.by.row()
	}
	s.aimed = false
	if !s.now || !s.refused(d) {
		s.Receiver.Receive(d)
	}
}

// refused looks up the first window that a datagram writes to in the damaged row. A straggler whose window has been
// granted anew may hit the new generation; it goes the usual way, where it is refused for the one it has.
func (s *stale) refused(d []byte) bool {
	r, ok := link.Target(d)
	if !ok {
		return false
	}
	r.Gen = s.by.generation(r.Gen)
	if _, v := s.table.Acquire(s.peer, r, 0, 0, shmem.AccessNwrite); v == 0 {
		s.table.Release(r)
		return false
	}
	s.by.tables.Add(1)
	return true
}

// row says whether the row for a datagram is damaged.
func (d *Damager) row() bool { return d.rows.Float64() < d.shares.Table }

// generation turns over a bit of one.
func (d *Damager) generation(gen uint32) uint32 { return gen ^ 1<<d.rows.IntN(32) }
