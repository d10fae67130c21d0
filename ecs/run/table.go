package run

import (
	"fmt"
	"slices"
	"strings"
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

// IsGoing says that the run goes on, or is to: it can be ended, and given up.
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
	{append([]Phase{Beginning, Draining, Stopping}, going...), []Kind{Lost, Excluded}, Absent, []Action{Write}},

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
