package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
)

// Standing is which builder units of a view take MEPs in a run, and what may be lost. Readout units may not: without one of them no
// event is whole. Its methods may be called from any goroutine.
type Standing struct {
	// immutable
	loss    config.Loss
	readout map[string]bool // nodes with a readout unit

	mu       sync.Mutex      // guards what follows
	builders map[string]bool // nodes with a builder unit, and whether it takes MEPs
	lost     map[string]bool // nodes that are gone for this run
	leaving  map[string]bool // nodes that were told to end, and are on their way out
	gone     map[string]bool // nodes that have left in good order
	ever     bool            // a unit was lost or excluded
	first    *Fault          // the first loss that the policy bore
}

// NewStanding is where a run begins.
func NewStanding(view *nodev1.View, builder config.Loss) *Standing {
	s := &Standing{
		loss:     builder,
		readout:  map[string]bool{},
		builders: map[string]bool{},
		lost:     map[string]bool{},
		leaving:  map[string]bool{},
		gone:     map[string]bool{},
	}
	for _, m := range view.GetMembers() {
		if m.GetReadout() {
			s.readout[m.GetName()] = true
		}
		if m.GetBuilder() {
			s.builders[m.GetName()] = true
		}
	}
	return s
}

// Lose takes a node out that is gone, if the policy bears it; first says that it was not known before.
func (s *Standing) Lose(node string) (borne, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost[node] {
		return true, false
	}
	in, builder := s.builders[node]
	if !builder || s.readout[node] || in && !s.loss.Bears(s.left()-1) {
		return false, true
	}
	s.lost[node], s.builders[node], s.ever = true, false, true
	return true, true
}

// Exclude takes a node's builder unit out; a sentence says why that cannot be.
func (s *Standing) Exclude(node string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mayExclude(node); err != nil {
		return err
	}
	s.ever = s.ever || s.builders[node]
	s.builders[node] = false
	return nil
}

// MayExclude says why a node's builder unit cannot be taken out; nil if it can.
func (s *Standing) MayExclude(node string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mayExclude(node)
}

// mayExclude is MayExclude. The caller holds mu.
func (s *Standing) mayExclude(node string) error {
	in, builder := s.builders[node]
	switch {
	case !builder && s.readout[node]:
		return fmt.Errorf("%s holds a readout unit and no builder unit: without it no event is whole, so it can be excluded only outside of a run", node)
	case !builder:
		return fmt.Errorf("the view has no node called %s", node)
	case !in:
		return nil
	case !s.loss.Bears(s.left() - 1):
		return fmt.Errorf("%s is one of %d builder units that take MEPs, and builder-loss is %s", node, s.left(), s.loss)
	}
	return nil
}

// MayLeave says whether the run goes on without a node that was told to end: it holds a builder unit and nothing
// else, which may be taken out.
func (s *Standing) MayLeave(node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.readout[node] && s.mayExclude(node) == nil
}

// LetGo is Exclude for a node that was told to end: it does not come back in this run.
func (s *Standing) LetGo(node string) error {
	if err := s.Exclude(node); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving[node] = true
	return nil
}

// Leave notes that a node which was let go has left in good order.
func (s *Standing) Leave(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone[node] = true
}

// Stay undoes LetGo, but that the builder unit is out.
func (s *Standing) Stay(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leaving, node)
}

// Leaving says whether a node was let go, and whether it has left.
func (s *Standing) Leaving(node string) (leaving, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leaving[node], s.gone[node]
}

// Include takes a node's builder unit in again.
func (s *Standing) Include(node string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mayInclude(node); err != nil {
		return err
	}
	s.builders[node] = true
	return nil
}

// MayInclude says why a node's builder unit cannot be taken in; nil if it can.
func (s *Standing) MayInclude(node string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mayInclude(node)
}

// mayInclude is MayInclude. The caller holds mu.
func (s *Standing) mayInclude(node string) error {
	switch _, builder := s.builders[node]; {
	case s.leaving[node]:
		return fmt.Errorf("%s was told to end, and leaves this run", node)
	case s.lost[node]:
		return fmt.Errorf("%s was lost in this run: its links come back with the next configure", node)
	case !builder:
		return fmt.Errorf("the view has no builder unit on a node called %s", node)
	}
	return nil
}

// note keeps the first loss.
func (s *Standing) note(x Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == nil {
		s.first = &x
	}
}

// First is the first loss that the policy bore; nil if there was none.
func (s *Standing) First() *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first
}

// Lost says whether a node is gone for this run.
func (s *Standing) Lost(node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost[node]
}

// Out lists the nodes whose builder unit takes no MEPs now.
func (s *Standing) Out() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for name, in := range s.builders {
		if !in {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Degraded says whether a unit was lost or excluded at any time of the run.
func (s *Standing) Degraded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ever
}

// adopt takes over what the scheduler knows of the builder units.
func (s *Standing) adopt(units []tagnet.BURegister) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range units {
		u := &units[i]
		if u.Lost {
			s.lost[u.Name] = true
		}
		if u.Lost || u.Excluded {
			s.builders[u.Name] = false
		}
		s.ever = s.ever || u.Lost || u.Excluded
	}
}

// left is how many builder units take MEPs. The caller holds mu.
func (s *Standing) left() int {
	n := 0
	for _, in := range s.builders {
		if in {
			n++
		}
	}
	return n
}

// bearing is what a fault comes to.
type bearing uint8

const (
	strikes  bearing = iota // it ends the run
	borne                   // the run goes on, without who is at fault
	forgiven                // it is none
)

// bear decides on every fault of the run: one that takes away no more than the policy bears is told to Options.Lost, and the others
// go on with what the lost builder unit had.
func (r *Run) bear(x Fault) bearing {
	if r.leavesInOrder(x) {
		return forgiven
	}
	if x.witness != "" && x.witness != x.Component {
		if r.standing.Lost(x.witness) {
			return forgiven
		}
		return strikes // it is in Error itself, unless it is gone already: the others have cut their links to it
	}
	if x.Component == r.opts.Seat {
		return strikes // the scheduler is gone with it
	}
	ok, first := r.standing.Lose(x.Component)
	if !ok {
		return strikes
	}
	if first {
		r.standing.note(x)
		r.log.Warn("the run goes on without a node", "node", x.Component, "why", x.What)
		go r.without(x)
	}
	return borne
}

// leavesInOrder says that what looks like a fault is a node that leaves in good order. Its links and its stream may
// close before its final report is seen; it itself and who watches it tell where it fails before that.
func (r *Run) leavesInOrder(x Fault) bool {
	leaving, gone := r.standing.Leaving(x.Component)
	by, left := r.standing.Leaving(x.witness)
	switch {
	case gone, left, by && x.witness != x.Component:
		return true
	case !leaving:
		return false
	case x.rank == rankStream || x.rank == rankPeer:
		return true
	}
	n, err := r.member(x.Component)
	return err == nil && n.latest().GetFinal()
}

// without takes a lost node's builder unit out of the schedule.
func (r *Run) without(x Fault) {
	if _, err := r.scheduler().LoseBU(x.Component); err != nil {
		r.faults.add(Fault{
			Component: x.Component, Part: PartScheduler, What: fmt.Sprintf("it is gone, and could not be taken out of the schedule: %v", err), Evidence: x.What, rank: rankWatch,
			witness: Name,
		})
		return
	}
	if r.opts.Lost != nil {
		r.opts.Lost(x)
	}
}

// Exclude takes a node's builder unit out of the schedule; a readout unit of the same node goes on sending.
func (r *Run) Exclude(node string) (reissued int, err error) {
	if err := r.standing.Exclude(node); err != nil {
		return 0, err
	}
	if reissued, err = r.scheduler().ExcludeBU(node); err != nil {
		_ = r.standing.Include(node) // it did not come about; who was lost meanwhile stays out
	}
	return reissued, err
}

// Include gives it MEPs again, and waits until the scheduler has it back: readout units first settle the exclusion, then the unit frees its slots.
// Where that takes too long it stays out.
func (r *Run) Include(ctx context.Context, node string) error {
	if err := r.standing.MayInclude(node); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, includeTime)
	defer cancel()
	if err := r.welcome(ctx, node); err != nil {
		if _, undone := r.scheduler().ExcludeBU(node); undone != nil {
			err = errors.Join(err, fmt.Errorf("%s may still come back by itself: %w", node, undone))
		}
		return err
	}
	return r.standing.Include(node) // it may have been lost meanwhile
}

// includeTime is how long an inclusion may take: a write that is under way to a link which stands still has its outcome, or the link's end, within 5 s
// by QUIC, and the unit asks every 0.2 s. Mostly it is 0.3 s. includeEvery is how often that is looked at.
const (
	includeTime  = 8 * time.Second
	includeEvery = 50 * time.Millisecond
)

// welcome asks the scheduler to take a builder unit in until it has. The error is the last reason why it has not.
func (r *Run) welcome(ctx context.Context, node string) error {
	tick := time.NewTicker(includeEvery)
	defer tick.Stop()
	for {
		why := r.scheduler().IncludeBU(node)
		if why != nil && !errors.Is(why, tagnet.NotNow) {
			return why
		}
		if why == nil {
			st, err := r.scheduler().Stats()
			if err != nil {
				return err
			}
			if slices.ContainsFunc(st.Registers.BUs, func(b tagnet.BURegister) bool { return b.Name == node && !b.Excluded }) {
				return nil
			}
			why = fmt.Errorf("the builder unit of %s has not come back: it frees its slots when its sink has taken what is whole, and then attaches", node)
		}
		select {
		case <-tick.C:
		case <-r.Drained():
			return fmt.Errorf("the run is over: %w", why)
		case <-ctx.Done():
			return why
		}
	}
}

// Standing is which units take part now.
func (r *Run) Standing() *Standing { return r.standing }
