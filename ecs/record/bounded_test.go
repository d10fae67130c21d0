package record

import (
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	"ringlet/testkit/patiently"
)

// A disk that hangs holds up nobody for longer than the bound, and after the first nobody at all; when it answers
// again all is well.
func TestDiskThatHangs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.NextRun(nil)
		if err != nil {
			t.Fatal(err)
		}
		hangs := make(chan struct{})
		s.beforeTx = func() { <-hangs }
		for i, call := range []func() error{
			func() error { return s.AddEvent(r.GetNumber(), &ecsv1.Event{Text: "x"}) },
			func() error { return s.Put(r) },
			func() error { return s.AddAudit(&ecsv1.AuditEntry{}) },
			func() error { return s.Remember("x", []byte("y")) },
			func() error { _, err := s.NextRun(nil); return err },
		} {
			began := time.Now()
			var busy *BusyError
			err := call()
			if took := time.Since(began); !errors.As(err, &busy) || i == 0 && took != answerTimeout || i > 0 && took != 0 {
				t.Errorf("call %d: %v after %v", i, err, took)
			}
		}
		if _, err := s.Get(r.GetNumber()); err == nil {
			t.Error("what cannot be read was read")
		}
		if n, err := s.LastRunNumber(); err != nil || n != r.GetNumber() {
			t.Errorf("the newest run is %d, %v", n, err)
		}
		close(hangs)
		synctest.Wait()
		if err := s.Put(r); err != nil {
			t.Errorf("the disk answers again: %v", err)
		}
		if got, err := s.Get(r.GetNumber()); err != nil || len(got.GetEvents()) != 1 {
			t.Errorf("what was not waited for has not come about: %v, %v", got, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Writers that come together wait for each other, not longer than the bound.
func TestManyWriters(t *testing.T) {
	s := newStore(t)
	errs := make(chan error)
	for range 50 {
		go func() { _, err := s.NextRun(nil); errs <- err }()
	}
	for range 50 {
		if err := patiently.Receive(t, errs); err != nil {
			t.Error(err)
		}
	}
	if n, err := s.LastRunNumber(); err != nil || n != 50 {
		t.Errorf("%d runs, %v", n, err)
	}
}

// A process that stood still has one tick of all that time, so a disk that answers once the process goes on is in time
// (found by the soak, plan 28 of seed 1 with pauses: a control that stood still for 29 s could not begin a run).
func TestProcessThatStoodStill(t *testing.T) {
	for ticks, late := range map[int]bool{1: false, waitTicks - 1: false, waitTicks: true} {
		synctest.Test(t, func(t *testing.T) {
			ticked := make(chan time.Time, waitTicks)
			b := newBoundedTx("x", 1)
			b.newTicker = func(time.Duration) *time.Ticker {
				t := time.NewTicker(time.Hour)
				t.C = ticked
				return t
			}
			answers := make(chan struct{})
			err := make(chan error)
			go func() { err <- b.run(func() error { <-answers; return nil }) }()
			for range ticks {
				ticked <- time.Time{}
				synctest.Wait()
			}
			if late {
				var busy *BusyError
				if got := <-err; !errors.As(got, &busy) {
					t.Errorf("after %d ticks: %v", ticks, got)
				}
				close(answers)
				return
			}
			close(answers)
			if got := <-err; got != nil {
				t.Errorf("after %d ticks: %v", ticks, got)
			}
		})
	}
}
