package sink

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ringlet/filter"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// asking remembers what it is told of regions.
type asking struct {
	mu        sync.Mutex
	decisions map[uint64]filter.Decision // of the first event
	slots     map[uint64]int
	kept      chan Meta // MEPs that are kept, with their verdicts
	gone      bool      // it takes no answers
}

func newAsking(n int) *asking {
	return &asking{decisions: map[uint64]filter.Decision{}, slots: map[uint64]int{}, kept: make(chan Meta, n)}
}

func (a *asking) ApplyDecision(m Meta, slot int, keep bool, verdicts []filter.Verdict) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.decisions[m.MEP], a.slots[m.MEP] = verdicts[0].Decision, slot
	if keep {
		m.Verdicts = append(m.Verdicts, verdicts...)
		a.kept <- m
	}
	return !a.gone
}

// TestRegionsAreJudged holds that the client has the decision on each region, that what is rejected is reported and
// counted then, and that what is kept goes to the output with its decision and is not judged again.
func TestRegionsAreJudged(t *testing.T) {
	const n = 100
	p, to, by := testPattern(t), &kept{}, newAsking(n)
	var reported [filter.Decisions]atomic.Int64
	f := NewFilterSink(to, FilterConfig{
		Filters:       []filter.Filter{&byNumberMod{}, &byNumberMod{}},
		EventDeadline: time.Minute,
		MaxRegions:    n,
		OnDecision:    func(_ Meta, _, n int, v filter.Verdict, _ time.Duration) { reported[v.Decision].Add(int64(n)) },
		Log:           slog.New(slog.DiscardHandler),
	})
	meps := map[uint64][]byte{}
	for k := range uint64(n) {
		m, mep := buildMEP(t, p, k, 1, 0)
		meps[k] = mep
		must.OK(t, f.Judge(t.Context(), m, mep, int(k)+5, by))
	}
	for range n * 9 / 10 {
		m := patiently.Receive(t, by.kept, "a region was not judged")
		must.OK(t, f.Write(t.Context(), m, meps[m.MEP]))
	}
	_, err := f.Finish()
	must.OK(t, err)
	s := f.Stats()
	if s.AcceptedEvents != n*7/10 || s.RejectedEvents != n/10 || s.RegionRejected != n/10 || s.FailedEvents != n/5 ||
		s.RejectedKept != 0 {
		t.Errorf("%+v", s)
	}
	rejected, accepted := reported[filter.Rejected].Load(), reported[filter.Accepted].Load()
	if len(to.given) != n*9/10 || rejected != n/10 || accepted != n*7/10 {
		t.Errorf("%d in the output, reported %d rejected and %d accepted", len(to.given), rejected, accepted)
	}
	for k := range uint64(n) {
		if to.given[k] != by.decisions[k] && by.decisions[k] != filter.Rejected || by.slots[k] != int(k)+5 {
			t.Errorf("MEP %d: %v by its region, %v in the output, slot %d", k, by.decisions[k], to.given[k], by.slots[k])
		}
	}
	waits, _ := f.Histograms()
	if waits.TotalCount() != n {
		t.Errorf("%d events were judged %d times", n, waits.TotalCount())
	}
}

// TestRegionsOfAFilterThatHangs holds that regions pass by time-out, that flushing the output does not wait for them,
// and that answers which nobody wants are not counted.
func TestRegionsOfAFilterThatHangs(t *testing.T) {
	p, to, by, hang := testPattern(t), &kept{}, newAsking(20), make(chan struct{})
	f := NewFilterSink(to, FilterConfig{
		Filters:       []filter.Filter{&byNumberMod{hang: hang}},
		EventDeadline: 200 * time.Millisecond,
		MaxRegions:    20,
		Log:           slog.New(slog.DiscardHandler),
	})
	for k := range uint64(20) {
		m, mep := buildMEP(t, p, 10*k+3, 1, 0)
		must.OK(t, f.Judge(t.Context(), m, mep, 0, by)) // the first holds the only worker
	}
	must.OK(t, f.Flush())
	for range 20 {
		m := patiently.Receive(t, by.kept, "a region did not pass")
		if m.Decision != filter.TimedOut || m.Verdicts[0].Decision != filter.TimedOut {
			t.Errorf("MEP %d was %v", m.MEP, m.Decision)
		}
	}
	close(hang)
	by.mu.Lock()
	by.gone = true
	by.mu.Unlock()
	m, mep := buildMEP(t, p, 1, 1, 0)
	must.OK(t, f.Judge(t.Context(), m, mep, 0, by))
	_, err := f.Finish()
	must.OK(t, err)
	if s := f.Stats(); s.RejectedEvents+s.RegionRejected+s.TimedOutEvents != 0 {
		t.Errorf("what was given up is counted: %+v", s)
	}
}

// TestAnOutputThatFailsAfterARegion holds that its error ends the judging.
func TestAnOutputThatFailsAfterARegion(t *testing.T) {
	f := filtered(&failing{}, time.Second, &byNumberMod{})
	m, mep := buildMEP(t, testPattern(t), 0, 1, 0)
	m.Verdicts = []filter.Verdict{{Decision: filter.Accepted}}
	if err := f.Write(t.Context(), m, mep); !errors.Is(err, errTest) {
		t.Error(err)
	}
	if err := f.Judge(t.Context(), m, mep, 0, newAsking(1)); !errors.Is(err, errTest) {
		t.Error(err)
	}
	if _, err := f.Finish(); !errors.Is(err, errTest) {
		t.Error(err)
	}
	if s := f.Stats(); s.AcceptedEvents != 0 {
		t.Errorf("%+v", s)
	}
}

// TestJudgingRegionsDoesNotAllocate judges regions and hands on what is kept, again and again.
func TestJudgingRegionsDoesNotAllocate(t *testing.T) {
	patiently.Watch(t)
	by := &answering{done: make(chan struct{}, 1)} // it must not wait
	f := filtered(&Discard{}, time.Minute, &byNumberMod{})
	m, mep := buildMEP(t, testPattern(t), 0, 1, 0)
	m.Verdicts = []filter.Verdict{{Decision: filter.Accepted}}
	turn := func() {
		if f.Judge(t.Context(), m, mep, 0, by) != nil || f.Write(t.Context(), m, mep) != nil {
			t.Error("it was not taken")
		}
		<-by.done // bounded by Watch: a timer would be an allocation
	}
	for range 100 {
		turn()
	}
	if n := testing.AllocsPerRun(200, turn); n > 0 {
		t.Errorf("%v allocations for a region", n)
	}
	_, err := f.Finish()
	must.OK(t, err)
}

// answering says when it was told.
type answering struct{ done chan struct{} }

func (a *answering) ApplyDecision(Meta, int, bool, []filter.Verdict) bool {
	a.done <- struct{}{}
	return true
}
