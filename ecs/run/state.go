package run

import (
	"cmp"
	"time"

	"ringlet/ecs/partition/fault"
)

// Causes of a run's end, as its report and its record give them.
const (
	EndDuration    = "duration"
	EndEvents      = "events"
	EndInput       = "end_of_input"
	EndInterrupted = "interrupted"
	EndStopped     = "stopped"
	EndBadInput    = "bad_input"
	EndFault       = "fault"
	EndLeaving     = "node_leaving"
	EndControlLost = "control_lost"
)

// Codes of the cause that the record of a run has.
const (
	CodeFault     = "fault"
	CodeLoss      = "loss" // the run goes on without a node
	CodeAbandoned = "abandoned"
	codeNotBegun  = "not_begun"
	codeLeaving   = "leaving"
)

// Cause is what the record of a run says of it: what was first, or what ended it.
type Cause struct {
	fault.Fault
	Code string
}

// State is what is known of a run. The zero State: there is none.
type State struct {
	Phase    Phase
	Ticket   uint64 // counts the phases: see Input
	ByItself string // why it ends if nobody ends it; to be set before Open

	Begun    time.Time // every node was Running; zero: they never were
	Ending   time.Time // its end was asked for, or something struck it; zero: it is not to end
	Draining time.Time // no MEP was issued any more; zero: some may be

	End       string // why it ends; empty: it is not to
	StoppedBy string // who asked for that; empty: nobody
	Cause     *Cause // for its record; nil: there is none
	// Fault is what its report gives as the cause of its end; nil: none.
	Fault   *fault.Fault
	GivenUp bool     // what was under way was dropped
	Missing []string // who cannot tell any more how it ended
	Outcome
}

// Outcome is what nodes that have stopped tell of the end.
type Outcome struct {
	SelfStop     bool         // they began to end the run since they missed the control, before that ended it
	BadInput     string       // where an input had a bad record, which; empty: none had
	BrokenSource string       // why a live source could not go on, which was tolerated; empty: all could
	InputFault   *fault.Fault // live sources have let the run down; nil: they have not
}

// Input is something that happens to a run. What a field is of, its kind has; others leave it empty.
type Input struct {
	Kind    Kind
	At      time.Time
	Ticket  uint64       // of Done and Failed: that of the State whose actions they answer
	Reason  string       // why it ends: of Stop, Finish and Abandon where somebody wants that; of what is found
	By      string       // of Stop, Finish and Abandon: who gave the last command
	Node    string       // of Excluded and Needed
	Missing []string     // of what is found: who cannot tell any more how it ended
	Fault   *fault.Fault // of Failed, GiveUp, Struck and Lost; of what is found: that has struck it
	Code    string       // of GiveUp and Struck: the code of its cause
	Outcome
	Found
}

// Found is what the record of a run says of it to a control that comes back.
type Found struct {
	Begun, Ending time.Time // as State has them
	End           string    // why it was to end; empty: it was not
	Cause         *Cause
}

// Step takes what happens, and returns the run as it is then, and what is to be done, in order.
func (s State) Step(in Input) (State, []Action) {
	row := find(s.Phase, in.Kind)
	if row == nil || (in.Kind == Done || in.Kind == Failed) && in.Ticket != s.Ticket {
		return s, nil
	}
	s.note(in)
	if row.to != Absent {
		s.Phase = row.to
		s.Ticket++
		s.GivenUp = s.GivenUp || row.to == Dropping
	}
	return s, row.do
}

// note takes over what an input says of the run.
func (s *State) note(in Input) {
	switch in.Kind {
	case Done:
		s.noteDone(in)
	case Drained, TimeOver, Interrupted, Needed:
		s.noteOver(in)
	case Stop, Finish, Abandon:
		s.noteStop(in)
	case Struck, GiveUp, Failed:
		s.noteFault(in)
	case Lost:
		s.noteFirst(&Cause{Fault: *in.Fault, Code: CodeLoss}, in.At)
	case Excluded:
		s.noteLeaving(in)
	case FoundUnbegun, FoundStruck, FoundAbandoned, FoundOver, FoundEnding, FoundPaused, FoundGoing:
		s.noteFound(in)
	case Open, Pause, Resume:
	}
}

func (s *State) noteDone(in Input) {
	switch s.Phase {
	case Beginning:
		s.Begun = in.At
	case Stopping:
		s.Outcome = in.Outcome
		switch {
		case in.InputFault != nil:
			s.End, s.Fault = EndFault, in.InputFault
		case in.BadInput != "":
			s.End = EndBadInput
		case in.SelfStop:
			s.End = EndControlLost
		}
	default:
	}
}

// noteOver takes why the run is to end; the first reason counts.
func (s *State) noteOver(in Input) {
	switch in.Kind {
	case Drained:
		s.End = cmp.Or(s.End, s.ByItself)
	case TimeOver:
		s.End = cmp.Or(s.End, EndDuration)
	case Interrupted:
		s.End = cmp.Or(s.End, EndInterrupted)
	default:
		s.End = cmp.Or(s.End, EndLeaving)
		s.noteLeaving(in)
	}
}

// noteFirst takes a cause that ends nothing: what was first is what counts.
func (s *State) noteFirst(c *Cause, at time.Time) {
	if s.Cause == nil {
		c.At = at
		s.Cause = c
	}
}

func (s *State) noteLeaving(in Input) {
	s.noteFirst(&Cause{Code: codeLeaving, Fault: fault.Fault{
		Component: in.Node,
		What:      "it was told to end",
		Evidence:  "it asked to be let go",
	}}, in.At)
}

// noteStop takes that the run is stopped. If it is dropped for that, or had not begun, who wants it is its cause.
func (s *State) noteStop(in Input) {
	if in.Reason != "" && s.Phase != Draining {
		s.End, s.StoppedBy = in.Reason, in.By
	}
	if s.Ending.IsZero() {
		s.Ending = in.At
	}
	switch {
	case in.Kind == Abandon:
		s.Cause = &Cause{Code: CodeAbandoned, Fault: fault.Fault{
			Component: in.By,
			What:      "gave the run up: everything under way was dropped",
			At:        in.At,
		}}
	case s.Phase == Beginning:
		s.Cause = &Cause{Code: codeNotBegun, Fault: fault.Fault{
			Component: in.By,
			What:      "stopped the run before all nodes had begun it: everything under way was dropped",
			At:        in.At,
		}}
	case in.Kind == Stop:
		s.Draining = in.At
	}
}

// noteFault takes what ends the run by force. The record has it unless the run was to end before that.
func (s *State) noteFault(in Input) {
	s.Fault = in.Fault
	if s.End != EndControlLost {
		s.End = EndFault
	}
	if in.Kind != Failed && s.Phase != Draining && s.Ending.IsZero() {
		s.Ending = in.At
		s.Cause = &Cause{Fault: *in.Fault, Code: cmp.Or(in.Code, CodeFault)}
		if s.Cause.At.IsZero() {
			s.Cause.At = in.At
		}
	}
}

// noteFound takes what its record says, and what ends it now.
func (s *State) noteFound(in Input) {
	s.Begun, s.Ending, s.Cause, s.Missing = in.Found.Begun, in.Found.Ending, in.Found.Cause, in.Missing
	s.End, s.Fault = in.Reason, in.Fault
	if !s.Ending.IsZero() || in.Kind == FoundEnding || in.Kind == FoundPaused || in.Kind == FoundGoing {
		return
	}
	s.Ending = in.At
	if in.Fault != nil {
		s.Cause = &Cause{Fault: *in.Fault, Code: in.Reason}
		s.Cause.At = in.At
	}
}
