package core

import (
	"errors"
	"fmt"
)

// When the process of a scheduler is lost, its successor rebuilds the state from what the living units know:
//
//	New with Settings.Living ─► each living unit attaches with its Recall ─► the last one, or RecallOver ─► the state
//	is rebuilt, and every unit is admitted (Ready.Admitted): it goes on with the cycle and the news that it lacks
//
// A scheduler tells all readout units the same cycles in the same order, so each of them knows a beginning of them. The
// longest beginning that a living one knows is what was told:
//
//   - a token in it remains valid, unless its builder unit has gone. Its MEP has its outcome if the builder unit knows
//     one for this attempt; otherwise the successor waits for the outcome;
//   - a token behind it is known to no living readout unit, so no builder unit can have completed its MEP. It counts as
//     never issued. What a lost readout unit has written for it must go: each builder unit is told which tokens are
//     valid, frees its other slots, and confirms. Nothing is issued before all have confirmed.
//
// Readout units that know fewer cycles get those that they lack; a cycle that no living unit knows is told as empty.
// Units that are not living count as excluded; their MEPs without a known outcome are issued again.

// Recall is what a unit tells the successor of its scheduler.
type Recall struct {
	Absences []Absence // all that it was told

	// of a readout unit

	NextCycle   uint64   // number of the first cycle that it was not told
	Released    uint64   // as last told
	HeldUp      []uint64 // as last told
	Unbuilt     Unbuilt  // as last told
	Triggers    TriggerTotals
	TokenCount  uint64 // tokens that it was told in all
	Tokens      []PlacedToken
	Withdrawals []Withdrawal // all that it was told
	Update      Update       // what it holds; a unit that rejoined counts events from its rejoin on

	// of a readout unit with live data

	Cuts         []Cut        // last ones that it was told: of the MEPs below NextCut.MEP that may have no outcome
	NextCut      *CutPosition // after them; nil: the data are not live
	CutsOver     bool         // it was told that there are no more
	EventsBefore uint64       // events in the MEPs before the first that it has a part in

	// of a builder unit

	Entries  uint64     // outcomes that it has queued in this session
	Outcomes []Feedback // last outcomes that it reported in the run, or has queued in this session
	Totals   OutcomeTotals
}

// Fits tells that what a unit says it knows can be true in a view: no number in it leads beyond what a scheduler keeps.
func (r *Recall) Fits(view *Config) bool {
	cfg, err := view.withDefaults()
	if err != nil {
		return false
	}
	below := max(r.Released, cfg.FirstMEP) + uint64(cfg.Window)
	fits := len(r.HeldUp) <= cfg.maxUnfinished()+cfg.Window && below >= r.Released &&
		isAscendingBelow(r.HeldUp, max(r.Released, cfg.FirstMEP))
	for _, a := range r.Absences {
		fits = fits && int(a.RU) < len(cfg.RUs) && a.FirstMEP >= cfg.FirstMEP
	}
	for _, t := range r.Tokens {
		fits = fits && t.MEP >= cfg.FirstMEP && t.MEP < below && t.Slot < uint32(cfg.Slots) && t.Attempt > 0 &&
			t.Cycle < r.NextCycle
	}
	for _, w := range r.Withdrawals {
		fits = fits && w.BeforeCycle <= r.NextCycle
	}
	released := max(r.Released, cfg.FirstMEP) - cfg.FirstMEP
	fits = fits && r.Unbuilt.meps() <= released && r.Unbuilt.events() <= released*uint64(cfg.Packing)
	if triggers := r.Triggers; triggers != (TriggerTotals{}) {
		fits = fits && cfg.Trigger != "" && triggers.Taken <= below-cfg.FirstMEP+MaxTriggers
	}
	return fits && r.fitsCuts(&cfg, below)
}

// fitsCuts is Fits for the cuts: MEPs below have one at most.
func (r *Recall) fitsCuts(cfg *Config, below uint64) bool {
	if !cfg.Live || r.NextCut == nil {
		return r.NextCut == nil && len(r.Cuts) == 0
	}
	end, events := uint64(0), uint64(0)
	for _, c := range r.Cuts {
		if c.FirstEvent < end || c.Events < 1 || int(c.Events) > cfg.Packing || c.end() < c.FirstEvent {
			return false
		}
		end, events = c.end(), events+uint64(c.Events)
	}
	for _, t := range r.Tokens {
		if int(t.Events) > cfg.Packing {
			return false
		}
	}
	next := r.NextCut
	return next.MEP >= cfg.FirstMEP && next.MEP-cfg.FirstMEP >= uint64(len(r.Cuts)) && next.MEP <= below &&
		next.EventsBefore >= events && next.End >= next.EventsBefore && (len(r.Cuts) == 0 || end == next.End) &&
		r.EventsBefore <= next.EventsBefore
}

func isAscendingBelow(meps []uint64, below uint64) bool {
	for i, mep := range meps {
		if mep >= below || i > 0 && mep <= meps[i-1] {
			return false
		}
	}
	return true
}

// A PlacedToken is a token and the cycle that it was told in.
type PlacedToken struct {
	Token
	Cycle  uint64
	Events uint32 // of the MEP, where the data are live; otherwise 0
}

// OutcomeTotals are the outcomes of a builder unit in a run.
type OutcomeTotals struct{ Built, EventsBuilt, Discarded, Rejected uint64 }

// add counts an outcome n times.
func (o *OutcomeTotals) add(f Feedback, n uint64) {
	switch f.Outcome {
	case Built:
		o.Built += n
		o.EventsBuilt += n * uint64(f.Events)
	case Discarded:
		o.Discarded += n
	case Rejected:
		o.Rejected += n
	default: // builder units report no other
	}
}

// Admitted is a unit that attached to a successor, and the answer to it.
type Admitted struct {
	Stream uint64
	Answer Answer
}

// CheckSuccessor says why the state of a scheduler of this view cannot be rebuilt; nil if it can.
func (c *Config) CheckSuccessor() error {
	switch {
	case c.TagRing:
		return errors.New("tags that are under way cannot be counted again")
	case c.Push:
		return errors.New("credits are taken by number, which the scheduler alone compares with the MEPs that were read")
	}
	return nil
}

// succession is the wait of a successor for the Recalls of the living units. It is nil when the state is rebuilt.
type succession struct {
	attached [2][]*Attach // by Role and index; nil: not yet, or the unit does not live
	living   [2][]bool
}

func newSuccession(view *Config, living []Unit) (*succession, error) {
	if err := view.CheckSuccessor(); err != nil {
		return nil, err
	}
	s := &succession{}
	for role, n := range [2]int{len(view.RUs), len(view.BUs)} {
		s.attached[role], s.living[role] = make([]*Attach, n), make([]bool, n)
	}
	for _, u := range living {
		if int(u.Role) >= len(s.living) || u.Index < 0 || u.Index >= len(s.living[u.Role]) {
			return nil, fmt.Errorf("tagnet: %s %d is said to live, and the view has no such unit", u.Role, u.Index)
		}
		s.living[u.Role][u.Index] = true
	}
	return s, nil
}

// isComplete tells that every living unit has attached.
func (s *succession) isComplete() bool {
	for role := range s.living {
		for i, lives := range s.living[role] {
			if lives && s.attached[role][i] == nil {
				return false
			}
		}
	}
	return true
}

// attach takes a unit's Recall; the last one rebuilds the state.
func (s *succession) attach(c *Core, in *Attach) Answer {
	u := in.Unit
	switch {
	case !s.living[u.Role][u.Index]:
		return Answer{Err: c.refuseSession(RefusedExcluded, u, "is excluded")}
	case in.Recall == nil || u.Role == Readout && c.set.View.Live && in.Recall.NextCut == nil:
		return Answer{Err: c.refuseSession(RefusedNotNow, u,
			"attaches to the successor of a lost scheduler without saying what it knows")}
	}
	if former := s.attached[u.Role][u.Index]; former != nil {
		c.ready.Ended = append(c.ready.Ended, Ended{former.Stream, ErrSuperseded})
	}
	s.attached[u.Role][u.Index] = in
	if s.isComplete() {
		s.succeed(c)
	}
	return Answer{Pending: true}
}

// detach forgets a unit whose stream broke before the state was rebuilt: it will attach once more.
func (s *succession) detach(in *Detached) {
	if a := s.attached[in.Unit.Role][in.Unit.Index]; a != nil && a.Stream == in.Stream {
		s.attached[in.Unit.Role][in.Unit.Index] = nil
	}
}

// RecallOver is the end of the time in which the living units have to attach to a successor: it goes on without those
// that have not, and reports them.
type RecallOver struct{}

func (RecallOver) step(c *Core) (a Answer) {
	if c.succession != nil {
		c.succession.succeed(c)
	}
	return a
}

// succeed rebuilds the state, and admits the units that have attached.
func (s *succession) succeed(c *Core) {
	c.succession = nil
	var missing []Unit
	recalls := [2][]*Recall{}
	for role := range s.attached {
		recalls[role] = make([]*Recall, len(s.attached[role]))
		for i, in := range s.attached[role] {
			if in != nil {
				recalls[role][i] = in.Recall
			} else if s.living[role][i] {
				missing = append(missing, Unit{Role(role), i})
			}
		}
	}
	r := newRebuild(c.alloc, recalls)
	r.rebuild()
	early := c.alloc.triggers.early
	c.alloc.counters.TriggersLost += early.Lost
	c.alloc.trigger(early.Count)
	c.alloc.triggers.early = Triggered{}
	r.publish(c)
	for _, u := range missing {
		c.report(u, UnitMissing, nil)
	}
	for role := range s.attached {
		for i, in := range s.attached[role] {
			u := Unit{Role(role), i}
			if in == nil {
				c.session(u).link = linkDown
				continue
			}
			*c.session(u) = session{number: in.Session, stream: in.Stream, link: linkOpen, next: c.next,
				taken: in.Recall.Entries, known: r.continuation(c, u, in.Recall)}
			if u.Role == Readout {
				c.session(u).firstMEP, c.session(u).eventsBefore = r.rejoined(i)
			}
			c.ready.Admitted = append(c.ready.Admitted, Admitted{in.Stream, Answer{Known: c.session(u).known, Next: c.next,
				Taken: in.Recall.Entries}})
		}
	}
}
