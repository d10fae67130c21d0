package node

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/recording"
	"ringlet/source"
	"ringlet/tagnet"
	"ringlet/tagnet/core"
	"ringlet/testkit/livetest"
)

// played has the feeds of all tests, by name: tests run side by side, and the table of sources is one.
var played sync.Map

func init() {
	source.AddKindForTest(livetest.NewRow(func(name string) *livetest.Feed {
		f, _ := played.Load(name)
		feed, _ := f.(*livetest.Feed)
		return feed
	}))
}

// liveRun is a run of two folded nodes with a live source each, or more.
type liveRun struct {
	*pair
	feeds []*livetest.Feed
	sched *tagnet.Server
	cfg   config.Config
}

func newLiveRun(t *testing.T, feeds int, change func(*config.Config)) *liveRun {
	t.Helper()
	r := &liveRun{pair: newPair(t)}
	c := config.Default()
	for i := range feeds {
		f, name := livetest.New(), fmt.Sprintf("%s/%d", t.Name(), i)
		f.FrontendName = fmt.Sprintf("board %d", i)
		r.feeds = append(r.feeds, f)
		played.Store(name, f)
		t.Cleanup(func() { played.Delete(name) })
		if i > 0 {
			c.Input += ","
		}
		c.Input += livetest.Name + ":" + name
	}
	c.Nodes, c.FlushAfter = 2, 100*time.Millisecond
	if change != nil {
		change(&c)
	}
	if err := c.Complete(); err != nil {
		t.Fatal(err)
	}
	settings, err := c.SourceSettings(0)
	if err != nil {
		t.Fatal(err)
	}
	kind, _ := c.Source()
	needs, err := kind.Measure(t.Context(), nil, settings)
	if err != nil {
		t.Fatal(err)
	}
	c.SlotSize = config.Bytes(needs.MaxMEPBytes + 1<<10)
	r.cfg = c
	sched, address := r.scheduler(c)
	r.sched = sched
	r.bringUp(&nodev1.CommandRequest{Configuration: c.Effective(), View: r.view, TagnetAddress: address})
	return r
}

// over waits for the end of the run and stops the nodes.
func (r *liveRun) over() *core.Counters {
	r.t.Helper()
	select {
	case <-r.sched.Drained():
	case <-r.ctx.Done():
		r.t.Fatalf("the run does not end: %+v", r.sched.Registers())
	}
	r.must(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_STOP, View: r.view})
	r.balances(r.sched.Registers().Counters)
	return r.sched.Registers().Counters
}

// awaitFragments waits until so many fragments of a source are.
func (r *liveRun) awaitFragments(source int, n uint64) {
	r.t.Helper()
	for f := r.feeds[source]; f.Consumed() < n; {
		select {
		case <-r.ctx.Done():
			r.t.Fatalf("source %d: %d fragments are taken", source, f.Consumed())
		case <-time.After(time.Millisecond):
		}
	}
}

// built waits until so many events are built.
func (r *liveRun) built(n uint64) {
	r.t.Helper()
	for r.sched.Registers().Counters.EventsBuilt < n {
		select {
		case <-r.ctx.Done():
			r.t.Fatalf("%d events are not built: %+v", n, r.sched.Registers())
		case <-time.After(time.Millisecond):
		}
	}
}

func TestLiveRun(t *testing.T) {
	t.Parallel()
	const events = 10_000
	r := newLiveRun(t, 4, func(c *config.Config) { c.Packing = 300 })
	for e := range uint64(events) {
		for i, f := range r.feeds {
			f.Send(uint16(i), 50+i, e)
		}
	}
	for _, f := range r.feeds {
		f.End()
	}
	c := r.over()
	if c.EventsBuilt != events || c.EventsIssued != events {
		t.Fatalf("%d events built of %d", c.EventsBuilt, c.EventsIssued)
	}
	for i, f := range r.feeds {
		if f.Acknowledged() != events || !f.Closed() || f.Settings.SourceID != uint16(i) || f.Settings.Run != uint64(r.run) {
			t.Errorf("source %d: safe up to %d, closed %v, opened with %+v", i, f.Acknowledged(), f.Closed(), f.Settings)
		}
	}
}

// TestLiveRunRecords cuts MEPs of all sizes, and reads them from the files.
func TestLiveRunRecords(t *testing.T) {
	t.Parallel()
	const events = 500
	out := t.TempDir() + "/"
	r := newLiveRun(t, 2, func(c *config.Config) { c.Packing, c.Output = 100, out })
	for e := range uint64(events) {
		if e%50 == 7 || e%97 == 3 {
			r.built(e)
		}
		r.feeds[0].Send(0, 50, e+1000)
		r.feeds[1].Send(1, 50, e+1000)
	}
	r.feeds[0].End()
	r.feeds[1].End()
	r.over()
	got, err := recording.Read(t.Context(), recording.RunDir(out, r.run))
	if err != nil || got.ProblemCount() > 0 || got.MEPSet.Events() != events || !got.Manifest.Live {
		t.Fatalf("%+v, %v", got, err)
	}
	if gaps := got.MEPSet.Missing(events, 10); gaps.EventCount > 0 || got.MEPSet.MEPs() <= events/100 {
		t.Errorf("%d MEPs, missing %+v", got.MEPSet.MEPs(), gaps)
	}
	v, err := recording.Verify(t.Context(), recording.RunDir(out, r.run), recording.VerifyOptions{})
	if err != nil || len(v.Runs) != 1 || v.Runs[0].ProblemCount() > 0 || v.Runs[0].EventsFound != events {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestLiveRunSlowly sends one event and then another: each is built soon, whatever the packing.
func TestLiveRunSlowly(t *testing.T) {
	t.Parallel()
	r := newLiveRun(t, 2, nil)
	for e := range uint64(3) {
		began := time.Now()
		r.feeds[0].Send(0, 50, e)
		r.feeds[1].Send(1, 50, e)
		r.built(e + 1)
		t.Logf("event %d was built after %v", e, time.Since(began))
	}
	r.feeds[0].End()
	r.feeds[1].End()
	r.over()
}

// TestLiveRunWithASilentSource has a source on one readout unit that gives nothing, and one that begins late.
func TestLiveRunWithASilentSource(t *testing.T) {
	t.Parallel()
	r := newLiveRun(t, 2, func(c *config.Config) { c.FragmentTimeout = 200 * time.Millisecond })
	r.feeds[0].Send(0, 50, 0, 1, 2)
	r.built(3)
	r.feeds[1].Send(1, 50, 1, 3) // 1 is too late
	r.feeds[0].Send(0, 50, 3, 4)
	r.built(4)
	r.feeds[0].End()
	r.feeds[1].End()
	r.over()
	for i := range 2 {
		if st := r.report(i).GetStatus(); st.GetState() != "Ready" {
			t.Errorf("n%d: %v", i, st)
		}
	}
}

// TestLiveRunStops: the events before the one that lacks a fragment are built, and nothing behind it is safe.
func TestLiveRunStops(t *testing.T) {
	t.Parallel()
	r := newLiveRun(t, 4, func(c *config.Config) {
		c.FragmentTimeout, c.OnMissing = 100*time.Millisecond, "stop"
	})
	for i, f := range r.feeds {
		f.Send(uint16(i), 50, 0, 1, 2, 3)
		if i != 2 {
			f.Send(uint16(i), 50, 4)
		}
		f.Send(uint16(i), 50, 5, 6)
	}
	if c := r.over(); c.EventsBuilt != 4 || c.EventsIssued != 4 {
		t.Errorf("%d events built of %d", c.EventsBuilt, c.EventsIssued)
	}
	for i, f := range r.feeds {
		if f.Acknowledged() != 4 {
			t.Errorf("source %d: safe up to %d", i, f.Acknowledged())
		}
	}
	rep := r.report(1)
	want := "event 4 has no fragment of source fake:TestLiveRunStops/2"
	if why := rep.GetStatus().GetCause().GetWhat(); !strings.Contains(why, want) ||
		rep.GetCounters()[CounterInputFailed] != 1 {
		t.Errorf("the run stopped since %q, not since %q", why, want)
	}
	if d := cmp.Diff(map[uint32]string{2: "board 2", 3: "board 3"}, rep.GetFrontends()); d != "" {
		t.Errorf("the front-ends of n1: -want +got:\n%s", d)
	}
}

// TestLiveRunThatMayNotLackIsStopped: whole events are built when somebody stops the run, and no others.
func TestLiveRunThatMayNotLackIsStopped(t *testing.T) {
	t.Parallel()
	r := newLiveRun(t, 4, func(c *config.Config) {
		c.FlushAfter, c.FragmentTimeout, c.OnMissing = time.Hour, time.Hour, "stop"
	})
	for i, n := range []uint64{50, 30, 40, 70} {
		for e := range n {
			r.feeds[i].Send(uint16(i), 50, e)
		}
		r.awaitFragments(i, n)
	}
	r.sched.Drain(0)
	if c := r.over(); c.EventsBuilt != 30 || c.EventsIssued != 30 {
		t.Errorf("%d events built of %d", c.EventsBuilt, c.EventsIssued)
	}
	for i, f := range r.feeds {
		if f.Acknowledged() != 30 || r.report(i/2).GetStatus().GetDegraded() {
			t.Errorf("source %d: safe up to %d; %v", i, f.Acknowledged(), r.report(i/2).GetStatus())
		}
	}
}

// TestLiveRunIsStopped: what was taken is built when somebody stops the run, and each front-end hears what is safe of
// it.
func TestLiveRunIsStopped(t *testing.T) {
	t.Parallel()
	r := newLiveRun(t, 4, func(c *config.Config) { c.FlushAfter, c.FragmentTimeout = time.Hour, time.Hour })
	had := []uint64{700, 650, 700, 0}
	for i, f := range r.feeds {
		for e := range had[i] {
			f.Send(uint16(i), 50, e)
		}
	}
	for i := range r.feeds {
		r.awaitFragments(i, had[i])
	}
	r.sched.Drain(0)
	if c := r.over(); c.EventsBuilt != 700 || c.EventsIssued != 700 {
		t.Fatalf("%d events built of %d", c.EventsBuilt, c.EventsIssued)
	}
	for i, f := range r.feeds {
		if f.Acknowledged() != had[i] || !f.Closed() {
			t.Errorf("source %d: safe up to %d of %d, closed %v", i, f.Acknowledged(), had[i], f.Closed())
		}
	}
}
