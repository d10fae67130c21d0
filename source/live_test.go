package source_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"ringlet/event"
	"ringlet/source"
	"ringlet/source/live"
	"ringlet/testkit/livetest"
	"ringlet/testkit/must"
)

// openLive opens one readout unit with the feeds a, b, … and starts it. What it reaches comes from the channel.
func openLive(t *testing.T, policy live.OnMissing, feeds ...*livetest.Feed) (*source.Live, <-chan live.Reach) {
	t.Helper()
	byName, input := map[string]*livetest.Feed{}, ""
	for i, f := range feeds {
		name := string(rune('a' + i))
		byName[name], input = f, input+",fake:"+name
	}
	return openInput(t, policy, input[1:], byName)
}

// openInput does the same with the feeds that an input names.
func openInput(t *testing.T, policy live.OnMissing, input string,
	byName map[string]*livetest.Feed) (*source.Live, <-chan live.Reach) {
	t.Helper()
	defer source.AddKindForTest(livetest.NewRow(func(name string) *livetest.Feed { return byName[name] }))()
	row, text := source.KindOf(input)
	src, err := row.Open(t.Context(), source.Settings{
		GeneratorConfig: source.GeneratorConfig{
			Packing: 10,
		},
		RUs:   1,
		Input: text,
		Live: source.LiveSettings{
			FragmentTimeout: time.Second,
			FlushAfter:      500 * time.Millisecond,
			OnMissing:       policy,
		},
	})
	must.OK(t, err)
	l := src.(*source.Live)
	reached := make(chan live.Reach, 1000)
	l.BeginIntake(func(r live.Reach) { reached <- r })
	t.Cleanup(func() { must.OK(t, l.Close()) })
	return l, reached
}

// block reads the next one and checks its MFPs. It returns the events of which each source has a fragment.
func block(t *testing.T, l *source.Live, size int) (source.Block, [][]uint64) {
	t.Helper()
	var b source.Block
	dst := bytes.Repeat([]byte{0xEE}, l.MaxBlock())
	must.OK(t, l.Next(t.Context(), dst, &b))
	there := make([][]uint64, len(b.MFPs))
	for i, info := range b.MFPs {
		m, err := event.ParseMFP(dst[info.Offset : info.Offset+info.Size])
		must.OK(t, err)
		if m.FirstEvent() != b.FirstEvent || m.NumFragments() != b.Events || m.Source() != info.Source {
			t.Fatalf("MFP %d has %d events from %d", i, m.NumFragments(), m.FirstEvent())
		}
		for f := range m.NumFragments() {
			e, data := b.FirstEvent+uint64(f), m.Fragment(f)
			switch {
			case m.FragmentType(f) == event.FragmentMissing && len(data) == 0:
			case bytes.Equal(data, livetest.Data(info.Source, e, size)):
				there[i] = append(there[i], e)
			default:
				t.Fatalf("source %d, event %d: type %v and %d bytes that were not sent", i, e, m.FragmentType(f), len(data))
			}
		}
	}
	return b, there
}

func TestLiveIsFlushedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := livetest.New()
		l, reached := openLive(t, live.MarkMissing, a)
		began := time.Now()
		a.Send(0, 30, 0, 1)
		r := <-reached
		if r.CompleteBelow < 2 {
			r = <-reached
		}
		for r.FlushBelow < 2 {
			r = <-reached
		}
		if waited := time.Since(began); waited != 500*time.Millisecond {
			t.Fatalf("flushed after %v", waited)
		}
		l.AddCuts([]live.Cut{{First: 0, Events: 2}}, true)
		if b, there := block(t, l, 30); b.Events != 2 || len(there[0]) != 2 {
			t.Fatalf("%+v", b)
		}
		l.SetOutcomesBelow(1)
		time.Sleep(time.Second) // of the bubble: who waits for the front-end is woken
		if a.Acknowledged() != 2 {
			t.Fatalf("safe up to %d", a.Acknowledged())
		}
		var b source.Block
		if err := l.Next(t.Context(), make([]byte, l.MaxBlock()), &b); !errors.Is(err, io.EOF) {
			t.Fatalf("behind the last cut: %v", err)
		}
	})
}

func TestLiveTakesLargeFragments(t *testing.T) {
	a, b := livetest.New(), livetest.New()
	byName := map[string]*livetest.Feed{"a": a, "b": b}
	kind := livetest.NewRow(func(name string) *livetest.Feed { return byName[name] })
	kind.Held = func(_ string, n int) (int, error) { return 2 * n, nil }
	defer source.AddKindForTest(kind)()
	row, text := source.KindOf("fake:a?max=3MiB,fake:b")
	src, err := row.Open(t.Context(), source.Settings{
		GeneratorConfig: source.GeneratorConfig{Packing: 10},
		RUs:             1,
		Input:           text,
		Live:            source.LiveSettings{FragmentTimeout: time.Minute, FlushAfter: time.Minute},
	})
	must.OK(t, err)
	l := src.(*source.Live)
	defer l.Close()
	sizes := []int{3 << 20, 0, 70_000, 65_535, 3<<20 - 1}
	for e, size := range sizes {
		a.Send(0, size, uint64(e))
		b.Send(1, 10, uint64(e))
	}
	l.BeginIntake(func(live.Reach) {})
	l.AddCuts([]live.Cut{{First: 0, Events: 1}, {First: 1, Events: 2}, {First: 3, Events: 1}, {First: 4, Events: 1}}, true)
	dst := make([]byte, l.MaxBlock())
	for i, wide := range []bool{true, true, false, true} {
		var block source.Block
		must.OK(t, l.Next(t.Context(), dst, &block))
		for source, info := range block.MFPs {
			m, err := event.ParseMFP(dst[info.Offset : info.Offset+info.Size])
			must.OK(t, err)
			if m.IsWide() != (wide && source == 0) {
				t.Errorf("MFP %d of source %d: wide %v", i, source, m.IsWide())
			}
			for k, data := range m.Fragments() {
				e, size := m.FirstEvent()+uint64(k), 10
				if source == 0 {
					size = sizes[e]
				}
				if !bytes.Equal(data, livetest.Data(uint16(source), e, size)) {
					t.Errorf("event %d of source %d has other bytes", e, source)
				}
			}
		}
		l.SetOutcomesBelow(uint64(i) + 1)
	}
}

func TestLiveMarksWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := livetest.New(), livetest.New()
		l, reached := openLive(t, live.MarkMissing, a, b)
		a.Send(0, 30, 0, 1, 2)
		b.Send(1, 30, 0)
		for r := range reached {
			if r.OverdueBelow == 3 {
				break
			}
		}
		l.AddCuts([]live.Cut{{First: 0, Events: 3}}, false)
		if _, there := block(t, l, 30); len(there[0]) != 3 || len(there[1]) != 1 {
			t.Fatalf("%v", there)
		}
		l.SetOutcomesBelow(1)
		time.Sleep(time.Second)
		if a.Acknowledged() != 3 || b.Acknowledged() != 1 {
			t.Fatalf("%d and %d are safe", a.Acknowledged(), b.Acknowledged())
		}
		b.Send(1, 30, 1) // too late: but that is what becomes of it
		time.Sleep(time.Second)
		if b.Acknowledged() != 2 {
			t.Fatalf("%d is safe", b.Acknowledged())
		}
		if s := l.SourceStats(); s[1].Missing != 2 || s[0].Missing != 0 || s[1].Name != "fake:b" {
			t.Fatalf("%+v", s)
		}
	})
}

// TestLiveTakesACutAsAWord: another readout unit has waited long enough, and this one heard of nothing.
func TestLiveTakesACutAsAWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := openLive(t, live.MarkMissing, livetest.New())
		l.AddCuts([]live.Cut{{First: 7, Events: 3}}, true)
		if b, there := block(t, l, 30); b.FirstEvent != 7 || len(there[0]) != 0 {
			t.Fatalf("%+v, %v", b, there)
		}
	})
}

func TestLiveStopsAtAMissingFragment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := livetest.New(), livetest.New()
		l, _ := openLive(t, live.StopAtMissing, a, b)
		a.Send(0, 30, 0)
		time.Sleep(2 * time.Second)
		l.AddCuts([]live.Cut{{First: 0, Events: 1}}, false)
		var missing *live.MissingError
		var into source.Block
		err := l.Next(t.Context(), make([]byte, l.MaxBlock()), &into)
		if !errors.As(err, &missing) || missing.Source != "fake:b" || missing.Event != 0 {
			t.Fatalf("%v", err)
		}
	})
}

// TestLiveBackPressure: a feed gives more than there is room for. Nothing is lost, and no source has a fault.
func TestLiveBackPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const total, size = 400, 60_000
		a, b := livetest.New(), livetest.New()
		l, reached := openLive(t, live.MarkMissing, a, b)
		for e := range uint64(total) {
			a.Send(0, size, e)
			b.Send(1, size, e)
		}
		a.End()
		b.End()
		next, built := uint64(0), 0
		for built < total {
			for r := range reached {
				if r.CompleteBelow > next {
					n := min(r.CompleteBelow-next, 10)
					l.AddCuts([]live.Cut{{First: next, Events: uint32(n)}}, false)
					next += n
					break
				}
			}
			time.Sleep(10 * time.Second) // longer than any fragment is waited for
			blk, there := block(t, l, size)
			if len(there[0]) != blk.Events || len(there[1]) != blk.Events {
				t.Fatalf("of %d events %d and %d fragments", blk.Events, len(there[0]), len(there[1]))
			}
			built += blk.Events
		}
	})
}

func TestLiveFeedBreaks(t *testing.T) {
	for _, policy := range []live.OnMissing{live.MarkMissing, live.WaitForMissing} {
		synctest.Test(t, func(t *testing.T) {
			a, b := livetest.New(), livetest.New()
			l, reached := openLive(t, policy, a, b)
			b.Fail(errors.New("no such device"))
			a.Send(0, 30, 0)
			if policy == live.WaitForMissing {
				var into source.Block
				if err := l.Next(context.Background(), make([]byte, l.MaxBlock()), &into); err == nil {
					t.Fatal("a source that cannot go on was waited for")
				}
				return
			}
			for r := range reached {
				if r.FlushBelow == 1 {
					return
				}
			}
		})
	}
}

// TestLiveEnds: nothing more is taken, what one source lacks is missing at once, and each front-end hears what of its
// own is safe before its feed is closed.
func TestLiveEnds(t *testing.T) {
	for _, policy := range []live.OnMissing{live.MarkMissing, live.WaitForMissing} {
		synctest.Test(t, func(t *testing.T) {
			a, b, silent := livetest.New(), livetest.New(), livetest.New()
			l, reached := openLive(t, policy, a, b, silent)
			a.Send(0, 30, 0, 1, 2)
			b.Send(1, 30, 0)
			synctest.Wait()
			began := time.Now()
			l.EndIntake()
			for r := range reached {
				if r.InputOver {
					break
				}
			}
			if waited := time.Since(began); waited > 0 {
				t.Errorf("%v: what is missing was given up after %v", policy, waited)
			}
			a.Send(0, 30, 3) // the next run's
			time.Sleep(time.Second)
			l.AddCuts([]live.Cut{{First: 0, Events: 3}}, true)
			if _, there := block(t, l, 30); len(there[0]) != 3 || len(there[1]) != 1 || len(there[2]) != 0 {
				t.Errorf("%v: %v", policy, there)
			}
			l.SetOutcomesBelow(1)
			synctest.Wait()
			if a.Acknowledged() != 3 || b.Acknowledged() != 1 || silent.Acknowledged() != 0 || a.Closed() {
				t.Errorf("%v: %d, %d and %d are safe", policy, a.Acknowledged(), b.Acknowledged(), silent.Acknowledged())
			}
		})
	}
}

// TestLiveEndsWhileItIsFull: what finds no room when the run ends stays with the front-end, is not safe, and is
// counted.
func TestLiveEndsWhileItIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const total, size = 400, 60_000
		a := livetest.New()
		l, reached := openLive(t, live.MarkMissing, a)
		for e := range uint64(total) {
			a.Send(0, size, e)
		}
		synctest.Wait()
		l.EndIntake()
		synctest.Wait() // who waits for room has heard of the end before there is some
		next := uint64(0)
		for r := range reached {
			for n := min(r.CompleteBelow-next, 10); n > 0; n = min(r.CompleteBelow-next, 10) {
				l.AddCuts([]live.Cut{{First: next, Events: uint32(n)}}, false)
				block(t, l, size)
				next += n
			}
			if r.InputOver {
				break
			}
		}
		l.SetOutcomesBelow(total)
		synctest.Wait()
		s := l.SourceStats()[0]
		if a.Acknowledged() != next || next == 0 || next == total || s.Used != next || s.WaitingFragments == 0 ||
			s.WaitingFragments > 256 {
			t.Errorf("%d events were built and %d are safe: %+v", next, a.Acknowledged(), s.Counts)
		}
	})
}
