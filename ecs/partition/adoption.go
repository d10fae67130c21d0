package partition

import (
	"cmp"
	"slices"

	"ringlet/ecs/partition/fault"
	"ringlet/ecs/partition/nodes"
	"ringlet/ecs/record"
	"ringlet/node/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// adoption is what a control that comes back has found so far. It is a pure core: next says what to do, the shell does
// it, fills in what it has found, and calls took; so until a step is the last one.
type adoption struct {
	memory *memory    // what the last control wrote down; nil before it is read, and where there is nothing
	record *ecsv1.Run // of the run that was not over; nil before it is read
	told   *told      // what nodes and scheduler tell of that run; nil before they are asked
	states []string   // where each node of the view is, as it told last; empty for one that tells nothing

	did    [adoptActs]bool // what was tried
	failed error           // why the rest is left; nil: nothing has failed that matters
}

// told is what nodes and scheduler tell of a run.
type told struct {
	alone           *nodev1.Cause // why the nodes have ended it by themselves, or do; nil: they have not
	going           int           // nodes on which it goes on
	missing         []string      // nodes that took part to the end, and the scheduler, that cannot tell any more
	paused          int           // nodes that are paused
	schedulerPaused bool
}

// adoptAct is one thing that a control does when it comes back.
type adoptAct uint8

const (
	adoptRecall       adoptAct = iota // read what the last control wrote down
	adoptAsk                          // connect to the nodes of the view, and ask each
	adoptRead                         // read the record of the run
	adoptTakeUp                       // connect to the scheduler, and ask what it and the nodes tell of the run
	adoptEndScheduler                 // the run is on record already: only its scheduler may still be there
	adoptGiveUp                       // give the run up
	adoptConclude                     // close the run, which is over on its nodes, with what can be told
	adoptPause                        // pause the run on every node
	adoptClear                        // bring every node to rest
	adoptForget                       // say what failed, and let everything go
	adoptOffline                      // this and what follows are last: the state in which the partition is then
	adoptNotReady
	adoptReady
	adoptRunning
	adoptPaused
	adoptStop // it is Running, and stops
	adoptActs
)

// String is for transcripts and logs.
func (a adoptAct) String() string {
	return [...]string{
		adoptRecall:       "the memory is read",
		adoptAsk:          "the nodes are asked",
		adoptRead:         "the record of the run is read",
		adoptTakeUp:       "the run is taken up",
		adoptEndScheduler: "the scheduler of the run is ended",
		adoptGiveUp:       "the run is given up",
		adoptConclude:     "the run is closed with what can be told",
		adoptPause:        "the run is paused",
		adoptClear:        "the nodes are brought to rest",
		adoptForget:       "what was found is let go",
		adoptOffline:      "the partition is Offline",
		adoptNotReady:     "the partition is NotReady",
		adoptReady:        "the partition is Ready",
		adoptRunning:      "the partition is Running",
		adoptPaused:       "the partition is Paused",
		adoptStop:         "the partition is Running, and stops",
	}[a]
}

// last says that nothing comes after it.
func (a adoptAct) last() bool { return a >= adoptOffline }

// borne says that the control goes on when a node did not do it.
func (a adoptAct) borne() bool { return a == adoptAsk || a == adoptPause || a == adoptClear }

// adoptStep is what is to be done next.
type adoptStep struct {
	do    adoptAct
	end   string       // why the run ends; empty: it goes on, or its record says so
	cause *fault.Fault // that gives it up; nil: no fault does
}

// took notes that a step was tried, and how it failed; nil if it did not.
func (a *adoption) took(did adoptAct, err error) {
	a.did[did] = true
	if err != nil && !did.borne() {
		a.failed = err
	}
}

// next is the next step.
func (a *adoption) next() adoptStep {
	switch {
	case a.did[adoptForget]:
		return adoptStep{do: adoptOffline}
	case a.failed != nil:
		return adoptStep{do: adoptForget}
	case !a.did[adoptRecall]:
		return adoptStep{do: adoptRecall}
	case a.memory == nil:
		return adoptStep{do: adoptOffline}
	case a.memory.View == nil: // it was loaded and not configured: configure meets the nodes
		return adoptStep{do: adoptNotReady}
	case !a.did[adoptAsk]:
		return adoptStep{do: adoptAsk}
	case a.memory.Run == 0 || a.did[adoptEndScheduler] || a.did[adoptGiveUp] || a.did[adoptConclude]:
		return adoptStep{do: a.settle()}
	case a.record == nil:
		return adoptStep{do: adoptRead}
	case record.Closed(a.record):
		return adoptStep{do: adoptEndScheduler}
	case a.told == nil:
		return adoptStep{do: adoptTakeUp}
	}
	return a.found()
}

// found is what becomes of the run, by its record and by what nodes and scheduler tell. Where pausing or resuming was
// cut short nobody knows which; paused is the state in which nothing is lost and somebody decides. A run that goes on
// nowhere was ended in good order, or cannot be known to have been otherwise: nobody gives it up then.
func (a *adoption) found() adoptStep {
	rec, tells := a.record, a.told
	switch {
	case rec.GetStartDone() == nil:
		return adoptStep{adoptGiveUp, nodes.EndControlLost, &fault.Fault{
			Component: nodes.Name, What: "the control was lost while the run was beginning", Evidence: "seen when it came back",
		}}
	case rec.GetEnd() == nodes.EndFault: // it was being carried out
		struck := fault.Told(rec.GetCause())
		return adoptStep{adoptGiveUp, nodes.EndFault, &struck}
	case rec.GetCause().GetCode() == codeAbandoned:
		return adoptStep{do: adoptGiveUp, end: rec.GetEnd()}
	case tells.going == 0 && len(tells.missing) > 0:
		return adoptStep{do: adoptConclude, end: cmp.Or(rec.GetEnd(), nodes.EndControlLost)}
	case tells.alone != nil:
		return adoptStep{do: adoptStop, end: nodes.EndControlLost}
	case rec.GetStopBegun() != nil:
		return adoptStep{do: adoptStop, end: rec.GetEnd()}
	case a.did[adoptPause]:
		return adoptStep{do: adoptPaused}
	case tells.schedulerPaused || tells.paused > 0:
		return adoptStep{do: adoptPause}
	}
	return adoptStep{do: adoptRunning}
}

// settle is where nodes without a run are: all Ready, all NotReady, or to be brought to rest. Those that tell nothing
// do not count: start and configure do without them, or say that they are missing.
func (a *adoption) settle() adoptAct {
	tell := slices.DeleteFunc(slices.Clone(a.states), func(is string) bool { return is == "" })
	all := func(s fsm.State) bool {
		return len(tell) > 0 && !slices.ContainsFunc(tell, func(is string) bool { return is != s.String() })
	}
	switch {
	case a.did[adoptClear] || all(fsm.NotReady):
		return adoptNotReady
	case all(fsm.Ready):
		return adoptReady
	}
	return adoptClear
}

// orphaned closes the record of a run whose nodes could not be taken up again.
func orphaned(r *ecsv1.Run) {
	doing := "going on"
	switch {
	case r.GetStartDone() == nil:
		doing = "beginning"
	case r.GetStopBegun() != nil:
		doing = "ending"
	}
	abandoned(r, "the control was lost while the run was "+doing+", and its nodes could not be taken up again")
}
