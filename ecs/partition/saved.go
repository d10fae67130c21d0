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

	"ringlet/ecs/journal"
	"ringlet/ecs/record"
	"ringlet/node/config"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// savedState is what a control that comes back must know. It is written before the nodes hear of a change that matters.
type savedState struct {
	State                    string          `json:"state"`
	OriginalConfiguration    string          `json:"asked"`         // the configuration as it was given
	Configuration            string          `json:"configuration"` // for all members
	ParticipantConfiguration string          `json:"part"`          // for those who take part
	Names                    []string        `json:"names"`
	Absent                   []absentNode    `json:"absent,omitempty"`
	Excluded                 map[string]bool `json:"excluded,omitempty"`
	View                     json.RawMessage `json:"view,omitempty"`
	Run                      uint32          `json:"run,omitempty"`    // that is not over
	Linked                   bool            `json:"linked,omitempty"` // the nodes have the links of the view
}

const savedStateKey = "partition"

// saveState writes down where the partition is.
func (c *control) saveState() {
	m := savedState{State: c.runner.Status().State.String()}
	c.mu.Lock()
	m.Excluded = c.excluded
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
	text, err := json.Marshal(m)
	c.mu.Unlock()
	if err != nil {
		c.log.Error("the partition would not be found again", "err", err)
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

// decode turns the saved state into what it stands for.
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

// Store is what outlives the run control: a *record.Store. Each call is bounded in time; that may be some seconds.
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

// pendingWrites is what the store has not taken, since its disk is full or does not answer. A run goes on, and is
// stopped, all the same: what is to be written is kept here, said loudly, and tried again until the store takes it.
// Its methods may be called by any goroutine; none of them waits for long.
type pendingWrites struct {
	// immutable once the partition is made
	store   Store
	journal *journal.Journal
	log     *slog.Logger

	flushMu sync.Mutex // held while the store is given what is kept, so that the newest is the last

	mu            sync.Mutex // guards what follows
	lastError     error      // the store does not take; nil: it does
	failingSince  time.Time  // it has not
	records       map[uint32]*ecsv1.Run
	events        []*ecsv1.Event // in order
	droppedEvents int            // events beyond the most that are kept
	savedState    []byte         // of the partition; nil: the store has it
}

// maxPendingEvents are kept while the store does not take: a run of many hours has some hundreds.
const maxPendingEvents = 4000

// writeRetryInterval is how often the store is tried again.
const writeRetryInterval = time.Second

// putRecord writes the record of a run.
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

// addEvent adds an event to the record of its run.
func (u *pendingWrites) addEvent(e *ecsv1.Event) {
	u.keepAndFlush(func() {
		if len(u.events) >= maxPendingEvents {
			u.droppedEvents++
			return
		}
		u.events = append(u.events, e)
	})
}

// saveState writes down where the partition is.
func (u *pendingWrites) saveState(text []byte) { u.keepAndFlush(func() { u.savedState = text }) }

// keepAndFlush keeps what is to be written, and gives it to the store unless that has just failed.
func (u *pendingWrites) keepAndFlush(keep func()) {
	u.mu.Lock()
	keep()
	failing := u.lastError != nil
	u.mu.Unlock()
	if !failing {
		u.flush()
	}
}

// retry tries what has failed.
func (u *pendingWrites) retry() {
	if u.alarm() != nil {
		u.flush()
	}
}

// flush gives the store what is kept: events before the record of their run, which takes none once it is closed.
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

// writeAll gives the store this much, and forgets what it takes.
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

// transientError passes on an error that may pass. What is refused for good is not tried again; an event that comes
// behind the end of its run is in the journal.
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

// noteFailure says, once, that the store does not take.
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

// noteSuccess says that the store takes again, if that is new.
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

// publish tells the journal alone: the record cannot be told.
func (u *pendingWrites) publish(severity ecsv1.Severity, text string) {
	u.journal.Add(&ecsv1.Event{
		At:        timestamppb.Now(),
		Kind:      "alarm",
		Component: partitionComponent,
		Severity:  severity,
		Text:      text,
	})
}

// alarm stands for as long as the store does not take; nil while it does.
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

// latestRecord is the record of the newest run, written or not.
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
