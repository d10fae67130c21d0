package partition

import (
	"ringlet/ecs/partition/nodes"
	"ringlet/ecs/record"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// What is to be done with a run that a control finds when it comes back.
type found uint8

const (
	foundOver      found = iota // its record is closed: its scheduler may still be there
	foundBeginning              // it never began: give it up
	foundFailed                 // a fault was being carried out: give it up for that
	foundAbandoned              // somebody was giving it up: do
	foundAlone                  // its nodes have ended it by themselves: close it
	foundEnding                 // it was being stopped: stop it
	foundOverSince              // over on its nodes, and not all of it can be told any more: close it with what can
	foundPaused                 // it is paused, or was on the way there or back: it is paused then
	foundRunning                // it goes on
)

// told is what nodes and scheduler tell of a run.
type told struct {
	alone           bool // the nodes have ended it by themselves, or do
	going           int  // nodes on which it goes on
	missing         bool // a node that took part to the end, or the scheduler, cannot tell any more
	paused          int  // nodes that are paused
	schedulerPaused bool
}

// find decides that, by the record, by what the last control was asked, and by what nodes and scheduler tell. Where
// pausing or resuming was cut short nobody knows which; paused is the state in which nothing is lost and somebody
// decides. A run that goes on nowhere was ended in good order, or cannot be known to have been otherwise: nobody
// gives it up then.
func find(rec *ecsv1.Run, abandon bool, t told) found {
	switch {
	case record.Closed(rec):
		return foundOver
	case rec.GetStartDone() == nil:
		return foundBeginning
	case rec.GetEnd() == nodes.EndFault:
		return foundFailed
	case abandon:
		return foundAbandoned
	case t.going == 0 && t.missing:
		return foundOverSince
	case t.alone:
		return foundAlone
	case rec.GetStopBegun() != nil:
		return foundEnding
	case t.schedulerPaused || t.paused > 0:
		return foundPaused
	}
	return foundRunning
}
