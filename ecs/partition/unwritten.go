package partition

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/ecs/journal"
	"ringlet/ecs/record"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// Store is what outlives the run control: a *record.Store. Each call is bounded in time; that may be some seconds.
type Store interface {
	AtLeast(n uint32) error
	NextRun(begun *ecsv1.Run) (*ecsv1.Run, error)
	Put(r *ecsv1.Run) error
	Complete(r *ecsv1.Run) error
	AddEvent(run uint32, events ...*ecsv1.Event) error
	Get(run uint32) (*ecsv1.Run, error)
	Latest() (*ecsv1.Run, error)
	Last() (uint32, error)
	List(before uint32, limit int) (record.List, error)
	OpenRuns() (record.List, error)
	Remember(key string, value []byte) error
	Recall(key string) ([]byte, error)
}

// unwritten is what the store has not taken, since its disk is full or does not answer. A run goes on, and is
// stopped, all the same: what is to be written is kept here, said loudly, and tried again until the store takes it.
// Its methods may be called by any goroutine; none of them waits for long.
type unwritten struct {
	// immutable once the partition is made
	store   Store
	journal *journal.Journal
	log     *slog.Logger

	writing sync.Mutex // held while the store is given what is kept, so that the newest is the last

	mu      sync.Mutex // guards what follows
	why     error      // the store does not take; nil: it does
	since   time.Time  // it has not
	records map[uint32]*ecsv1.Run
	events  []*ecsv1.Event // in order
	dropped int            // events beyond the most that are kept
	memory  []byte         // of the partition; nil: the store has it
}

// mostEvents are kept while the store does not take: a run of many hours has some hundreds.
const mostEvents = 4000

// writeAgain is how often the store is tried again.
const writeAgain = time.Second

// record writes the record of a run.
func (u *unwritten) record(r *ecsv1.Run) {
	u.write(func() {
		if u.records == nil {
			u.records = map[uint32]*ecsv1.Run{}
		}
		u.records[r.GetNumber()] = r
	})
}

// holds says that the store has not taken the newest record of a run yet.
func (u *unwritten) holds(run uint32) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.records[run] != nil
}

// event adds an event to the record of its run.
func (u *unwritten) event(e *ecsv1.Event) {
	u.write(func() {
		if len(u.events) >= mostEvents {
			u.dropped++
			return
		}
		u.events = append(u.events, e)
	})
}

// remember writes down where the partition is.
func (u *unwritten) remember(text []byte) { u.write(func() { u.memory = text }) }

// write keeps what is to be written, and gives it to the store unless that has just failed.
func (u *unwritten) write(keep func()) {
	u.mu.Lock()
	keep()
	failing := u.why != nil
	u.mu.Unlock()
	if !failing {
		u.flush()
	}
}

// again tries what has failed.
func (u *unwritten) again() {
	if u.alarm() != nil {
		u.flush()
	}
}

// flush gives the store what is kept: events before the record of their run, which takes none once it is closed.
func (u *unwritten) flush() {
	u.writing.Lock()
	defer u.writing.Unlock()
	for {
		u.mu.Lock()
		events, memory := u.events, u.memory
		records := make([]*ecsv1.Run, 0, len(u.records))
		for _, number := range slices.Sorted(maps.Keys(u.records)) {
			records = append(records, u.records[number])
		}
		u.mu.Unlock()
		if len(events)+len(records) == 0 && memory == nil {
			u.fine()
			return
		}
		if err := u.give(events, records, memory); err != nil {
			u.failed(err)
			return
		}
	}
}

// give gives the store this much, and forgets what it takes.
func (u *unwritten) give(events []*ecsv1.Event, records []*ecsv1.Run, memory []byte) error {
	for _, e := range events {
		if err := u.lasting(u.store.AddEvent(e.GetRun(), e)); err != nil {
			return err
		}
		u.mu.Lock()
		u.events = u.events[1:]
		u.mu.Unlock()
	}
	for _, r := range records {
		if err := u.lasting(u.store.Put(r)); err != nil {
			return err
		}
		u.mu.Lock()
		if u.records[r.GetNumber()] == r {
			delete(u.records, r.GetNumber())
		}
		u.mu.Unlock()
	}
	if memory == nil {
		return nil
	}
	if err := u.store.Remember(memoryKey, memory); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if string(u.memory) == string(memory) {
		u.memory = nil
	}
	return nil
}

// lasting passes on an error that may pass. What is refused for good is not tried again; an event that comes behind
// the end of its run is in the journal.
func (u *unwritten) lasting(err error) error {
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

// failed says, once, that the store does not take.
func (u *unwritten) failed(err error) {
	u.mu.Lock()
	first := u.why == nil
	if u.why = err; first {
		u.since = time.Now()
	}
	u.mu.Unlock()
	if first {
		u.say(ecsv1.Severity_SEVERITY_ERROR, "the run record cannot be written: "+err.Error()+"; "+unwrittenAdvice)
	}
}

const unwrittenAdvice = "make room on the disk of --state, or mend it; runs go on and can be stopped, and what is to " +
	"be written is kept in memory until it can be"

// fine says that the store takes again, if that is new.
func (u *unwritten) fine() {
	u.mu.Lock()
	was, dropped := u.why, u.dropped
	u.why, u.dropped = nil, 0
	u.mu.Unlock()
	switch {
	case was != nil && dropped > 0:
		u.say(ecsv1.Severity_SEVERITY_WARNING,
			fmt.Sprintf("the run record is written again; %d events are not in it", dropped))
	case was != nil:
		u.say(ecsv1.Severity_SEVERITY_INFO, "over: the run record is written again, and has all that it missed")
	}
}

// say tells the journal alone: the record cannot be told.
func (u *unwritten) say(severity ecsv1.Severity, text string) {
	u.journal.Add(&ecsv1.Event{
		At:        timestamppb.Now(),
		Kind:      "alarm",
		Component: ownName,
		Severity:  severity,
		Text:      text,
	})
}

// alarm stands for as long as the store does not take; nil while it does.
func (u *unwritten) alarm() *ecsv1.Alarm {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.why == nil {
		return nil
	}
	return &ecsv1.Alarm{
		Rule:      "record-not-written",
		Component: ownName,
		What:      "the run record cannot be written: " + u.why.Error(),
		Advice:    unwrittenAdvice,
		Severity:  ecsv1.Severity_SEVERITY_ERROR,
		Since:     timestamppb.New(u.since),
	}
}

// latest is the record of the newest run, written or not.
func (u *unwritten) latest() (*ecsv1.Run, error) {
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
