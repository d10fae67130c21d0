package backlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ringlet/builderunit/sink"
	"ringlet/event"
	"ringlet/event/selection"
	"ringlet/filter"
	"ringlet/recording"
	"ringlet/testkit/mfp"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

const (
	testRun     = 9
	testPacking = 2
)

// thirds accepts each third MEP.
type thirds struct{ judged func() }

func (f thirds) Judge(_ time.Time, e *selection.Event) (filter.Verdict, error) {
	if f.judged != nil {
		f.judged()
	}
	if e.Number/testPacking%3 == 0 {
		return filter.Verdict{Decision: filter.Accepted}, nil
	}
	return filter.Verdict{Decision: filter.Rejected}, nil
}

// mepOf is MEP k, of one source.
func mepOf(t must.TB, k uint64) []byte {
	t.Helper()
	first := k * testPacking
	var fragments []mfp.Fragment
	for i := range uint64(testPacking) {
		fragments = append(fragments, mfp.Fragment{Type: 63, Data: fmt.Appendf(nil, "event %d%200s", first+i, "")})
	}
	b := append(make([]byte, event.MEPHeaderSize(1)),
		mfp.Build(event.MFPHeader{FirstEvent: first, Align: 2}, fragments...)...)
	_, err := event.PutMEPHeader(b, []uint16{0}, []uint32{4}, uint32(len(b)/4))
	must.OK(t, err)
	return b
}

// rig is a backlog with two outputs.
type rig struct {
	t      *testing.T
	dir    string // of all
	runDir string
	about  recording.Manifest
}

func newRig(t *testing.T, backlog int64) *rig {
	t.Helper()
	r := &rig{t: t, dir: must.MemoryDir(t)}
	r.about = recording.Manifest{
		Run:          testRun,
		Key:          recording.NewKey(),
		Format:       recording.FormatMEP,
		Packing:      testPacking,
		BacklogBytes: backlog,
	}
	var err error
	r.runDir, err = recording.OpenRun(r.path("buffer"), r.about, false)
	must.OK(t, err)
	return r
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

// writer is a builder unit's output to the backlog, of small segments.
func (r *rig) writer(builder int) *sink.Segments {
	r.t.Helper()
	s, err := sink.NewSegments(sink.SegmentsConfig{
		Dir:             r.runDir,
		Run:             testRun,
		Key:             r.about.Key,
		Builder:         builder,
		Format:          recording.FormatMEP,
		MaxSegmentBytes: 20_000,
		Durability:      recording.DurabilityFile,
	})
	must.OK(r.t, err)
	return s
}

// write writes MEPs from one to before the other.
func (r *rig) write(s sink.Sink, from, to uint64, attempt uint32) {
	r.t.Helper()
	for k := from; k < to; k++ {
		must.OK(r.t, s.Write(r.t.Context(), metaOf(k, attempt), mepOf(r.t, k)))
	}
}

func metaOf(k uint64, attempt uint32) sink.Meta {
	return sink.Meta{Run: testRun, MEP: k, FirstEvent: k * testPacking, Events: testPacking, Attempt: attempt}
}

// recorded makes a whole run of so many MEPs, of one builder unit.
func (r *rig) recorded(meps uint64) {
	w := r.writer(0)
	r.write(w, 0, meps, 1)
	_, err := w.Finish()
	must.OK(r.t, err)
	r.concluded(meps)
}

// concluded writes the verdict: all of so many MEPs are in the backlog.
func (r *rig) concluded(meps uint64) {
	r.t.Helper()
	must.OK(r.t, recording.UpdateManifest(r.runDir, func(m *recording.Manifest) error {
		n := meps * testPacking
		m.Verdict = &recording.Verdict{
			Verdict: "GOOD", EventsTriggered: n, EventsBuilt: n, EventsInDirectory: n, EventsOutput: n,
		}
		return nil
	}))
}

// config is that of a drain to two outputs.
func (r *rig) config(judged func()) Config {
	return Config{
		Dir:             r.path("buffer"),
		AcceptedOutputs: []Output{{r.path("accepted"), recording.FormatMDF}},
		RejectedOutput:  &Output{r.path("rejected"), recording.FormatMEP},
		NewFilter: func(*recording.Manifest, int) (Filter, error) {
			return Filter{Filters: []filter.Filter{thirds{judged}, thirds{judged}}}, nil
		},
		EventDeadline: time.Minute,
		WriterTimeout: 50 * time.Millisecond,
		Log:           slog.New(slog.DiscardHandler),
	}
}

// drained holds that each of so many MEPs is in one output, the right one, and once.
func (r *rig) drained(meps uint64) {
	r.t.Helper()
	got := map[uint64]string{}
	for _, name := range []string{"accepted", "rejected"} {
		v, err := recording.Verify(r.t.Context(), r.path(name), recording.VerifyOptions{})
		must.OK(r.t, err)
		if !v.IsGood() || v.Runs[0].Superseded > 0 {
			var text strings.Builder
			_, _ = v.WriteTo(&text)
			r.t.Error(text.String())
		}
		for k := range meps {
			if v.Runs[0].MEPSet.Contains(k) {
				if got[k] != "" {
					r.t.Fatalf("MEP %d is in both outputs", k)
				}
				got[k] = name
			}
		}
	}
	for k := range meps {
		want := "rejected"
		if k%3 == 0 {
			want = "accepted"
		}
		if got[k] != want {
			r.t.Fatalf("MEP %d is in %q, not in %s", k, got[k], want)
		}
	}
}

// TestDrains holds that a second filter takes all of a run, once, and that the files stay unless the run is a backlog.
func TestDrains(t *testing.T) {
	for name, bound := range map[string]int64{"kept": 0, "removed": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, bound)
			a, b := r.writer(0), r.writer(1)
			r.write(a, 0, 300, 1)
			r.write(b, 300, 500, 1)
			r.write(b, 200, 210, 2) // as after the loss of the other one
			for _, s := range []sink.Sink{a, b} {
				_, err := s.Finish()
				must.OK(t, err)
			}
			r.concluded(500)
			got, err := New(r.config(nil)).Run(t.Context())
			must.OK(t, err)
			d := got.Decisions
			if d.Accepted != 167*testPacking || d.Rejected != 333*testPacking || d.Copies != 10*testPacking ||
				got.UndrainedSegments > 0 || got.Segments < 10 || (got.RemovedSegments == got.Segments) != (bound > 0) {
				t.Errorf("%+v", got)
			}
			r.drained(500)
			v, err := recording.Verify(t.Context(), r.path("buffer"), recording.VerifyOptions{})
			must.OK(t, err)
			if !v.IsGood() || v.Runs[0].EventsFound != 1000 || (v.Runs[0].DrainedDecisions != nil) != (bound > 0) {
				t.Errorf("%+v", v.Runs[0])
			}
			again, err := New(r.config(func() { t.Error("an event is judged again") })).Run(t.Context())
			must.OK(t, err)
			if again.Decisions != d {
				t.Errorf("%+v", again)
			}
		})
	}
}

// TestDrainsBesideARun holds that segments are drained while others are written, and that nothing is left of the last.
func TestDrainsBesideARun(t *testing.T) {
	r := newRig(t, 1<<20)
	w := r.writer(0)
	done := make(chan error, 1)
	go func() {
		c := r.config(nil)
		c.WriterTimeout = patiently.LongTimeout
		_, err := New(c).Run(context.Background())
		done <- err
	}()
	r.write(w, 0, 400, 1)
	_, err := w.Finish()
	must.OK(t, err)
	r.concluded(400)
	must.OK(t, patiently.Receive(t, done, "the drain did not end with the run"))
	r.drained(400)
}

// TestRefusals holds that nothing is drained twice, or to where it does not belong.
func TestRefusals(t *testing.T) {
	r := newRig(t, 1<<20)
	r.recorded(100)

	refused := func(what string, change func(*Config)) {
		t.Helper()
		c := r.config(func() { t.Error("an event is judged") })
		change(&c)
		_, err := New(c).Run(t.Context())
		var wrong *Error
		var busy *recording.DrainingError
		if !errors.As(err, &wrong) && !errors.As(err, &busy) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("what is rejected would be gone", func(c *Config) { c.RejectedOutput = nil })
	refused("the output is the backlog", func(c *Config) {
		c.AcceptedOutputs[0] = Output{r.path("buffer"), recording.FormatMEP}
	})
	m, err := recording.Load(r.runDir)
	must.OK(t, err)
	l := recording.NewLedger(r.runDir, m)
	must.OK(t, l.Open())
	refused("another process is at it", func(*Config) {})
	must.OK(t, l.Close())

	_, err = New(r.config(nil)).Run(t.Context())
	must.OK(t, err)
	w := r.writer(0)
	r.write(w, 100, 200, 1)
	_, err = w.Finish()
	must.OK(t, err)
	refused("elsewhere", func(c *Config) { c.AcceptedOutputs[0].Dir = r.path("elsewhere") })
	if _, err := os.Stat(r.path("elsewhere")); err == nil {
		t.Error("an output is left where nothing was wanted")
	}
	refused("what the second filter wrote", func(c *Config) { c.Dir = r.path("rejected") })
	r.concluded(200)
	_, err = New(r.config(nil)).Run(t.Context())
	must.OK(t, err)
	r.drained(200)
}

// TestDamage holds that a MEP whose bytes were changed is said, and keeps its segment; the others are drained.
func TestDamage(t *testing.T) {
	r := newRig(t, 1<<20)
	w := r.writer(0)
	r.write(w, 0, 200, 1)
	_, err := w.Finish()
	must.OK(t, err)
	path := filepath.Join(r.runDir, "bu0-00002.mep")
	b, err := os.ReadFile(path)
	must.OK(t, err)
	b[len(b)/2] ^= 1
	must.OK(t, os.WriteFile(path, b, 0o600))
	index := filepath.Join(r.runDir, "bu0-00003.idx")
	b, err = os.ReadFile(index)
	must.OK(t, err)
	b[recording.HeaderBytes+recording.EntryBytes] ^= 1
	must.OK(t, os.WriteFile(index, b, 0o600))
	r.concluded(200)
	for range 2 {
		got, err := New(r.config(nil)).Run(t.Context())
		must.OK(t, err)
		if got.Decisions.Damaged != testPacking || len(got.BrokenSegments) != 1 || got.UndrainedSegments != 1 ||
			got.RemovedSegments != got.Segments-1 {
			t.Errorf("%+v", got)
		}
		for _, remaining := range []string{"bu0-00002.mep", "bu0-00002.idx", "bu0-00003.mep", "bu0-00003.idx"} {
			if _, err := os.Stat(filepath.Join(r.runDir, remaining)); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestTheVerdictComesLater holds that outputs get the verdict of a run that ended after the last segment was drained.
func TestTheVerdictComesLater(t *testing.T) {
	r := newRig(t, 1<<20)
	w := r.writer(0)
	r.write(w, 0, 200, 1)
	_, err := w.Finish()
	must.OK(t, err)
	for unended := 1; unended >= 0; unended-- {
		got, err := New(r.config(nil)).Run(t.Context())
		must.OK(t, err)
		if got.UnconcludedRuns != unended {
			t.Errorf("%+v", got)
		}
		r.concluded(200)
	}
	r.drained(200)
}

// TestASegmentThatCannotBeReadHoldsUpNoOther holds that the others are drained, and that the report names it: one whose
// index is cut, and one that is not there.
func TestASegmentThatCannotBeReadHoldsUpNoOther(t *testing.T) {
	r := newRig(t, 1<<20)
	w := r.writer(0)
	r.write(w, 0, 200, 1)
	_, err := w.Finish()
	must.OK(t, err)
	must.OK(t, os.Truncate(filepath.Join(r.runDir, "bu0-00001.idx"), 10))
	must.OK(t, os.Remove(filepath.Join(r.runDir, "bu0-00002.mep")))
	r.concluded(200)
	got, err := New(r.config(nil)).Run(t.Context())
	must.OK(t, err)
	if len(got.BrokenSegments) != 2 || got.UndrainedSegments != 2 || got.RemovedSegments == 0 ||
		got.RemovedSegments != got.Segments {
		t.Errorf("%+v", got)
	}
}

// TestATruncatedSegmentHoldsUpNoOther holds that the MEPs of a segment that can be read are judged, that the segment
// stays, and that the others are drained.
func TestATruncatedSegmentHoldsUpNoOther(t *testing.T) {
	r := newRig(t, 1<<20)
	w := r.writer(0)
	r.write(w, 0, 200, 1)
	_, err := w.Finish()
	must.OK(t, err)
	must.OK(t, os.Truncate(filepath.Join(r.runDir, "bu0-00002.mep"), 10_000))
	r.concluded(200)
	for range 2 {
		got, err := New(r.config(nil)).Run(t.Context())
		must.OK(t, err)
		if len(got.BrokenSegments) != 1 || got.UndrainedSegments != 1 || got.RemovedSegments == 0 ||
			got.RemovedSegments != got.Segments {
			t.Errorf("%+v", got)
		}
	}
}

// TestWhatIsNotListedIsLeft holds that a closed segment that nothing can list is told of as left.
func TestWhatIsNotListedIsLeft(t *testing.T) {
	r := newRig(t, 1<<20)
	w := r.writer(0)
	r.write(w, 0, 100, 1)
	_, err := w.Finish()
	must.OK(t, err)
	must.OK(t, recording.UpdateManifest(r.runDir, func(m *recording.Manifest) error {
		m.Builders[0].Segments = m.Builders[0].Segments[1:]
		return nil
	}))
	must.OK(t, os.Truncate(filepath.Join(r.runDir, "bu0-00001.idx"), recording.HeaderBytes+recording.EntryBytes))
	r.concluded(100)
	got, err := New(r.config(nil)).Run(t.Context())
	must.OK(t, err)
	if got.UndrainedSegments != 1 || got.UndrainedBytes == 0 {
		t.Errorf("%+v", got)
	}
}

// TestTwoOutputsAreTwoPlaces holds that accepted and rejected events do not come into one directory, by whatever name.
func TestTwoOutputsAreTwoPlaces(t *testing.T) {
	r := newRig(t, 1<<20)
	r.recorded(100)
	must.OK(t, os.Symlink("rejected", r.path("accepted")))
	must.OK(t, os.Mkdir(r.path("rejected"), 0o700))
	c := r.config(func() { t.Error("an event is judged") })
	c.AcceptedOutputs[0].Format = recording.FormatMEP
	_, err := New(c).Run(t.Context())
	var wrong *Error
	if !errors.As(err, &wrong) {
		t.Error(err)
	}
}

// TestTheRestOfARemovalGoes holds that an index which a killed process left of a drained segment is removed.
func TestTheRestOfARemovalGoes(t *testing.T) {
	r := newRig(t, 1<<20)
	w := r.writer(0)
	r.write(w, 0, 100, 1)
	_, err := w.Finish()
	must.OK(t, err)
	index := filepath.Join(r.runDir, "bu0-00001.idx")
	before, err := os.ReadFile(index)
	must.OK(t, err)
	_, err = New(r.config(nil)).Run(t.Context())
	must.OK(t, err)
	must.OK(t, os.WriteFile(index, before, 0o600))
	got, err := New(r.config(nil)).Run(t.Context())
	must.OK(t, err)
	if _, err := os.Stat(index); err == nil || got.RemovedSegments != got.Segments {
		t.Errorf("%+v", got)
	}
}

// TestCopiesOfABacklog holds that a backlog and a copy of it are not drained to one place at a time, and that one after
// the other each MEP is there once.
func TestCopiesOfABacklog(t *testing.T) {
	r := newRig(t, 1<<20)
	r.recorded(100)
	must.OK(t, os.CopyFS(r.path("copy"), os.DirFS(r.path("buffer"))))
	other := r.config(nil)
	other.Dir = r.path("copy")
	var once sync.Once
	_, err := New(r.config(func() {
		once.Do(func() {
			_, err := New(other).Run(t.Context())
			var busy *recording.DrainingError
			if !errors.As(err, &busy) {
				t.Error(err)
			}
		})
	})).Run(t.Context())
	must.OK(t, err)
	got, err := New(other).Run(t.Context())
	must.OK(t, err)
	if got.Decisions.FoundInOutput != 100*testPacking {
		t.Errorf("%+v", got)
	}
	r.drained(100)
}

// TestEndsInOrder holds that a drain which is told to end leaves nothing undone, and that the next one goes on.
func TestEndsInOrder(t *testing.T) {
	r := newRig(t, 1<<20)
	r.recorded(300)
	for stops := 0; ; stops++ {
		ctx, cancel := context.WithCancel(t.Context())
		n := make(chan struct{}, 1<<10)
		c := r.config(func() {
			if n <- struct{}{}; len(n) == 130*testPacking {
				cancel()
			}
		})
		got, err := New(c).Run(ctx)
		cancel()
		if err == nil {
			if stops == 0 || got.Decisions.FoundInOutput == 0 {
				t.Errorf("stopped %d times; %+v", stops, got)
			}
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	r.drained(300)
}
