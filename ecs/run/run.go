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
	Beginning              // the run has its number and record; the control makes its scheduler and starts its nodes
	Running                // every node takes part
	Pausing
	Paused
	Resuming
	Draining // the run ends in good order: the scheduler issues no more MEPs
	Stopping // every issued MEP has its outcome; nodes complete their outputs
	Dropping // nodes drop the MEPs that are under way
	Closing  // the control closes the run's accounts and its record
	Closed
)

var phaseNames = [...]string{
	"Absent", "Beginning", "Running", "Pausing", "Paused", "Resuming", "Draining", "Stopping", "Dropping", "Closing",
	"Closed",
}

func (p Phase) String() string { return phaseNames[p] }

// IsGoing says that the run begins, goes on or drains: it can still be stopped, or given up.
func (p Phase) IsGoing() bool { return p < Stopping }

// IsPaused says that front-ends are to send nothing for now.
func (p Phase) IsPaused() bool { return p == Pausing || p == Paused }

// Kind is the kind of an Input.
type Kind string

// Kinds of input.
const (
	Open        Kind = "open"        // the run has its number and its record
	Done        Kind = "done"        // the awaited action has succeeded
	Failed      Kind = "failed"      // the awaited action has failed; Fault says why
	Pause       Kind = "pause"       // a client asked for pause
	Resume      Kind = "resume"      // a client asked for resume
	Stop        Kind = "stop"        // end the run in good order: user By asked for it, or the machine itself (AskStop)
	Finish      Kind = "finish"      // does what Stop does, when every issued MEP has its outcome already
	Abandon     Kind = "abandon"     // user By asked that the MEPs under way are dropped
	GiveUp      Kind = "give up"     // Fault took the partition to Error, or the run's end took too long
	Drained     Kind = "drained"     // every issued MEP has its outcome, and the scheduler will issue no other
	TimeOver    Kind = "time over"   // the run has lasted for its duration
	Interrupted Kind = "interrupted" // the user of a single run interrupted it
	Struck      Kind = "struck"      // Fault is one that the loss policies do not tolerate
	Lost        Kind = "lost"        // Fault took a node, and the loss policies let the run go on without it
	Excluded    Kind = "excluded"    // a node was told to end, and the run goes on without it
	Needed      Kind = "needed"      // a node was told to end, and the run cannot go on without it

	// A restarted control takes the run up:
	FoundUnbegun   Kind = "found unbegun"   // not all of its nodes had started
	FoundStruck    Kind = "found struck"    // the earlier control was ending it for a fault
	FoundAbandoned Kind = "found abandoned" // a user had asked that it be dropped
	FoundOver      Kind = "found over"      // no node runs it any more, and some cannot report how it ended
	FoundEnding    Kind = "found ending"    // it was being stopped
	FoundPaused    Kind = "found paused"    // a node or the scheduler was paused, and the control has paused the others
	FoundGoing     Kind = "found going"     // it goes on
)

// Action is what the control does for the machine.
type Action string

// Actions.
const (
	Write   Action = "write"    // write State to the run's record, before clients or nodes see its effect
	Begin   Action = "begin"    // make the scheduler and start the nodes
	Watch   Action = "watch"    // start the goroutine that looks for faults and for the run's end
	Hold    Action = "hold"     // have the scheduler issue no tokens, and the nodes pause
	Release Action = "release"  // have the scheduler issue tokens again
	AskStop Action = "ask stop" // give the machine of the partition the command stop
	AskFail Action = "ask fail" // have the machine of the partition go to Error for Fault
	Drain   Action = "drain"    // have the scheduler issue no further MEP, and wait for the outcome of each issued one
	End     Action = "end"      // stop the nodes, and collect their final reports
	Drop    Action = "drop"     // have nodes and scheduler drop the MEPs under way, and collect their reports
	Collect Action = "collect"  // collect the reports of the nodes that still answer
	Close   Action = "close"    // close the accounts and the record, and end the scheduler
)

// IsAwaited says that the machine leaves its phase only when it gets Done or Failed for the action.
func (a Action) IsAwaited() bool {
	return slices.Contains([]Action{Begin, Hold, Release, Drain, End, Drop, Close}, a)
}

// rule is a row of the table: in these phases, these inputs lead to a phase and to actions.
type rule struct {
	in []Phase
	on []Kind
	to Phase // Absent: the phase remains
	do []Action
}

var going = []Phase{Running, Pausing, Paused, Resuming}

// table is the machine. An input that it does not list for a phase changes nothing and gives no actions.
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

// find returns the row for an input in a phase; nil if there is none.
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
	CodeLoss      = "loss" // the run went on without a node
	CodeAbandoned = "abandoned"
	codeNotBegun  = "not_begun"
	codeLeaving   = "leaving"
)

// Cause is the cause in the record of a run: the fault that ended the run, or else the first loss.
type Cause struct {
	fault.Fault
	Code string
}

// State is all that the machine knows of a run. The zero State: there is no run.
type State struct {
	Phase    Phase
	Ticket   uint64 // counts the phases: see Input
	ByItself string // the End of a run that drains without a stop: EndEvents or EndInput; set before Open

	Begun    time.Time // when every node was Running; zero: not all were yet
	Ending   time.Time // when a stop was asked for, or a fault struck the run; zero: neither happened
	Draining time.Time // when the scheduler was told to issue no more tokens; zero: it was not told

	End       string // why the run ends, an End constant; empty: it goes on
	StoppedBy string // the user who asked for the end; empty: no user did
	Cause     *Cause // for the record; nil: there is none
	// Fault is the cause of the run's end in its report; nil: no fault ended it.
	Fault   *fault.Fault
	GivenUp bool     // the MEPs under way were dropped
	Missing []string // nodes, and the scheduler, that cannot report any more how the run ended
	Outcome
}

// Outcome is what the nodes report of the run's end after they have stopped.
type Outcome struct {
	SelfStop     bool         // the nodes missed the control for longer than their lease, and began to end the run
	BadInput     string       // the bad record that ended an input; empty: none did
	BrokenSource string       // why a live source failed, which the settings tolerated; empty: none failed
	InputFault   *fault.Fault // the failure of live sources that ends the run; nil: none does
}

// Input is an event in the life of a run. Each field names the kinds that fill it in; other kinds leave it empty.
type Input struct {
	Kind    Kind
	At      time.Time
	Ticket  uint64       // Done, Failed: the Ticket of the State whose actions they answer
	Reason  string       // Stop, Finish, Abandon: an End constant if a user asked; Found kinds: why the run ends
	By      string       // Stop, Finish, Abandon: the user who gave the last command
	Node    string       // Excluded, Needed
	Missing []string     // Found kinds: nodes, and the scheduler, that cannot report any more how the run ended
	Fault   *fault.Fault // Failed, GiveUp, Struck, Lost; Found kinds: the fault that ends the run
	Code    string       // GiveUp, Struck: the Code of the Cause; empty: CodeFault
	Outcome              // Done in Stopping
	Found                // Found kinds
}

// Found is the part of a run's record that a restarted control gives the machine.
type Found struct {
	Begun, Ending time.Time // as in State
	End           string    // why the run was being ended; empty: it was not
	Cause         *Cause
}

// Step returns the state after an input, and the actions for the caller, in order.
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

// note copies into the state what an input says of the run.
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

// noteOver notes why the run is to end; the first reason counts.
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

// noteFirst notes the cause of a loss; the first cause stays.
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

// noteStop notes the end that a user or the machine asked for. A user who has the run dropped, or who stops it before
// it has begun, is the cause in its record.
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

// noteFault notes the fault that ends the run. The record gets it as the cause unless the run was already ending.
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

// noteFound restores what the run's record says, and notes the fault that ends the run now.
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

// Reports is what nodes and scheduler report of a run to a restarted control.
type Reports struct {
	SelfStop        bool     // the nodes end the run because they missed the control, or have ended it
	Running         int      // nodes on which the run goes on
	Missing         []string // nodes of the run that were not lost to it, and the scheduler, that do not report any more
	Paused          int      // nodes that are paused
	SchedulerPaused bool
}

// Find returns the first input to the machine of a run that a restarted control finds; component names the control.
// Where the earlier control was killed while it paused or resumed the run, some nodes are paused and others not: Find
// returns FoundPaused, since a paused run loses nothing and a person can decide. Where no node runs the run any more
// and some do not report, the run may have ended in good order: Find returns FoundOver, and the run is not given up.
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
	case record.End == EndFault: // the earlier control was killed while it ended the run
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
