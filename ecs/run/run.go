package run

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ringlet/ecs/partition/fault"
)

// Phase is how far a run is.
type Phase uint8

// Phases, in order.
const (
	Absent    Phase = iota // there is no run
	Beginning              // it has its number and its record; its scheduler is made, and its nodes start
	Running                // every node takes part
	Pausing
	Paused
	Resuming
	Draining // it is to end in good order: no MEP is issued any more
	Stopping // everything issued has its outcome; nodes complete their outputs
	Dropping // nodes drop what they do
	Closing  // its accounts and its record are closed
	Closed
)

var phaseNames = [...]string{
	"Absent", "Beginning", "Running", "Pausing", "Paused", "Resuming", "Draining", "Stopping", "Dropping", "Closing",
	"Closed",
}

func (p Phase) String() string { return phaseNames[p] }

// IsGoing says that the run goes on, or is to begin: it can be ended, and given up.
func (p Phase) IsGoing() bool { return p < Stopping }

// Kind is what happens to a run.
type Kind string

// What happens to a run.
const (
	Open        Kind = "open"        // it has its number and its record
	Done        Kind = "done"        // what was awaited is done
	Failed      Kind = "failed"      // it is not: Fault says why
	Pause       Kind = "pause"       // somebody wants it to pause
	Resume      Kind = "resume"      // somebody wants it to go on
	Stop        Kind = "stop"        // it is to end in good order, for what was asked or By somebody
	Finish      Kind = "finish"      // likewise, and every issued MEP has its outcome already
	Abandon     Kind = "abandon"     // By somebody: it is to be dropped
	GiveUp      Kind = "give up"     // Fault has taken its partition to Error, or its end was too slow
	Drained     Kind = "drained"     // every issued MEP has its outcome, and no other will be issued
	TimeOver    Kind = "time over"   // its duration is over
	Interrupted Kind = "interrupted" // its user has no more time
	Struck      Kind = "struck"      // Fault has broken something that the policies do not tolerate
	Lost        Kind = "lost"        // Fault has taken a node that it goes on without
	Excluded    Kind = "excluded"    // a node was told to end, and it goes on without that
	Needed      Kind = "needed"      // a node was told to end, and it cannot go on without that

	FoundUnbegun   Kind = "found unbegun"   // a control came back to it, and it had not begun
	FoundStruck    Kind = "found struck"    // likewise, and a fault was being carried out
	FoundAbandoned Kind = "found abandoned" // likewise, and somebody had given it up
	FoundOver      Kind = "found over"      // likewise, and its nodes have ended it, of which not all can tell how
	FoundEnding    Kind = "found ending"    // likewise, and its end was under way
	FoundPaused    Kind = "found paused"    // likewise, and it was paused, or nobody knew, and is paused now
	FoundGoing     Kind = "found going"     // likewise, and it goes on
)

// Action is what is to be done.
type Action string

// What is to be done.
const (
	Write   Action = "write"    // write down how the run stands, before anybody hears of it
	Begin   Action = "begin"    // make its scheduler and start its nodes
	Watch   Action = "watch"    // look after it from now on
	Hold    Action = "hold"     // give no new tokens, and have its nodes rest
	Release Action = "release"  // give tokens again
	AskStop Action = "ask stop" // have the machine of the partition stop it
	AskFail Action = "ask fail" // have the machine of the partition go to Error for Fault
	Drain   Action = "drain"    // issue no further MEP, and wait until each that is issued has its outcome
	End     Action = "end"      // have its nodes stop, and collect what they tell
	Drop    Action = "drop"     // have nodes and scheduler drop everything, and collect what they tell
	Collect Action = "collect"  // collect what can still be told
	Close   Action = "close"    // close its accounts and its record, and end its scheduler
)

// IsAwaited says that the machine goes on when the action is done, or not done.
func (a Action) IsAwaited() bool {
	return slices.Contains([]Action{Begin, Hold, Release, Drain, End, Drop, Close}, a)
}

// rule is a row of the table: what a run comes to if something happens to it in a phase.
type rule struct {
	in []Phase
	on []Kind
	to Phase // Absent: it remains where it is
	do []Action
}

var going = []Phase{Running, Pausing, Paused, Resuming}

// table is the machine. What it does not list changes nothing, and nothing is to be done.
var table = []rule{
	{[]Phase{Absent}, []Kind{Open}, Beginning, []Action{Begin}},
	{[]Phase{Absent}, []Kind{FoundUnbegun, FoundStruck, FoundAbandoned}, Dropping, []Action{Write, Drop}},
	{[]Phase{Absent}, []Kind{FoundOver}, Closing, []Action{Write, Collect, Close}},
	{[]Phase{Absent}, []Kind{FoundEnding}, Running, []Action{AskStop}},
	{[]Phase{Absent}, []Kind{FoundPaused}, Paused, []Action{Watch}},
	{[]Phase{Absent}, []Kind{FoundGoing}, Running, []Action{Watch}},

	{[]Phase{Beginning}, []Kind{Done}, Running, []Action{Write, Watch}},
	{[]Phase{Beginning}, []Kind{Failed}, Dropping, []Action{Drop}},
	{[]Phase{Beginning}, []Kind{Stop, Finish}, Dropping, []Action{Write, Drop}},

	{[]Phase{Running}, []Kind{Pause}, Pausing, []Action{Hold}},
	{[]Phase{Pausing}, []Kind{Done}, Paused, nil},
	{[]Phase{Paused}, []Kind{Resume}, Resuming, []Action{Release}},
	{[]Phase{Resuming}, []Kind{Done}, Running, nil},

	{going, []Kind{Drained, TimeOver, Interrupted}, Absent, []Action{AskStop}},
	{going, []Kind{Needed}, Absent, []Action{Write, AskStop}},
	{going, []Kind{Struck}, Absent, []Action{Write, AskFail}},
	{going, []Kind{Stop}, Draining, []Action{Write, Drain}},
	{going, []Kind{Finish}, Stopping, []Action{Write, End}},
	{append([]Phase{Beginning}, going...), []Kind{Abandon, GiveUp}, Dropping, []Action{Write, Drop}},
	{append([]Phase{Absent, Beginning, Draining, Stopping}, going...), []Kind{Lost, Excluded}, Absent, []Action{Write}},

	{[]Phase{Draining}, []Kind{Done}, Stopping, []Action{End}},
	{[]Phase{Draining}, []Kind{Struck, GiveUp}, Dropping, []Action{Drop}},
	{[]Phase{Draining}, []Kind{Abandon}, Dropping, []Action{Write, Drop}},

	{[]Phase{Stopping}, []Kind{Done}, Closing, []Action{Close}},
	{[]Phase{Stopping}, []Kind{Failed}, Dropping, []Action{Drop}},
	{[]Phase{Dropping}, []Kind{Done}, Closing, []Action{Close}},
	{[]Phase{Closing}, []Kind{Done}, Closed, nil},
}

// find is the row for what happens in a phase; nil if there is none.
func find(in Phase, on Kind) *rule {
	for i := range table {
		if slices.Contains(table[i].in, in) && slices.Contains(table[i].on, on) {
			return &table[i]
		}
	}
	return nil
}

// Markdown prints the table, as the design page of the machine shows it.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| in | what happens | to | what is to be done |\n|---|---|---|---|\n")
	for _, r := range table {
		to, do := "", "–"
		if r.to != Absent {
			to = r.to.String()
		}
		if len(r.do) > 0 {
			do = join(r.do)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", join(r.in), join(r.on), to, do)
	}
	return b.String()
}

func join[T any](all []T) string {
	var words []string
	for _, one := range all {
		words = append(words, fmt.Sprint(one))
	}
	return strings.Join(words, ", ")
}

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
	if in.SelfStop {
		s.End = EndControlLost
	}
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

// Reports is what nodes and scheduler tell of a run to a control that has come back.
type Reports struct {
	SelfStop        bool     // the nodes have ended it by themselves, or do
	Running         int      // nodes on which it goes on
	Missing         []string // nodes that took part to the end, and the scheduler, that cannot tell any more
	Paused          int      // nodes that are paused
	SchedulerPaused bool
}

// Find says how a control that comes back finds a run, by its record and by what nodes and scheduler tell: what its
// machine begins with. component is the control. Where pausing or resuming was cut short nobody knows which; paused is
// the phase in which nothing is lost and somebody decides. A run that goes on nowhere was ended in good order, or
// cannot be known to have been otherwise: nobody gives it up then.
func Find(component string, record Found, reports Reports) Input {
	in := Input{Found: record}
	in.Missing = reports.Missing
	switch {
	case record.Begun.IsZero():
		in.Kind, in.Reason = FoundUnbegun, EndControlLost
		in.Fault = &fault.Fault{
			Component: component,
			What:      "the control was lost while the run was beginning",
			Evidence:  "seen when it came back",
		}
	case record.End == EndFault: // it was being carried out
		in.Kind, in.Reason, in.Fault = FoundStruck, EndFault, &fault.Fault{}
		if record.Cause != nil {
			*in.Fault = record.Cause.Fault
		}
	case record.Cause != nil && record.Cause.Code == CodeAbandoned:
		in.Kind, in.Reason = FoundAbandoned, record.End
	case reports.Running == 0 && len(reports.Missing) > 0:
		in.Kind, in.Reason = FoundOver, cmp.Or(record.End, EndControlLost)
	case reports.SelfStop:
		in.Kind, in.Reason = FoundEnding, EndControlLost
	case !record.Ending.IsZero():
		in.Kind, in.Reason = FoundEnding, record.End
	case reports.SchedulerPaused || reports.Paused > 0:
		in.Kind = FoundPaused
	default:
		in.Kind = FoundGoing
	}
	return in
}
