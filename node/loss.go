package node

import (
	"errors"

	"ringlet/tagnet"
)

// expendable says whether a run bears that the link to a rank is down: it holds a builder unit and nothing else, and so
// many builder units are left as the policy wants. How many are lost in all is for the control to judge, which sees
// every node.
func (s *session) expendable(rank int) bool {
	m := s.view.GetMembers()[rank]
	_, builder := s.cfg.OnLoss()
	return m.GetBuilder() && !m.GetReadout() && builder.Bears(s.cfg.BUs-1)
}

// expendables is the same by builder unit.
func (s *session) expendables() []bool {
	out := make([]bool, len(s.buRanks))
	for bu, rank := range s.buRanks {
		out[bu] = s.expendable(rank)
	}
	return out
}

// linkDown takes the end of a link. That to a builder unit without which the run goes on is noted: the readout unit
// gives up what it had under way to it, and the scheduler what that had. Any other is a fault.
func (s *session) linkDown(rank int, err error) {
	if !s.me.GetReadout() || !s.expendable(rank) {
		s.fail("transport", err)
		return
	}
	s.mu.Lock()
	s.lost = append(s.lost, rank)
	dead := s.dead
	s.mu.Unlock()
	if ru := s.ru.Load(); ru != nil {
		ru.Lost(rank)
	}
	if !dead {
		go s.degradeBy(err) // the state machine may be waiting for a transition that this call holds up
	}
}

// gone ends the link to a builder unit that the scheduler says is lost, so that what is under way to it is over now and
// not when the link finds out.
func (s *session) gone(role tagnet.Role, unit int) {
	if role != tagnet.Builder {
		return
	}
	if rank := s.buRanks[unit]; s.expendable(rank) {
		s.endpoint.Drop(rank, errGone)
	}
}

var errGone = errors.New("its builder unit is lost to the scheduler")

// degradeBy tells that the node goes on without a peer.
func (s *session) degradeBy(err error) {
	if told := s.node.runner.Degrade(s.node.cause("transport", err)); told != nil {
		s.node.log.Warn("a link that is down came too late to matter", "err", err)
	}
}

// lostPeers names the builder units to which the link is down.
func (s *session) lostPeers() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rank := range s.lost {
		names = append(names, s.view.GetMembers()[rank].GetName())
	}
	return names
}

// tellLost tells a readout unit that is new which links were down before it was there.
func (s *session) tellLost() {
	s.mu.Lock()
	lost := s.lost
	s.mu.Unlock()
	for _, rank := range lost {
		s.ru.Load().Lost(rank)
	}
}
