package node

import "ringlet/transport"

// What follows is called by the receivers of links. What arrives goes to who takes it.

// Placed takes that bytes of a peer are in place.
func (s *session) Placed(peer int, p transport.Placement) {
	for _, take := range s.placed {
		if take(peer, p) {
			return
		}
	}
}

// PlacedMany is Placed for many.
func (s *session) PlacedMany(peer int, ps []transport.Placement) {
	for _, take := range s.placedMany {
		if take(peer, ps) {
			return
		}
	}
}

// Completed takes the outcome of a write to a peer.
func (s *session) Completed(peer int, cookie uint64, err error) {
	for _, take := range s.completed {
		if take(peer, cookie, err) {
			return
		}
	}
}

// Signal takes a signal of a peer.
func (s *session) Signal(peer int, payload []byte) {
	if err := s.signal(peer, payload); err != nil {
		s.counters.BadSignals.Add(1)
		s.node.log.Warn("a signal was not used", "peer", s.view.GetMembers()[peer].GetName(), "err", err)
	}
}

// Refused takes that a write of a peer was refused.
func (s *session) Refused(peer int, p transport.Placement, err error) {
	if ru, readout := s.ruByRank[peer]; readout && s.losses.isAbsent(ru) {
		s.counters.WritesLate.Add(1) // of a readout unit that was taken for gone before it was
		return
	}
	s.counters.WritesRefused.Add(1)
	s.node.log.Warn("refused a peer's write", "peer", s.view.GetMembers()[peer].GetName(), "window", p.Ref.Window,
		"offset", p.Offset, "length", p.Length, "err", err)
}

// Malformed takes that a datagram of a peer was not understood.
func (s *session) Malformed(peer int, err error) {
	s.counters.Malformed.Add(1)
	s.node.log.Warn("dropped a malformed datagram", "peer", s.view.GetMembers()[peer].GetName(), "err", err)
}
