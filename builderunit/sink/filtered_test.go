package sink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"ringlet/event/selection"
	"ringlet/filter"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// byNumberMod judges by the number of the MEP, as its rows say.
type byNumberMod struct {
	hang chan struct{} // of events that end with 3; nil: they are accepted
	slow time.Duration // of events that end with 5
}

var errOdd = errors.New("an event that cannot be judged")

func (f *byNumberMod) Judge(_ time.Time, e *selection.Event) (filter.Verdict, error) {
	v := filter.Verdict{Decision: filter.Accepted}
	switch e.MEP % 10 {
	case 1:
		v.Decision = filter.Rejected
	case 2:
		return v, errOdd
	case 3:
		if f.hang != nil {
			patiently.Hold(f.hang)
		}
	case 4:
		panic("no")
	case 5:
		time.Sleep(f.slow)
	}
	return v, nil
}

// kept remembers what it was given.
type kept struct {
	Discard
	mu      sync.Mutex
	given   map[uint64]filter.Decision
	flushed int
}

func (k *kept) Write(ctx context.Context, m Meta, mep []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.given == nil {
		k.given = map[uint64]filter.Decision{}
	}
	if _, twice := k.given[m.MEP]; twice {
		return errors.New("a MEP came twice")
	}
	k.given[m.MEP] = m.Decision
	return k.Discard.Write(ctx, m, mep)
}

func (k *kept) Flush() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.flushed = len(k.given)
	return nil
}

func filtered(to Sink, deadline time.Duration, filters ...filter.Filter) *FilterSink {
	return NewFilterSink(to, FilterConfig{Filters: filters, EventDeadline: deadline, Log: slog.New(slog.DiscardHandler)})
}

func TestFilteredDecides(t *testing.T) {
	const n = 500
	p := testPattern(t)
	to := &kept{}
	f := filtered(to, time.Minute, &byNumberMod{}, &byNumberMod{}, &byNumberMod{})
	for k := range uint64(n) {
		m, mep := buildMEP(t, p, k, 1, 0)
		must.OK(t, f.Write(t.Context(), m, mep))
		clear(mep) // it is the writer's again
		if k%100 == 99 {
			must.OK(t, f.Flush())
			if to.flushed != int(k)+1 {
				t.Fatalf("of %d MEPs %d were there when the output was flushed", k+1, to.flushed)
			}
		}
	}
	r, err := f.Finish()
	must.OK(t, errors.Join(err, f.Abort()))
	s := f.Stats()
	if r.MEPs != n || s.AcceptedEvents != n*7/10 || s.RejectedEvents != n/10 || s.FailedEvents != n/5 ||
		s.TimedOutEvents != 0 || s.JudgeTime == 0 {
		t.Errorf("%+v, %+v", r, s)
	}
	want := []filter.Decision{filter.Accepted, filter.Rejected, filter.Failed, filter.Accepted, filter.Failed}
	for k := range uint64(n) {
		if d := k % 10; d < 5 && to.given[k] != want[d] {
			t.Fatalf("event %d was %v", k, to.given[k])
		}
	}
	if m, mep := buildMEP(t, p, n, 1, 0); f.Write(t.Context(), m, mep) == nil {
		t.Error("a MEP was taken after the end")
	}
	if f.Written() != n {
		t.Errorf("%d of %d", f.Written(), n)
	}
}

// TestAFilterThatHangs holds that events pass by time-out when one worker hangs, and when all do, and that what a late
// filter says does not count.
func TestAFilterThatHangs(t *testing.T) {
	p := testPattern(t)
	to := &kept{}
	hang := make(chan struct{})
	f := filtered(to, 20*time.Millisecond, &byNumberMod{hang: hang}, &byNumberMod{hang: hang})
	for k := range uint64(200) {
		m, mep := buildMEP(t, p, k, 1, 0)
		must.OK(t, f.Write(t.Context(), m, mep))
	}
	must.OK(t, f.Flush())
	if s := f.Stats(); len(to.given) != 200 || s.TimedOutEvents < 2 || s.AcceptedEvents == 0 {
		t.Errorf("%d given, %+v", len(to.given), s)
	}
	if to.given[3] != filter.TimedOut || to.given[13] != filter.TimedOut {
		t.Errorf("what hangs was %v and %v", to.given[3], to.given[13])
	}
	close(hang)
	_, err := f.Finish()
	must.OK(t, err)
	if s := f.Stats(); s.AcceptedEvents+s.RejectedEvents+s.TimedOutEvents+s.FailedEvents != 200 {
		t.Errorf("%+v", s)
	}
}

func TestALateFilterDoesNotCount(t *testing.T) {
	to := &kept{}
	f := filtered(to, 10*time.Millisecond, &byNumberMod{slow: 50 * time.Millisecond})
	m, mep := buildMEP(t, testPattern(t), 5, 1, 0)
	must.OK(t, f.Write(t.Context(), m, mep))
	_, err := f.Finish()
	must.OK(t, err)
	if to.given[5] != filter.TimedOut {
		t.Errorf("it was %v", to.given[5])
	}
}

// TestASlowFilterHoldsTheWriter holds that a bounded number of MEPs wait, and that the writer can be called off.
func TestASlowFilterHoldsTheWriter(t *testing.T) {
	to, hang := &kept{}, make(chan struct{})
	f := filtered(to, time.Minute, &byNumberMod{hang: hang})
	p, n := testPattern(t), uint64(0)
	for ; n < queuedPerWorker+1; n++ {
		m, mep := buildMEP(t, p, 10*n+3, 1, 0)
		must.OK(t, f.Write(t.Context(), m, mep))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	m, mep := buildMEP(t, p, 10*n+3, 1, 0)
	if err := f.Write(ctx, m, mep); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("MEP %d was taken, and room is for %d: %v", n, queuedPerWorker+1, err)
	}
	close(hang)
	r, err := f.Finish()
	must.OK(t, err)
	if r.MEPs != n {
		t.Errorf("%d of %d", r.MEPs, n)
	}
}

func TestFilteredReportsTheOutput(t *testing.T) {
	f := filtered(NewStreams(routeOf(t, "all"), []Sink{&failing{}, &Discard{}}), time.Second, &byNumberMod{})
	m, mep := buildMEP(t, testPattern(t), 0, 1, 0)
	must.OK(t, f.Write(t.Context(), m, mep))
	if err := f.Flush(); !errors.Is(err, errTest) {
		t.Error(err)
	}
	if err := f.Write(t.Context(), m, mep); !errors.Is(err, errTest) {
		t.Error(err)
	}
	if _, err := f.Finish(); !errors.Is(err, errTest) {
		t.Error(err)
	}
}

func TestDecisionsChooseStreams(t *testing.T) {
	route := routeOf(t, "decision")
	var got []int
	for turn, d := range []filter.Decision{filter.Accepted, filter.TimedOut, filter.Rejected, filter.Failed, 0} {
		got = append(got, route.pickStream(3, uint64(turn), Meta{Decision: d}, nil))
	}
	if !slices.Equal(got, []int{0, 1, 2, 1, 0}) {
		t.Error(got)
	}
}

// byPlace judges by the number of the event.
type byPlace struct{ hang chan struct{} }

func (f *byPlace) Judge(_ time.Time, e *selection.Event) (filter.Verdict, error) {
	switch v := (filter.Verdict{Decision: filter.Rejected, Score: 3}); e.Number % 4 {
	case 1:
		v.Decision = filter.Accepted
		return v, nil
	case 2:
		return v, errOdd
	case 3:
		if f.hang != nil {
			patiently.Hold(f.hang)
		}
		return v, nil
	default:
		return v, nil
	}
}

// TestManyEventsInAMEP holds that each event has its verdict, that these are reported in order, and that a MEP is
// rejected only if all its events are.
func TestManyEventsInAMEP(t *testing.T) {
	hang := make(chan struct{})
	for _, tt := range []struct {
		hang            chan struct{}
		first, n        int
		reported        string
		decision        filter.Decision
		carried, passed uint64
	}{
		{nil, 0, 4, "0+1 rejected 1+1 accepted 2+1 failed 3+1 rejected ", filter.Accepted, 2, 0},
		{nil, 3, 2, "0+2 rejected ", filter.Rejected, 0, 0},
		{nil, 2, 3, "0+1 failed 1+2 rejected ", filter.Failed, 2, 0},
		{hang, 2, 4, "0+1 failed 1+3 timed out ", filter.TimedOut, 0, 3},
	} {
		to, reported := &kept{}, ""
		f := NewFilterSink(to, FilterConfig{
			Filters:       []filter.Filter{&byPlace{tt.hang}},
			EventDeadline: 30 * time.Millisecond,
			OnDecision: func(_ Meta, i, n int, v filter.Verdict, _ time.Duration) {
				reported += fmt.Sprintf("%d+%d %v ", i, n, v.Decision)
			},
			Log: slog.New(slog.DiscardHandler),
		})
		p := testPattern(t)
		m, mep := manyEvents(t, p, 0, uint64(tt.first), tt.n, 0)
		must.OK(t, f.Write(t.Context(), m, mep))
		must.OK(t, f.Flush())
		if tt.hang != nil {
			close(tt.hang)
		}
		_, err := f.Finish()
		must.OK(t, err)
		s := f.Stats()
		if reported != tt.reported || to.given[0] != tt.decision || s.RejectedKept != tt.carried ||
			s.TimedOutEvents != tt.passed {
			t.Errorf("from %d: %q, %v, %+v", tt.first, reported, to.given[0], s)
		}
	}
}
