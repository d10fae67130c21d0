package tap_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"ringlet/builderunit/tap"
	"ringlet/event"
	"ringlet/event/selection"
	"ringlet/testkit/mfp"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// mepOf is a MEP of one source, whose fragments have a size.
func mepOf(t testing.TB, events, size int, first uint64) []byte {
	t.Helper()
	b := make([]byte, event.MEPHeaderSize(1))
	fragments := slices.Repeat([]mfp.Fragment{{Type: 63, Data: make([]byte, size)}}, events)
	b = append(b, mfp.Build(event.MFPHeader{FirstEvent: first, Align: 2}, fragments...)...)
	_, err := event.PutMEPHeader(b, []uint16{0}, []uint32{uint32(event.MEPHeaderSize(1) / 4)}, uint32(len(b)/4))
	must.OK(t, err)
	return b
}

func view(t testing.TB, tp *tap.Tap, spec selection.Spec, now time.Time) *tap.Viewer {
	t.Helper()
	sel, err := selection.Parse(spec)
	must.OK(t, err)
	v, err := tp.OpenViewer(sel, now)
	must.OK(t, err)
	t.Cleanup(v.Close)
	return v
}

func TestViewersHaveSelectionsOfTheirOwn(t *testing.T) {
	tp, now := tap.New(), time.Now()
	if tp.HasViewers() {
		t.Error("somebody looks")
	}
	all := view(t, tp, selection.Spec{Share: 1, Data: true}, now)
	some := view(t, tp, selection.Spec{Share: 4}, now)
	none := view(t, tp, selection.Spec{Sources: []string{"9"}}, now)
	mep := mepOf(t, 10, 6, 100)
	tp.Offer(now, selection.Meta{Run: 7, MEP: 3}, mep)
	clear(mep) // the builder unit has the memory again
	got := all.AppendEvents(nil, 1<<20)
	if len(got) != 10 || got[9].Number != 109 || got[9].Run != 7 || len(got[9].Fragments[0].Data) != 6 {
		t.Errorf("%d events, the last %+v", len(got), got[len(got)-1])
	}
	if got := some.AppendEvents(nil, 1<<20); len(got) != 3 || got[1].Number != 104 || got[1].Fragments[0].Data != nil {
		t.Errorf("%+v", got)
	}
	if got, c := none.AppendEvents(nil, 1<<20), none.Counts(); len(got) != 0 || c.Events != 10 {
		t.Errorf("%+v, %+v", got, c)
	}
	if s := tp.Stats(); s != (tap.Stats{Viewers: 3, ShownEvents: 13}) {
		t.Errorf("%+v", s)
	}
	for _, v := range []*tap.Viewer{all, some, none, all} {
		v.Close()
	}
	if tp.HasViewers() {
		t.Error("nobody looks any more")
	}
}

// TestAFullQueueDrops offers far more than a queue holds to a viewer that takes nothing. That the test ends is that
// nobody waits.
func TestAFullQueueDrops(t *testing.T) {
	for name, size := range map[string]int{"many": 1, "large": 60_000} {
		t.Run(name, func(t *testing.T) {
			tp, now := tap.New(), time.Now()
			v := view(t, tp, selection.Spec{Share: 1, Data: true}, now)
			mep, events := mepOf(t, 1000, size, 0), uint64(0)
			for i := range 12 {
				now = now.Add(time.Second)
				tp.Offer(now, selection.Meta{MEP: uint64(i)}, mep)
				events += 1000
			}
			queued, held := uint64(0), 0
			for got := v.AppendEvents(nil, 1<<20); len(got) > 0; got = v.AppendEvents(got[:0], 1<<20) {
				queued += uint64(len(got))
				for i := range got {
					held += got[i].Size()
				}
			}
			c := v.Counts()
			if c.Picked != events || c.Dropped == 0 || queued+c.Dropped != events || held > 17<<20 {
				t.Errorf("%+v, %d in the queue with %d bytes, of %d events", c, queued, held, events)
			}
			if s := tp.Stats(); s.ShownEvents != queued || s.DroppedEvents != c.Dropped {
				t.Errorf("%+v", s)
			}
			tp.Offer(now.Add(time.Second), selection.Meta{}, mepOf(t, 1, 60_000, 0)) // there is room again
			if got := v.AppendEvents(nil, 1); len(got) != 1 {
				t.Errorf("%d events", len(got))
			}
		})
	}
}

func TestWhatCannotBeReadIsCounted(t *testing.T) {
	tp, now := tap.New(), time.Now()
	v := view(t, tp, selection.Spec{}, now)
	tp.Offer(now, selection.Meta{}, []byte("no MEP"))
	if c := v.Counts(); c.Unreadable != 1 || tp.Stats().UnreadableMEPs != 1 {
		t.Errorf("%+v, %+v", c, tp.Stats())
	}
}

func TestViewersAreBounded(t *testing.T) {
	tp, now := tap.New(), time.Now()
	sel, err := selection.Parse(selection.Spec{})
	must.OK(t, err)
	for range 1000 {
		v, err := tp.OpenViewer(sel, now)
		if err == nil {
			t.Cleanup(v.Close)
			continue
		}
		if full := (*tap.FullError)(nil); !errors.As(err, &full) {
			t.Error(err)
		}
		return
	}
	t.Error("there is no bound")
}

// TestViewersComeAndGo has viewers come, take and go while MEPs are offered.
func TestViewersComeAndGo(t *testing.T) {
	tp, mep := tap.New(), mepOf(t, 50, 20, 0)
	sel, err := selection.Parse(selection.Spec{Share: 1, Data: true})
	must.OK(t, err)
	var viewers, offering sync.WaitGroup
	stop := make(chan struct{})
	offering.Go(func() {
		for i := uint64(0); ; i++ {
			select {
			case <-stop:
				return
			default:
				tp.Offer(time.Now(), selection.Meta{MEP: i}, mep)
			}
		}
	})
	for range 8 {
		viewers.Go(func() {
			for range 20 {
				v, err := tp.OpenViewer(sel, time.Now())
				if err != nil {
					t.Error(err)
					return
				}
				for n := 0; n < 10; {
					n += len(v.AppendEvents(nil, 1000))
					v.Counts()
					tp.Stats()
				}
				v.Close()
			}
		})
	}
	patiently.Wait(t, viewers.Wait)
	close(stop)
	patiently.Wait(t, offering.Wait)
	if s := tp.Stats(); s.Viewers != 0 || s.ShownEvents < 8*20*10 || tp.HasViewers() {
		t.Errorf("%+v", s)
	}
}

// TestNobodyLooks holds that it costs no allocation to ask.
func TestNobodyLooks(t *testing.T) {
	var none *tap.Tap
	tp := tap.New()
	if n := testing.AllocsPerRun(100, func() {
		if tp.HasViewers() || none.HasViewers() {
			t.Error("somebody looks")
		}
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
	if none.Stats() != (tap.Stats{}) {
		t.Error("nothing counts")
	}
}

// TestDue holds that MEPs need not be offered while no rate allows another event, and count all the same.
func TestDue(t *testing.T) {
	tp, now := tap.New(), time.Now()
	slow := view(t, tp, selection.Spec{Rate: 2}, now)
	if !tp.IsDue(now) {
		t.Error("nothing is due for a viewer who has just come")
	}
	mep := mepOf(t, 10, 6, 0)
	tp.Offer(now, selection.Meta{}, mep)
	if tp.IsDue(now.Add(499*time.Millisecond)) || !tp.IsDue(now.Add(501*time.Millisecond)) {
		t.Error("the second event of two a second is not due after half a second")
	}
	tp.Skip(10)
	if c := slow.Counts(); c.Events != 20 || c.Picked != 1 {
		t.Errorf("%+v", c)
	}
	fast := view(t, tp, selection.Spec{Share: 5}, now)
	if !tp.IsDue(now) {
		t.Error("nothing is due for another viewer")
	}
	tp.Skip(3)
	tp.Offer(now, selection.Meta{}, mep)
	if got := fast.AppendEvents(nil, 1000); len(got) != 2 || got[0].Number != 2 || got[1].Number != 7 {
		t.Errorf("one in five of 3 that were skipped and 10: %+v", got)
	}
	if c := fast.Counts(); c.Events != 13 {
		t.Errorf("%+v", c)
	}
}

func BenchmarkWanted(b *testing.B) {
	tp, n := tap.New(), 0
	for b.Loop() {
		if tp.HasViewers() {
			n++
		}
	}
	if n > 0 {
		b.Fatal(n)
	}
}
