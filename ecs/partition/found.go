package partition

import (
	"ringlet/ecs/record"
	"ringlet/internal/control"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// What is to be done with a run that a control finds when it comes back.
type found uint8

const (
	foundOver      found = iota // its record is closed: only its scheduler may be left
	foundBeginning              // it never began: give it up
	foundFailed                 // a fault was being carried out: give it up for that
	foundAbandoned              // somebody was giving it up: do
	foundAlone                  // its nodes have ended it by themselves: close it
	foundEnding                 // it was being stopped: stop it
	foundPaused                 // it is paused, or was on the way there or back: it is paused then
	foundRunning                // it goes on
)

// find decides that, by the record, by what the last control was asked, and by what nodes and scheduler tell. Where pausing or resuming was cut
// short nobody knows which; paused is the state in which nothing is lost and somebody decides.
func find(rec *ecsv1.Run, abandon, alone bool, paused int, schedulerPaused bool) found {
	switch {
	case record.Closed(rec):
		return foundOver
	case rec.GetStartDone() == nil:
		return foundBeginning
	case rec.GetEnd() == control.EndFault:
		return foundFailed
	case abandon:
		return foundAbandoned
	case alone:
		return foundAlone
	case rec.GetStopBegun() != nil:
		return foundEnding
	case schedulerPaused || paused > 0:
		return foundPaused
	}
	return foundRunning
}
