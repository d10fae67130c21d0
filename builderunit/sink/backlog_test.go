package sink

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ringlet/recording"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

func TestBacklogGate(t *testing.T) {
	g := backlogGate{maxBytes: 100}
	g.update(50, 1000)
	for _, tt := range []struct {
		written uint64
		full    bool
	}{{1000, false}, {1049, false}, {1050, true}, {999, false}} {
		if g.isFull(tt.written) != tt.full {
			t.Errorf("%d bytes: %v", tt.written, !tt.full)
		}
	}
	g.update(100, 1050) // all of it is there, and nobody has drained
	if !g.isFull(1050) {
		t.Error("there is no room")
	}
	g.update(20, 1050)
	if g.isFull(1129) || !g.isFull(1130) {
		t.Error("there is room for 80 bytes")
	}
	g.ignoresBound = true
	if g.isFull(1 << 40) {
		t.Error("what is built is written at the end")
	}
}

// newTestBacklog is a backlog of small segments in a run of its own.
func newTestBacklog(t *testing.T, bound int64) (*testRun, *Backlog) {
	t.Helper()
	r := newRun(t, must.MemoryDir(t), recording.FormatMEP)
	c := r.config(0, recording.DurabilityFile)
	c.MaxSegmentBytes = 2000
	s, err := NewSegments(c)
	must.OK(t, err)
	b, err := NewBacklog(s, bound, slog.New(slog.DiscardHandler))
	must.OK(t, err)
	t.Cleanup(func() { _ = b.Abort() })
	return r, b
}

// fill writes MEPs until one waits: its error comes when the wait ends. It gives the first MEP that waits.
func fill(t *testing.T, b *Backlog) (k uint64, waits <-chan error, leave context.CancelFunc) {
	t.Helper()
	p := testPattern(t)
	ctx, cancel := context.WithCancel(t.Context())
	for ; ; k++ {
		m, mep := buildMEP(t, p, k, testPacking, 0)
		m.Attempt = 1
		b.mu.Lock()
		full := b.gate.isFull(b.Segments.Written())
		b.mu.Unlock()
		if full {
			done := make(chan error, 1)
			go func() { done <- b.Write(ctx, m, mep) }()
			awaitWait(b)
			return k, done, cancel
		}
		must.OK(t, b.Write(ctx, m, mep))
		must.OK(t, b.Flush())
	}
}

// awaitWait returns when a Write is in its wait: it tells that the backlog is full under the lock, and gives the lock
// back in the wait.
func awaitWait(b *Backlog) {
	for until := time.Now().Add(patiently.LongTimeout); time.Now().Before(until); time.Sleep(time.Millisecond) {
		b.mu.Lock()
		waiting := b.warnedFull
		b.mu.Unlock()
		if waiting {
			return
		}
	}
}

// TestBacklogWaitsForTheSecondFilter holds that nothing is written beyond the bound until segments are gone, and what
// is seen of it meanwhile.
func TestBacklogWaitsForTheSecondFilter(t *testing.T) {
	r, b := newTestBacklog(t, 10_000)
	k, waits, leave := fill(t, b)
	defer leave()
	m, err := recording.Load(r.runDir)
	must.OK(t, err)
	l := recording.NewLedger(r.runDir, m)
	must.OK(t, l.Open())
	must.OK(t, l.SetDestinations([]recording.Destination{}))
	for m.Builder(0).Segments == nil || len(m.Builder(0).Segments) < 2 {
		m, err = recording.Load(r.runDir)
		must.OK(t, err)
	}
	b.refresh()
	if s := b.BacklogStats(); s.BacklogBytes < 8000 || s.UndrainedSegments < 3 || s.DrainedSegments > 0 {
		t.Errorf("%+v", s)
	}
	select {
	case err := <-waits:
		t.Fatalf("MEP %d did not wait: %v", k, err)
	default:
	}
	for _, s := range m.Builder(0).Segments {
		must.OK(t, l.AppendSegment(recording.DrainedSegment{
			Segment:   s.Name,
			CRC:       s.CRC,
			MEPs:      s.MEPs,
			Decisions: recording.Decisions{Accepted: 1, Rejected: 2, Failed: 3, FoundInOutput: 4},
		}, recording.NewMEPSet(testPacking)))
		must.OK(t, l.RemoveSegmentFiles(s))
	}
	must.OK(t, patiently.Receive(t, waits, "the MEP still waits, and there is room"))
	must.OK(t, l.Close())
	_, err = b.Finish()
	must.OK(t, err)
	n := uint64(len(m.Builder(0).Segments))
	if s := b.BacklogStats(); s.DrainedSegments != n || s.AcceptedEvents != n || s.RejectedEvents != 2*n ||
		s.PassedEvents != 7*n || s.WaitTime == 0 {
		t.Errorf("%+v", s)
	}
	for _, name := range []string{m.Builder(0).Segments[0].Name} {
		if _, err := os.Stat(filepath.Join(r.runDir, name)); err == nil {
			t.Errorf("%s is there", name)
		}
	}
}

// TestBacklogEndsItsWaits holds that a wait has an end without a second filter: by its context, by the run's end, when
// what is built is still written, and by giving up.
func TestBacklogEndsItsWaits(t *testing.T) {
	t.Run("context", func(t *testing.T) {
		_, b := newTestBacklog(t, 10_000)
		_, waits, leave := fill(t, b)
		leave()
		if err := patiently.Receive(t, waits, "the MEP still waits"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("end of the run", func(t *testing.T) {
		_, b := newTestBacklog(t, 10_000)
		k, waits, leave := fill(t, b)
		defer leave()
		b.LiftBound()
		must.OK(t, patiently.Receive(t, waits, "the MEP still waits"))
		got, err := b.Finish()
		must.OK(t, err)
		if got.MEPs != k+1 {
			t.Errorf("%d of %d MEPs", got.MEPs, k+1)
		}
	})
	t.Run("abort", func(t *testing.T) {
		_, b := newTestBacklog(t, 10_000)
		_, waits, leave := fill(t, b)
		defer leave()
		must.OK(t, b.Abort())
		if err := patiently.Receive(t, waits, "the MEP still waits"); err == nil {
			t.Error("it is written behind the end")
		}
	})
}
