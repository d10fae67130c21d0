package node

import (
	"errors"
	"slices"

	"ringlet/builderunit"
	"ringlet/node/fsm"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
)

// isExpendable says whether a run tolerates that the link to a rank is down: it holds one unit and nothing else, and so
// many of that role are left as the policy wants. How many are lost in all is for the control to judge, which sees
// every node.
func (s *session) isExpendable(rank int) bool {
	m := s.view.GetMembers()[rank]
	readout, builder := s.cfg.LossPoliciesInRun()
	switch {
	case m.GetReadout() && m.GetBuilder():
		return false
	case s.hasDecisionUnitOnly(rank):
		return true
	case m.GetReadout():
		return readout.Tolerates(s.cfg.RUs - 1)
	}
	return m.GetBuilder() && builder.Tolerates(s.cfg.BUs-1)
}

// expendableBuilders is the same by builder unit.
func (s *session) expendableBuilders() []bool {
	out := make([]bool, len(s.buRanks))
	for bu, rank := range s.buRanks {
		out[bu] = s.isExpendable(rank)
	}
	return out
}

// toleratesReadoutLoss says whether a run tolerates that the link to any other readout unit is down.
func (s *session) toleratesReadoutLoss() bool { return slices.ContainsFunc(s.ruRanks, s.isExpendable) }

// onLinkDown takes the end of a link. That to a node without which the run goes on is noted: the readout unit gives up
// what it had under way to a builder unit, and the scheduler what that had; of a readout unit the scheduler tells. Any
// other is a fault.
func (s *session) onLinkDown(rank int, err error) {
	if rank == s.decisions.nodeRank {
		s.onDecisionNodeLost()
	}
	if unit := s.decisions.unit.Load(); unit != nil {
		unit.RankLost(rank)
	}
	if !s.isExpendable(rank) {
		s.reportFault("transport", err)
		return
	}
	s.mu.Lock()
	s.lostLinkRanks = append(s.lostLinkRanks, rank)
	if s.hasDecisionUnitOnly(rank) {
		s.vacatedRanks[rank] = true // nothing is held for it, so another process may take its place at once
	}
	dead := s.aborted
	s.mu.Unlock()
	if ru := s.ru.Load(); ru != nil {
		ru.HandleLinkDown(rank)
	}
	if !dead {
		go s.reportDegraded(err) // the state machine may be waiting for a transition that this call holds up
	}
}

// dropLink ends the link to a unit that the scheduler says is lost, so that what is under way to it is over now and not
// when the link finds out.
func (s *session) dropLink(role tagnet.Role, unit int) {
	ranks := s.buRanks
	if role == tagnet.Readout {
		ranks = s.ruRanks
	}
	if unit >= len(ranks) {
		return
	}
	rank := ranks[unit]
	if rank == int(s.self.GetRank()) || !s.isExpendable(rank) {
		return
	}
	s.endpoint.DropLink(rank, errUnitLost)
	if role == tagnet.Readout && !s.self.GetBuilder() {
		s.allowReadmission(rank)
	}
}

var errUnitLost = errors.New("its unit is lost to the scheduler")

// absenceHandler takes, for the builder unit, which readout units have gone and which are back, as a session with
// the scheduler tells it from the beginning on.
func (s *session) absenceHandler() func([]tagnet.Absence) {
	seen := 0
	return func(all []tagnet.Absence) {
		s.mu.Lock()
		applied := min(max(0, s.absencesSeen-seen), len(all)) // by an earlier session
		seen += len(all)
		s.absencesSeen = max(s.absencesSeen, seen)
		s.mu.Unlock()
		for _, a := range all[applied:] {
			s.applyAbsence(a)
		}
	}
}

// applyAbsence takes one of them.
func (s *session) applyAbsence(a tagnet.Absence) {
	bu := s.bu.Load()
	if bu == nil {
		return
	}
	s.noteAbsence(a)
	var err error
	if a.Rejoined {
		err = bu.MarkRUBack(int(a.RU), a.FirstMEP)
	} else {
		s.dropLink(tagnet.Readout, int(a.RU))
		if err = bu.MarkRUGone(int(a.RU)); err == nil {
			s.allowReadmission(s.ruRanks[a.RU])
		}
	}
	if err != nil {
		s.reportFault("builder unit", err)
	}
}

// isReadoutGone says whether the builder unit here takes a readout unit for gone now.
func (s *session) isReadoutGone(ru int) bool {
	bu := s.bu.Load()
	return bu != nil && bu.IsRUGone(ru)
}

// missingReports tells what readout units were taken to lack in what is built here.
func (s *session) missingReports() (out []*nodev1.Missing) {
	bu := s.bu.Load()
	if bu == nil {
		return nil
	}
	for ru, m := range bu.MissingByRU() {
		if m.MEPs > 0 {
			out = append(out, &nodev1.Missing{
				RuIndex:  uint32(ru),
				Meps:     m.MEPs,
				Events:   m.Events,
				FirstMep: m.FirstMEP,
				LastMep:  m.LastMEP,
			})
		}
	}
	return out
}

// badDataText is what a node says of a readout unit whose data do not fit, before why.
const badDataText = "what it sends does not fit"

// tolerateBadData takes that data of a readout unit do not fit, and says whether the builder unit goes on without them.
// The control hears of it and has the run do without that readout unit.
func (s *session) tolerateBadData(bad *builderunit.DataError) (tolerated bool) {
	rank := s.ruRanks[bad.RU]
	if rank == int(s.self.GetRank()) || !s.isExpendable(rank) {
		return false
	}
	why := s.node.makeCause(badDataText, bad)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.absentReadouts[bad.RU] {
		return true // what it sent before
	}
	if !slices.ContainsFunc(s.badReadouts, func(c fsm.Cause) bool { return c.Component == why.Component }) {
		s.badReadouts = append(s.badReadouts, why)
	}
	return true
}

// noteAbsence notes who has gone or come back: whoever has gone needs no accusation any more.
func (s *session) noteAbsence(a tagnet.Absence) {
	ru, name := int(a.RU), s.node.readoutName(int(a.RU))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.absentReadouts == nil {
		s.absentReadouts = map[int]bool{}
	}
	s.absentReadouts[ru] = !a.Rejoined
	s.badReadouts = slices.DeleteFunc(s.badReadouts, func(c fsm.Cause) bool { return c.Component == name })
}

// badPeerCauses tells of them.
func (s *session) badPeerCauses() (all []*nodev1.Cause) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.badReadouts {
		all = append(all, causeMessage(c))
	}
	return all
}

// reportDegraded tells that the node goes on without a peer.
func (s *session) reportDegraded(err error) {
	if refused := s.node.runner.Degrade(s.node.makeCause("transport", err)); refused != nil {
		s.node.logTooLate("a link that is down", err, refused)
	}
}

// hasDecisionUnitOnly says that a node has the decision unit, and no other: whatever becomes of it, events are built.
func (s *session) hasDecisionUnitOnly(rank int) bool {
	m := s.view.GetMembers()[rank]
	return rank == s.decisions.nodeRank && !m.GetReadout() && !m.GetBuilder()
}

// lostRanks are the ranks of these nodes.
func (s *session) lostRanks() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lostLinkRanks)
}

// lostPeers names the nodes to which the link is down, and without which the run goes on.
func (s *session) lostPeers() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rank := range s.lostLinkRanks {
		names = append(names, s.view.GetMembers()[rank].GetName())
	}
	return names
}

// replayLostLinks tells a readout unit that is new which links were down before it was there.
func (s *session) replayLostLinks() {
	s.mu.Lock()
	lost := s.lostLinkRanks
	s.mu.Unlock()
	for _, rank := range lost {
		s.ru.Load().HandleLinkDown(rank)
	}
}

// tolerantSignaler signals to ranks. What does not reach one without which the run goes on is lost with it: the
// scheduler tells the units that it is gone.
type tolerantSignaler struct{ s *session }

func (b tolerantSignaler) Signal(rank int, payload []byte) error {
	err := b.s.endpoint.Signal(rank, payload)
	if err != nil && b.s.view.GetMembers()[rank].GetReadout() && b.s.isExpendable(rank) {
		return nil
	}
	return err
}
