package partition_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ringlet/ecs/record"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// disk is what a store lies on. While it fails nothing can be written, after a time that a call may take.
type disk struct {
	fails   atomic.Pointer[error]
	last    atomic.Pointer[error] // what alone cannot be written: the ends of runs
	latency atomic.Int64          // ns
	tried   atomic.Int64
}

func (d *disk) write(f func() error) error {
	fails := d.fails.Load()
	if fails == nil {
		return f()
	}
	d.tried.Add(1)
	time.Sleep(time.Duration(d.latency.Load()))
	return *fails
}

// onDisk is a store on a disk that may fail.
type onDisk struct {
	*record.Store
	disk *disk
}

func (s *onDisk) Put(r *ecsv1.Run) error {
	if err := s.disk.last.Load(); err != nil && record.IsClosed(r) {
		return *err
	}
	return s.disk.write(func() error { return s.Store.Put(r) })
}

func (s *onDisk) AddEvent(run uint32, events ...*ecsv1.Event) error {
	return s.disk.write(func() error { return s.Store.AddEvent(run, events...) })
}

func (s *onDisk) Remember(key string, value []byte) error {
	return s.disk.write(func() error { return s.Store.Remember(key, value) })
}

func (s *onDisk) NextRun(begun *ecsv1.Run) (r *ecsv1.Run, err error) {
	err = s.disk.write(func() error { r, err = s.Store.NextRun(begun); return err })
	return r, err
}

// A record that cannot be written is said loudly and stops nobody from stopping: it is written when it can be.
func TestStopWithoutTheRecord(t *testing.T) {
	full, busy := errors.New("no space left on device"), &record.BusyError{Path: "runs.db", Waited: 3 * time.Second}
	for name, c := range map[string]struct {
		err     error
		takes   time.Duration
		command []string
		verdict ecsv1.Verdict
	}{
		"a full disk": {full, 0, []string{"stop"}, ecsv1.Verdict_VERDICT_GOOD},
		"it hangs":    {busy, 300 * time.Millisecond, []string{"stop"}, ecsv1.Verdict_VERDICT_GOOD},
		"it hangs, abandoned": {busy, 300 * time.Millisecond, []string{"stop", "abandon", "true"},
			ecsv1.Verdict_VERDICT_ABORTED},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFarm(t, 2, nil)
			h.mustCommand("load", "configure", "start")
			h.awaitBuilt(0)
			h.disk.latency.Store(int64(c.takes))
			h.disk.fails.Store(&c.err)
			if err := h.command(c.command[0], c.command[1:]...); err != nil {
				t.Fatal(err)
			}
			if h.state() != "Ready" {
				t.Errorf("it is %s", h.state())
			}
			if !h.journalHas("alarm", "the run record cannot be written: "+c.err.Error()) {
				t.Error("nobody says that the record cannot be written")
			}
			alarmed := func() bool {
				return slices.ContainsFunc(h.Snapshot(0).GetAlarms(), func(a *ecsv1.Alarm) bool {
					return a.GetRule() == "record-not-written" && a.GetSeverity() == ecsv1.Severity_SEVERITY_ERROR &&
						strings.Contains(a.GetWhat(), c.err.Error())
				})
			}
			h.await("the alarm stands", alarmed)
			if err := h.command("start"); err == nil || !strings.Contains(err.Error(), "no run can begin without its record") {
				t.Errorf("a run begins without a record: %v", err)
			}
			h.disk.fails.Store(nil)
			h.await("the alarm is over", func() bool { return !alarmed() && h.journalHas("alarm", "has all that it missed") })
			r := h.closedRun(1)
			if r.GetVerdict() != c.verdict || r.GetReportJson() == "" {
				t.Errorf("run 1 is %v, %v", r.GetVerdict(), r.GetCause())
			}
			if !slices.ContainsFunc(r.GetEvents(),
				func(e *ecsv1.Event) bool { return strings.Contains(e.GetText(), "run 1 is over") }) {
				t.Errorf("the record misses events: %v", r.GetEvents())
			}
		})
	}
}

// A run that the store was told of in vain has its record as soon as the control ends, if the disk is well by then.
func TestRecordIsWrittenBeforeTheEnd(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 2, nil)
	h.mustCommand("load", "configure", "start")
	h.awaitBuilt(0)
	full := errors.New("no space left on device")
	h.disk.fails.Store(&full)
	h.mustCommand("stop")
	report, err := h.StopAndReport()
	if err != nil || report == nil || report.EventsBuilt == 0 {
		t.Errorf("the last report is %v, %v", report, err)
	}
	h.disk.fails.Store(nil)
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	h.closedRun(1)
}

// A run whose end the store has not taken keeps its scheduler: a control that comes back can tell how the run ended,
// and does not call it INCOMPLETE.
func TestControlIsLostBeforeTheEndIsWritten(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 2, nil)
	h.mustCommand("load", "configure", "start")
	h.awaitBuilt(0)
	busy := error(&record.BusyError{Path: "runs.db", Waited: 3 * time.Second})
	h.disk.last.Store(&busy)
	h.mustCommand("stop")
	if r, err := h.store.Get(1); err != nil || record.IsClosed(r) {
		t.Fatalf("the end is written: %v, %v", r, err)
	}
	h.stopControl()
	h.disk.last.Store(nil)
	h.restartControl(2)
	h.awaitClosed(1)
	good(t, h.closedRun(1), ecsv1.Verdict_VERDICT_GOOD, "stopped")
	h.awaitState("Ready")
	h.mustCommand("start")
	h.awaitBuilt(0)
	h.mustCommand("stop")
	good(t, h.closedRun(2), ecsv1.Verdict_VERDICT_GOOD, "stopped")
}
