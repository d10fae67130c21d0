package node

import (
	"context"
	"errors"
	"slices"

	"ringlet/node/config"
	"ringlet/readoutunit/source"
	"ringlet/tagnet"
)

// What follows is how a readout unit comes back in a run that goes on. Its process is another one, which dials all
// nodes of the view; each lets it in when it has done with the process before:
//
//	the scheduler says that the unit is gone ─► the builder unit has revoked its windows ─► allowReadmission
//	the link is over, the new process dials ─► readmissionCheck ─► clearLost: the report has it lost no more
//	when no report names it the control has it start ─► the scheduler says that it is back

// allowReadmission notes that another process may take the place of a readout unit that is gone.
func (s *session) allowReadmission(rank int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.vacatedRanks[rank] = true
}

// readmissionCheck says whether another process may take a rank; nil where a run tolerates the loss of none.
func (s *session) readmissionCheck() func(rank int) bool {
	if d := s.decisions.nodeRank; !s.toleratesReadoutLoss() && (d == config.NoUnit || !s.hasDecisionUnitOnly(d)) {
		return nil
	}
	return func(rank int) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.vacatedRanks[rank] && !s.aborted
	}
}

// clearLost takes that another process has taken a rank.
func (s *session) clearLost(rank int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.vacatedRanks, rank)
	s.lostLinkRanks = slices.DeleteFunc(slices.Clone(s.lostLinkRanks), func(r int) bool { return r == rank })
	if len(s.lostLinkRanks) == 0 && !s.aborted {
		go func() { _ = s.node.runner.Restore() }() // the state machine may be waiting for a transition
	}
}

var errNotReadmitted = errors.New(
	"the scheduler lets this readout unit take part from the beginning, and the run goes on already")

// resumeSource has a source begin with the MEP from which the unit takes part again.
func (s *session) resumeSource(ctx context.Context, src source.Source, client *tagnet.RUClient, rejoining bool) error {
	if !rejoining {
		return nil
	}
	from := client.RejoinPoint()
	if !from.Rejoined || int(from.RU) != int(s.self.GetRuIndex()) {
		return errNotReadmitted
	}
	return source.BeginAtMEP(ctx, src, from.FirstMEP)
}
