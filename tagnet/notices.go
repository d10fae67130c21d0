package tagnet

import (
	"errors"
	"sync"
	"time"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// maxNotices bounds what is remembered for somebody who follows later. A view of 100 units with an incident for each
// and a thousand pauses has less; the oldest go first, and their numbers are missing.
const maxNotices = 4096

// notices are what happened to a scheduler since it began, for any number of followers.
type notices struct {
	mu         sync.Mutex // guards the rest
	kept       []*tagnetv1.Notice
	lastNumber uint64        // number of the newest
	changed    chan struct{} // closed when there is a newer one or no more will come
	closed     bool
}

func newNotices() *notices { return &notices{changed: make(chan struct{})} }

// add appends a notice. It sets its number and its time.
func (n *notices) add(m *tagnetv1.Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	n.lastNumber++
	m.Number, m.AtNs = n.lastNumber, time.Now().UnixNano()
	if len(n.kept) == maxNotices {
		n.kept = append(n.kept[:0], n.kept[maxNotices/2:]...)
	}
	n.kept = append(n.kept, m)
	close(n.changed)
	n.changed = make(chan struct{})
}

// close tells that no more will come.
func (n *notices) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.closed = true
		close(n.changed)
	}
}

// noticesAfter returns the notices behind a number, what to wait for if there are none, and whether none will come any
// more.
func (n *notices) noticesAfter(number uint64) (out []*tagnetv1.Notice, changed <-chan struct{}, over bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, m := range n.kept {
		if m.GetNumber() > number {
			out = append(out, n.kept[i:]...)
			break
		}
	}
	return out, n.changed, n.closed
}

func (n *notices) addState(s State) { n.add(&tagnetv1.Notice{State: tagnetv1.State(s)}) }

func (n *notices) addIncident(e *UnitError) { n.add(&tagnetv1.Notice{Incident: incidentMessage(e)}) }

func incidentMessage(e *UnitError) *tagnetv1.Incident {
	m := &tagnetv1.Incident{
		Role: tagnetv1.Incident_Role(e.Role + 1), Unit: e.Unit, Kind: tagnetv1.Incident_Kind(e.Incident + 1),
	}
	if e.Err != nil {
		m.SeenBy = e.Err.Error()
	}
	return m
}

// incidentOf is incidentMessage backwards; false if the message names nothing that this version knows.
func incidentOf(m *tagnetv1.Incident) (*UnitError, bool) {
	role, kind := m.GetRole()-1, m.GetKind()-1
	if role < 0 || int(role) > int(Builder) || kind < 0 || int(kind) > int(UnitMisbehaved) {
		return nil, false
	}
	e := &UnitError{Role: Role(role), Unit: m.GetUnit(), Incident: Incident(kind)}
	if e.Incident != UnitMissing {
		e.Err = errors.New(m.GetSeenBy())
	}
	return e, true
}
