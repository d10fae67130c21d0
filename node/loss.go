package node

import (
	"errors"
	"slices"
	"sync"

	"ringlet/builderunit"
	"ringlet/node/config"
	"ringlet/node/fsm"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet/core"
)

// What follows is how a node goes on without others, and how a readout unit comes back in a run that goes on. Its
// process is another one, which dials all nodes of the view; each lets it in when it has done with the process before:
//
//	the scheduler says that the unit is gone ─► the builder unit has revoked its windows ─► its rank is vacated
//	the link is over, the new process dials ─► mayRejoin ─► rejoined: the report has it lost no more
//	when no report names it the control has it start ─► the scheduler says that it is back

// losses are the peers that a session has lost, and without which its run goes on.
type losses struct {
	mu      sync.Mutex   // guards what follows
	links   []int        // ranks to which the link is down
	vacated map[int]bool // ranks that the scheduler said are gone: others may take their places
	absent  map[int]bool // readout units, by index, that the scheduler said are gone from this run
	accused []fsm.Cause  // readout units whose data do not fit
}

// begin takes that a run begins: what the scheduler said of the last one counts no more.
func (l *losses) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.vacated, l.absent, l.accused = map[int]bool{}, map[int]bool{}, nil
}

// add notes that links are down.
func (l *losses) add(ranks ...int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.links = append(l.links, ranks...)
}

// ranks are those to which the link is down.
func (l *losses) ranks() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.links)
}

// isLost says that the link to a rank is down.
func (l *losses) isLost(rank int) bool { return slices.Contains(l.ranks(), rank) }

// vacate notes that another process may take the place of a rank.
func (l *losses) vacate(rank int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.vacated[rank] = true
}

func (l *losses) isVacated(rank int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.vacated[rank]
}

// remove takes that another process has taken a rank, and says how many links are down still.
func (l *losses) remove(rank int) (remaining int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.vacated, rank)
	l.links = slices.DeleteFunc(l.links, func(r int) bool { return r == rank })
	return len(l.links)
}

// note notes which readout unit, by its node's name too, has gone or come back: whoever has gone needs no accusation
// any more.
func (l *losses) note(a core.Absence, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.absent[int(a.RU)] = !a.Rejoined
	l.accused = slices.DeleteFunc(l.accused, func(c fsm.Cause) bool { return c.Component == name })
}

// isAbsent says whether the scheduler takes a readout unit for gone now.
func (l *losses) isAbsent(ru int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.absent[ru]
}

// accuse notes that data of a readout unit do not fit, unless it has gone: then it sent them before.
func (l *losses) accuse(ru int, why fsm.Cause) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.absent[ru] && !slices.ContainsFunc(l.accused, func(c fsm.Cause) bool { return c.Component == why.Component }) {
		l.accused = append(l.accused, why)
	}
}

// report tells who is lost, and who is accused.
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

// badDataText is what a node says of a readout unit whose data do not fit, before why.
const badDataText = "what it sends does not fit"

// tolerateBadData takes that data of a readout unit do not fit, and says whether the builder unit goes on without them.
// The control hears of it and has the run do without that readout unit.
func (b *base) tolerateBadData(bad *builderunit.DataError) (tolerated bool) {
	rank := b.ruRanks[bad.RU]
	if rank == int(b.self.GetRank()) || !b.isExpendable(rank) {
		return false
	}
	b.losses.accuse(bad.RU, b.node.makeCause(badDataText, bad))
	return true
}

// dropLink ends the link to a unit that the scheduler says is lost, so that what is under way to it is over now and not
// when the link finds out.
func (b *base) dropLink(role core.Role, unit int) {
	ranks := b.buRanks
	if role == core.Readout {
		ranks = b.ruRanks
	}
	if unit >= len(ranks) {
		return
	}
	rank := ranks[unit]
	if rank == int(b.self.GetRank()) || !b.isExpendable(rank) {
		return
	}
	b.endpoint.DropLink(rank, errUnitLost)
	if role == core.Readout && !b.self.GetBuilder() {
		b.losses.vacate(rank)
	}
}

var errUnitLost = errors.New("its unit is lost to the scheduler")

// LinkDown takes the end of a link. That to a node without which the run goes on is noted: the readout unit gives up
// what it had under way to a builder unit, and the scheduler what that had; of a readout unit the scheduler tells. Any
// other is a fault.
func (s *session) LinkDown(rank int, err error) {
	s.counters.LinksDown.Add(1)
	expendable := s.isExpendable(rank)
	if expendable {
		s.losses.add(rank)
		if s.hasDecisionUnitOnly(rank) {
			s.losses.vacate(rank) // nothing is held for it, so another process may take its place at once
		}
	}
	for _, c := range s.components {
		c.linkLost(rank)
	}
	switch {
	case !expendable:
		s.reportFault("transport", err)
	case !s.closing.Load():
		go func() { // the state machine may be waiting for a transition that this call holds up
			if refused := s.node.runner.Degrade(s.node.makeCause("transport", err)); refused != nil {
				s.node.logTooLate("a link that is down", err, refused)
			}
		}()
	}
}

// mayRejoin says whether another process may take a rank; nil where a run tolerates the loss of none.
func (s *session) mayRejoin() func(rank int) bool {
	if d := s.decisionRank; !s.toleratesReadoutLoss() && (d == config.NoUnit || !s.hasDecisionUnitOnly(d)) {
		return nil
	}
	return func(rank int) bool { return !s.closing.Load() && s.losses.isVacated(rank) }
}

// rejoined takes that another process has taken a rank.
func (s *session) rejoined(rank int) {
	if s.losses.remove(rank) == 0 && !s.closing.Load() {
		go func() { _ = s.node.runner.Restore() }() // the state machine may be waiting for a transition
	}
}
