package node

import (
	"errors"
	"slices"
	"sync"

	"ringlet/builderunit"
	"ringlet/node/fsm"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet/core"
)

// How a node goes on without lost peers, and how a lost node rejoins a run. Its process is a new one, which dials all
// nodes of the view; each node admits it once it has finished with the units of the former process:
//
//	the scheduler reports that a readout unit is gone ─► the builder unit here has revoked its windows ─► it is over
//	the scheduler reports that a builder unit is lost ─► the readout unit here writes nothing more to it ─► it is over
//	all its units are over, and the former link; the new process dials ─► mayRejoin ─► rejoined: the node no longer
//	reports it as lost
//	no node reports it as lost ─► the control starts it ─► the scheduler reports that its units are back
//	its process ends before that ─► its units are over still, so the next process may dial at once

// losses are the peers that a session has lost while its run goes on.
type losses struct {
	mu      sync.Mutex      // guards the fields below
	links   []int           // ranks to which the link is down
	over    map[int][2]bool // by rank and role: nothing of that unit is under way here any more
	absent  map[int]bool    // readout units, by index, that the scheduler has reported as gone from this run
	accused []fsm.Cause     // readout units that have sent bad data
}

// begin forgets what the scheduler reported in the last run.
func (l *losses) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over, l.absent, l.accused = map[int][2]bool{}, map[int]bool{}, nil
}

// add records that links are down.
func (l *losses) add(ranks ...int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.links = append(l.links, ranks...)
}

// ranks are the ranks whose links are down.
func (l *losses) ranks() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.links)
}

// isLost tells that the link to a rank is down.
func (l *losses) isLost(rank int) bool { return slices.Contains(l.ranks(), rank) }

// setUnitOver records whether a rank's unit is over: nothing of it is under way here any more. It is not, once the
// scheduler has it take part again.
func (l *losses) setUnitOver(rank int, role core.Role, isOver bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over == nil { // before the first run
		l.over = map[int][2]bool{}
	}
	over := l.over[rank]
	over[role] = isOver
	l.over[rank] = over
}

func (l *losses) isUnitOver(rank int, role core.Role) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over[rank][role]
}

// remove records that the link to a rank is up again, and returns how many links are still down.
func (l *losses) remove(rank int) (remaining int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.links = slices.DeleteFunc(l.links, func(r int) bool { return r == rank })
	return len(l.links)
}

// note records that a readout unit has gone or rejoined. It drops the accusation of its node: a unit that has gone
// needs none.
func (l *losses) note(a core.Absence, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.absent[int(a.RU)] = !a.Rejoined
	l.accused = slices.DeleteFunc(l.accused, func(c fsm.Cause) bool { return c.Component == name })
}

// isAbsent tells whether the scheduler reports a readout unit as gone.
func (l *losses) isAbsent(ru int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.absent[ru]
}

// accuse records that a readout unit has sent bad data, unless it is gone: then it sent them before.
func (l *losses) accuse(ru int, why fsm.Cause) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.absent[ru] && !slices.ContainsFunc(l.accused, func(c fsm.Cause) bool { return c.Component == why.Component }) {
		l.accused = append(l.accused, why)
	}
}

// report adds the lost and the accused peers.
func (l *losses) report(to *nodev1.Report, members []*nodev1.Member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, rank := range l.links {
		to.LostPeers = append(to.LostPeers, members[rank].GetName())
	}
	for _, c := range l.accused {
		to.BadPeers = append(to.BadPeers, causeMessage(c))
	}
}

// badDataText is the subsystem text of a cause that accuses a readout unit of bad data.
const badDataText = "what it sends does not fit"

// tolerateBadData records bad data of a readout unit, and tells whether the builder unit goes on without them. The
// report accuses the readout unit, and the control excludes it.
func (b *base) tolerateBadData(bad *builderunit.DataError) (tolerated bool) {
	rank := b.ruRanks[bad.RU]
	if rank == int(b.self.GetRank()) || !b.isExpendable(rank) {
		return false
	}
	b.losses.accuse(bad.RU, b.node.makeCause(badDataText, bad))
	return true
}

// handleUnitNews handles that a unit is gone or back, by the stream of the readout unit here.
func (b *base) handleUnitNews(role core.Role, unit int, back bool) {
	ranks := b.buRanks
	if role == core.Readout {
		ranks = b.ruRanks
	}
	if unit >= len(ranks) {
		return
	}
	if !back {
		b.dropLink(ranks[unit])
	}
	if role == core.Builder || !b.self.GetBuilder() { // else the builder unit here says when it has revoked its windows
		b.losses.setUnitOver(ranks[unit], role, !back)
	}
}

// dropLink ends the link to a unit that the scheduler reports as lost, so that the writes under way to it end now,
// before the link times out.
func (b *base) dropLink(rank int) {
	if rank != int(b.self.GetRank()) && b.isExpendable(rank) {
		b.endpoint.DropLink(rank, errUnitLost)
	}
}

var errUnitLost = errors.New("its unit is lost to the scheduler")

// LinkDown handles the end of a link. For a node that the run can do without, it records the loss: the readout unit
// gives up its writes to a builder unit, and the scheduler issues that unit's MEPs again; the scheduler reports the
// loss of a readout unit. The end of any other link is a fault.
func (s *session) LinkDown(rank int, err error) {
	s.counters.LinksDown.Add(1)
	expendable := s.isExpendable(rank)
	if expendable {
		s.losses.add(rank)
	}
	for _, c := range s.components {
		c.linkLost(rank)
	}
	switch {
	case !expendable:
		s.reportFault("transport", err)
	case !s.closing.Load():
		go func() { // the state machine may wait for a transition that this call holds up
			if refused := s.node.runner.Degrade(s.node.makeCause("transport", err)); refused != nil {
				s.node.logTooLate("a link that is down", err, refused)
			}
		}()
	}
}

// mayRejoin tells whether another process may take a rank; nil if the run tolerates no loss.
func (s *session) mayRejoin() func(rank int) bool {
	for rank := range s.view.GetMembers() {
		if s.isExpendable(rank) {
			return func(rank int) bool { return !s.closing.Load() && s.isExpendable(rank) && s.isVacated(rank) }
		}
	}
	return nil
}

// isVacated tells whether this node has finished with all units of a rank. Only readout units deal with builder units;
// a node with the decision unit alone deals with neither, and hears nothing of them from the scheduler.
func (s *session) isVacated(rank int) bool {
	if s.hasDecisionUnitOnly(rank) {
		return s.losses.isLost(rank) // nothing else here depends on it
	}
	m := s.view.GetMembers()[rank]
	reads := m.GetReadout() && (s.self.GetReadout() || s.self.GetBuilder())
	builds := m.GetBuilder() && s.self.GetReadout()
	return (!reads || s.losses.isUnitOver(rank, core.Readout)) &&
		(!builds || s.losses.isUnitOver(rank, core.Builder))
}

// rejoined handles that another process has taken a rank.
func (s *session) rejoined(rank int) {
	if s.losses.remove(rank) == 0 && !s.closing.Load() {
		go func() { _ = s.node.runner.Restore() }() // the state machine may wait for a transition
	}
}
