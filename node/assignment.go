package node

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"

	"ringlet/builderunit"
	"ringlet/event/placing"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/readoutunit"
	"ringlet/transport"
)

// assignment is a node's part in a configuration and a view. It is immutable.
type assignment struct {
	cfg           config.Completed
	configHash    string // of the configuration as the control sent it
	view          *nodev1.View
	self          *nodev1.Member
	ruRanks       []int // rank of each readout unit, by index
	buRanks       []int
	ruByRank      map[int]int
	decisionRank  int             // of the node with the decision unit, or config.NoUnit
	layout        *placing.Layout // of every slot, if windows are pre-granted; else nil
	segmentPrefix string          // prefix of the names of this node's segments
}

// newAssignment makes the assignment of the node of that name from the control's request.
func newAssignment(req *nodev1.CommandRequest, name string) (*assignment, error) {
	cfg, err := config.Compose("the configuration sent by the control", req.GetConfiguration(), nil)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(req.GetConfiguration())
	a := &assignment{
		cfg:           cfg,
		configHash:    hex.EncodeToString(sum[:]),
		view:          req.GetView(),
		ruRanks:       make([]int, cfg.RUs),
		buRanks:       make([]int, cfg.BUs),
		ruByRank:      map[int]int{},
		layout:        cfg.PreGrantedLayout(),
		segmentPrefix: fmt.Sprintf("ringlet-%d-%s-%d-%x", req.GetRun(), name, os.Getpid(), req.GetView().GetNumber()),
	}
	return a, a.locateMembers(name)
}

// ProcessName is the name of the node whose process has the units of a member: its own, or that of its substitute.
func ProcessName(m *nodev1.Member) string { return cmp.Or(m.GetSubstitute(), m.GetName()) }

// locateMembers finds this node and the units in the view.
func (a *assignment) locateMembers(name string) error {
	seenRU, seenBU := make([]bool, a.cfg.RUs), make([]bool, a.cfg.BUs)
	rus, bus := 0, 0
	var names []string
	for rank, m := range a.view.GetMembers() {
		if int(m.GetRank()) != rank {
			return fmt.Errorf("view %d lists %s, of rank %d, at place %d", a.view.GetNumber(), m.GetName(), m.GetRank(), rank)
		}
		names = append(names, m.GetName())
		if ProcessName(m) == name {
			a.self = m
		}
		if i := int(m.GetRuIndex()); m.GetReadout() && i < len(a.ruRanks) && !seenRU[i] {
			a.ruRanks[i], a.ruByRank[rank], seenRU[i] = rank, i, true
			rus++
		}
		if i := int(m.GetBuIndex()); m.GetBuilder() && i < len(a.buRanks) && !seenBU[i] {
			a.buRanks[i], seenBU[i] = rank, true
			bus++
		}
	}
	a.decisionRank = a.cfg.DecisionRank(names)
	switch {
	case a.self == nil:
		return fmt.Errorf("view %d has no member called %s", a.view.GetNumber(), name)
	case rus != a.cfg.RUs || bus != a.cfg.BUs:
		return fmt.Errorf("view %d numbers %d readout and %d builder units, and the configuration has %d and %d",
			a.view.GetNumber(), rus, bus, a.cfg.RUs, a.cfg.BUs)
	}
	return nil
}

func (a *assignment) transportView() transport.View {
	v := transport.View{Number: a.view.GetNumber()}
	for _, m := range a.view.GetMembers() {
		v.Members = append(v.Members, transport.Member{
			Name:       m.GetName(),
			Addr:       m.GetQuicAddress(),
			Substitute: m.GetSubstitute(),
		})
	}
	return v
}

// hasDecisionUnit tells that this node has the decision unit.
func (a *assignment) hasDecisionUnit() bool { return a.decisionRank == int(a.self.GetRank()) }

// hasDecisionUnitOnly tells that a node has the decision unit and no other unit, so that its loss does not stop the
// building of events.
func (a *assignment) hasDecisionUnitOnly(rank int) bool {
	m := a.view.GetMembers()[rank]
	return rank == a.decisionRank && !m.GetReadout() && !m.GetBuilder()
}

// linkedRanks are the nodes that this one needs links to: builder units do not link to each other, and every node with
// a unit links to the decision unit.
func (a *assignment) linkedRanks() (ranks []int) {
	for rank, m := range a.view.GetMembers() {
		if rank != int(a.self.GetRank()) &&
			(a.self.GetReadout() || m.GetReadout() || a.hasDecisionUnit() || rank == a.decisionRank) {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// isExpendable tells whether a run tolerates that the link to a rank is down: the policies of the units that the rank
// holds tolerate one loss. The control judges how many are lost in all, since it sees every node.
func (a *assignment) isExpendable(rank int) bool {
	m := a.view.GetMembers()[rank]
	readout, builder := a.cfg.LossPolicies()
	if a.hasDecisionUnitOnly(rank) {
		return true
	}
	return (m.GetReadout() || m.GetBuilder()) && (!m.GetReadout() || readout.Tolerates(a.cfg.RUs-1)) &&
		(!m.GetBuilder() || builder.Tolerates(a.cfg.BUs-1))
}

// toleratesReadoutLoss tells whether a run tolerates the loss of the link to some readout unit.
func (a *assignment) toleratesReadoutLoss() bool {
	return slices.ContainsFunc(a.ruRanks, a.isExpendable)
}

// expendableBuilders tells for each builder unit whether a run tolerates that the link to it is down.
func (a *assignment) expendableBuilders() []bool {
	out := make([]bool, len(a.buRanks))
	for bu, rank := range a.buRanks {
		out[bu] = a.isExpendable(rank)
	}
	return out
}

// lendingOutputs are the outputs whose readers get MEPs in their slots, without a copy. With pre-granted windows a slot
// must stay where the readout units know it, so MEPs are copied. If every output gets every MEP, only one of them can
// borrow it. A MEP that a filter judges is copied for the filter.
func (a *assignment) lendingOutputs() (which []bool, n int) {
	outputs, all := a.cfg.Outputs(), a.cfg.Route().ToAll
	which = make([]bool, len(outputs))
	for i := range outputs {
		if a.layout == nil && a.cfg.Filter == "" && outputs[i].SinkKind().Shared && (n == 0 || !all) {
			which[i] = true
			n++
		}
	}
	return which, n
}

// suspensionOf is when a builder unit stops on purpose (debug.suspend-bus).
func (a *assignment) suspensionOf(bu int) builderunit.Suspension {
	bus := a.cfg.SuspendedBUs()
	turn := slices.Index(bus, bu)
	if turn < 0 {
		return builderunit.Suspension{}
	}
	return builderunit.Suspension{
		Interval: a.cfg.Debug.SuspendEvery,
		Duration: a.cfg.Debug.SuspendFor,
		BUIndex:  turn,
		BUCount:  len(bus),
	}
}

// pullOf is how a builder unit requests its parts; builder units begin with different readout units.
func (a *assignment) pullOf(bu int) builderunit.Pull {
	if !a.cfg.DisciplineKind().Pull {
		return builderunit.Pull{}
	}
	roi, _ := a.cfg.RoIReadouts()
	return builderunit.Pull{
		RequestCredit:   a.cfg.Debug.PullWindow,
		SlotsPerRelease: a.cfg.PullGroup(),
		FirstUnit:       bu % a.cfg.RUs,
		RegionUnits:     roi,
	}
}

// openTransfers makes the table of transfers of a readout unit, with its discipline.
func (a *assignment) openTransfers(ru int) *readoutunit.Transfers {
	end, _ := a.cfg.Phases()
	return a.cfg.DisciplineKind().Open(readoutunit.DisciplineConfig{
		RU:          ru,
		BUs:         a.cfg.BUs,
		SlotsPerBU:  a.cfg.Slots,
		RoundCycles: a.cfg.CyclesPerRound(),
		PreGranted:  a.layout != nil,
		Seats:       a.shiftSeats(),
		FencePhases: a.cfg.Phased() || end != config.PhaseEndBarrier, // a barrier without phases needs no fence before it
	})
}

// shiftSeats are the seats of the units in the shift.
func (a *assignment) shiftSeats() readoutunit.Seats {
	ranks := a.cfg.SeatRanks()
	if ranks == nil {
		return readoutunit.SeatsInOrder(a.cfg.RUs, a.cfg.BUs)
	}
	var seats readoutunit.Seats
	for _, rank := range ranks {
		ru, bu := readoutunit.Dummy, readoutunit.Dummy
		if rank != config.DummySeat {
			m := a.view.GetMembers()[rank]
			if m.GetReadout() {
				ru = int(m.GetRuIndex())
			}
			if m.GetBuilder() {
				bu = int(m.GetBuIndex())
			}
		}
		seats.RUs, seats.BUs = append(seats.RUs, ru), append(seats.BUs, bu)
	}
	return seats
}
