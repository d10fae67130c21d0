package partition

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/ecs/figures"
	"ringlet/ecs/journal"
	"ringlet/ecs/record"
	"ringlet/node/config"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// savedState is what a restarted control must know. The control writes it before it tells the nodes of a change.
type savedState struct {
	State                    string            `json:"state"`
	OriginalConfiguration    string            `json:"asked"`         // the configuration as it was given
	Configuration            string            `json:"configuration"` // for all members
	ParticipantConfiguration string            `json:"part"`          // for the participants
	Names                    []string          `json:"names"`
	Absent                   []absentNode      `json:"absent,omitempty"`
	Excluded                 map[string]bool   `json:"excluded,omitempty"`
	Moves                    map[string]string `json:"moves,omitempty"`
	View                     json.RawMessage   `json:"view,omitempty"`
	Run                      uint32            `json:"run,omitempty"`    // number of the run that is not over
	Linked                   bool              `json:"linked,omitempty"` // the nodes have the links of the view
	Drift                    *figures.Drift    `json:"drift,omitempty"`  // of sources in the run; nil: none was found
}

const savedStateKey = "partition"

// saveState writes the savedState to the store.
func (c *control) saveState() {
	m := savedState{State: c.runner.Status().State.String()}
	c.mu.Lock()
	m.Excluded, m.Moves = c.excluded, c.moves
	if l := c.loadedConfig; l != nil {
		m.OriginalConfiguration, m.Configuration = string(l.original.Effective()), string(l.cfg.Effective())
		m.Names, m.Absent = l.names, l.absent
	}
	if c.nodeSet != nil {
		cfg := c.nodeSet.Configuration()
		m.Linked = c.nodeSet.Linked()
		m.ParticipantConfiguration = string(cfg.Effective())
		if v := c.nodeSet.View(); v != nil {
			m.View, _ = protojson.Marshal(v)
		}
	}
	if c.runRecord != nil {
		m.Run = c.runRecord.GetNumber()
	}
	if c.run != nil {
		if d := c.run.Drift(); d.Slips > 0 || len(d.Findings) > 0 {
			m.Drift = &d
		}
	}
	text, err := json.Marshal(m)
	c.mu.Unlock()
	if err != nil {
		c.log.Error("the state of the partition was not saved: a restarted control would not find it", "err", err)
		return
	}
	c.pendingWrites.saveState(text)
}

func memberNames(v *nodev1.View) []string {
	names := make([]string, len(v.GetMembers()))
	for i, m := range v.GetMembers() {
		names[i] = m.GetName()
	}
	return names
}

// decode returns what the saved state holds: the loaded configuration, which is for all members of the partition; the
// configuration of the participants; and the view. Before a view was saved, the configuration of the participants is
// the loaded one, and the view is empty.
func (m *savedState) decode() (*loadedConfig, config.Completed, *nodev1.View, error) {
	view := &nodev1.View{}
	cfg, err := config.Restore("the configuration of the last control", []byte(m.Configuration))
	original, participantConfig := cfg, cfg
	if err == nil {
		original, err = config.Restore("the configuration that the last control was given",
			[]byte(m.OriginalConfiguration))
	}
	if err == nil && m.View != nil {
		participantConfig, err = config.Restore("the configuration of the last view",
			[]byte(m.ParticipantConfiguration))
	}
	if err == nil && m.View != nil {
		err = protojson.Unmarshal(m.View, view)
	}
	return &loadedConfig{
		original: original,
		cfg:      cfg,
		names:    m.Names,
		absent:   m.Absent,
	}, participantConfig, view, err
}

// Store keeps what outlives the run control: a *record.Store. Each call may take some seconds, not longer.
type Store interface {
	RaiseNextNumber(n uint32) error
	NextRun(begun *ecsv1.Run) (*ecsv1.Run, error)
	Put(r *ecsv1.Run) error
	CompleteRun(r *ecsv1.Run) error
	AddEvent(run uint32, events ...*ecsv1.Event) error
	Get(run uint32) (*ecsv1.Run, error)
	Latest() (*ecsv1.Run, error)
	LastRunNumber() (uint32, error)
	List(before uint32, limit int) (record.RunList, error)
	OpenRuns() (record.RunList, error)
	Remember(key string, value []byte) error
	Recall(key string) ([]byte, error)
}

// pendingWrites queues writes for the store. When the store fails, since its disk is full or does not answer, runs go
// on and can be stopped all the same: pendingWrites keeps the writes in memory, raises an alarm, and tries again every
// writeRetryInterval. Its methods may be called by any goroutine; none of them waits for long.
type pendingWrites struct {
	// immutable once the partition is made
	store   Store
	journal *journal.Journal
	log     *slog.Logger

	flushMu sync.Mutex // held while writing to the store, so that the newest write is the last

	mu            sync.Mutex // guards what follows
	lastError     error      // of the store; nil: the last write succeeded
	failingSince  time.Time  // first failure after the last success
	records       map[uint32]*ecsv1.Run
	events        []*ecsv1.Event // in order
	droppedEvents int            // events beyond maxPendingEvents
	savedState    []byte         // state of the partition to be written; nil: the store has the newest
}

// maxPendingEvents bounds the events that are kept while the store fails: a run of many hours has some hundreds.
const maxPendingEvents = 4000

// writeRetryInterval is the time between two attempts while the store fails.
const writeRetryInterval = time.Second

// putRecord queues the record of a run.
func (u *pendingWrites) putRecord(r *ecsv1.Run) {
	u.keepAndFlush(func() {
		if u.records == nil {
			u.records = map[uint32]*ecsv1.Run{}
		}
		u.records[r.GetNumber()] = r
	})
}

// hasRecord says that the store has not taken the newest record of a run yet.
func (u *pendingWrites) hasRecord(run uint32) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.records[run] != nil
}

// addEvent queues an event for the record of its run.
func (u *pendingWrites) addEvent(e *ecsv1.Event) {
	u.keepAndFlush(func() {
		if len(u.events) >= maxPendingEvents {
			u.droppedEvents++
			return
		}
		u.events = append(u.events, e)
	})
}

// saveState queues the savedState.
func (u *pendingWrites) saveState(text []byte) { u.keepAndFlush(func() { u.savedState = text }) }

// keepAndFlush queues a write and flushes, unless the store is failing: then retry flushes.
func (u *pendingWrites) keepAndFlush(keep func()) {
	u.mu.Lock()
	keep()
	failing := u.lastError != nil
	u.mu.Unlock()
	if !failing {
		u.flush()
	}
}

// retry flushes if the store is failing.
func (u *pendingWrites) retry() {
	if u.alarm() != nil {
		u.flush()
	}
}

// flush writes all that is queued: events before the record of their run, since a closed record takes no events.
func (u *pendingWrites) flush() {
	u.flushMu.Lock()
	defer u.flushMu.Unlock()
	for {
		u.mu.Lock()
		events, state := u.events, u.savedState
		records := make([]*ecsv1.Run, 0, len(u.records))
		for _, number := range slices.Sorted(maps.Keys(u.records)) {
			records = append(records, u.records[number])
		}
		u.mu.Unlock()
		if len(events)+len(records) == 0 && state == nil {
			u.noteSuccess()
			return
		}
		if err := u.writeAll(events, records, state); err != nil {
			u.noteFailure(err)
			return
		}
	}
}

// writeAll writes these to the store, and takes each from the queue when it is written.
func (u *pendingWrites) writeAll(events []*ecsv1.Event, records []*ecsv1.Run, state []byte) error {
	for _, e := range events {
		if err := u.transientError(u.store.AddEvent(e.GetRun(), e)); err != nil {
			return err
		}
		u.mu.Lock()
		u.events = u.events[1:]
		u.mu.Unlock()
	}
	for _, r := range records {
		if err := u.transientError(u.store.Put(r)); err != nil {
			return err
		}
		u.mu.Lock()
		if u.records[r.GetNumber()] == r {
			delete(u.records, r.GetNumber())
		}
		u.mu.Unlock()
	}
	if state == nil {
		return nil
	}
	if err := u.store.Remember(savedStateKey, state); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if string(u.savedState) == string(state) {
		u.savedState = nil
	}
	return nil
}

// transientError returns err if it may pass, and nil if the store refuses the write for good: an event that comes after
// the end of its run is in the journal only.
func (u *pendingWrites) transientError(err error) error {
	var closed *record.ClosedError
	var none *record.NoRunError
	switch {
	case errors.As(err, &closed):
		return nil
	case errors.As(err, &none):
		u.log.Error("something is not in the record of its run", "err", err)
		return nil
	}
	return err
}

// noteFailure notes a failure, and publishes the first one.
func (u *pendingWrites) noteFailure(err error) {
	u.mu.Lock()
	first := u.lastError == nil
	if u.lastError = err; first {
		u.failingSince = time.Now()
	}
	u.mu.Unlock()
	if first {
		u.publish(ecsv1.Severity_SEVERITY_ERROR, "the run record cannot be written: "+err.Error()+"; "+unwrittenAdvice)
	}
}

const unwrittenAdvice = "make room on the disk of --state, or mend it; runs go on and can be stopped, and what is to " +
	"be written is kept in memory until it can be"

// noteSuccess publishes that the store takes writes again, if it was failing.
func (u *pendingWrites) noteSuccess() {
	u.mu.Lock()
	was, dropped := u.lastError, u.droppedEvents
	u.lastError, u.droppedEvents = nil, 0
	u.mu.Unlock()
	switch {
	case was != nil && dropped > 0:
		u.publish(ecsv1.Severity_SEVERITY_WARNING,
			fmt.Sprintf("the run record is written again; %d events are not in it", dropped))
	case was != nil:
		u.publish(ecsv1.Severity_SEVERITY_INFO, "over: the run record is written again, and has all that it missed")
	}
}

// publish writes an event to the journal alone, since the record cannot be written.
func (u *pendingWrites) publish(severity ecsv1.Severity, text string) {
	u.journal.Add(&ecsv1.Event{
		At:        timestamppb.Now(),
		Kind:      "alarm",
		Component: partitionComponent,
		Severity:  severity,
		Text:      text,
	})
}

// alarm is the alarm while the store is failing; nil while it is not.
func (u *pendingWrites) alarm() *ecsv1.Alarm {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.lastError == nil {
		return nil
	}
	return &ecsv1.Alarm{
		Rule:      "record-not-written",
		Component: partitionComponent,
		What:      "the run record cannot be written: " + u.lastError.Error(),
		Advice:    unwrittenAdvice,
		Severity:  ecsv1.Severity_SEVERITY_ERROR,
		Since:     timestamppb.New(u.failingSince),
	}
}

// latestRecord is the record of the newest run, whether queued or written.
func (u *pendingWrites) latestRecord() (*ecsv1.Run, error) {
	u.mu.Lock()
	var newest *ecsv1.Run
	for _, r := range u.records {
		if newest == nil || r.GetNumber() > newest.GetNumber() {
			newest = r
		}
	}
	u.mu.Unlock()
	if newest != nil {
		return newest, nil
	}
	return u.store.Latest()
}
