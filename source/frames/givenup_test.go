package frames

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ringlet/source/live"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// TestGivens: whatever is given up, the sum of the fragments is exact, every event of them is in a range, ranges are
// bounded and in order.
func TestGivens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g givenUpRanges
		var all []givenUpRange
		want := uint64(0)
		for range rapid.IntRange(0, 2*maxGivenUpRanges).Draw(t, "ranges") {
			from := rapid.Uint64Range(0, 3000).Draw(t, "from")
			x := givenUpRange{
				from:   from,
				to:     from + rapid.Uint64Range(0, 3).Draw(t, "events"),
				reason: rapid.Uint32Range(reasonLate, reasonLeftOver).Draw(t, "why"),
			}
			x.count = x.to - x.from
			g.add(x)
			if x.count > 0 {
				all = append(all, x)
			}
			want += x.count
		}
		sum := uint64(0)
		for i, x := range g {
			sum += x.count
			if x.from >= x.to || i > 0 && g[i-1].from > x.from {
				t.Fatalf("%v", g)
			}
		}
		if sum != want || len(g) > maxGivenUpRanges {
			t.Fatalf("%d fragments in %d ranges, want %d", sum, len(g), want)
		}
		for _, x := range all {
			if !slices.ContainsFunc(g, func(y givenUpRange) bool {
				return y.from <= x.from && x.to <= y.to && (y.reason == x.reason || y.reason == reasonSeveral)
			}) {
				t.Fatalf("%+v is in none of %+v", x, g)
			}
		}
	})
}

// TestResumeIsWhatIsAccepted: a number that nobody has judged counts where another one proves it.
func TestResumeIsWhatIsAccepted(t *testing.T) {
	for _, c := range []struct {
		acceptedBelow, safe uint64
		waiting             []uint64
		want                uint64
	}{
		{100, 50, nil, 100},
		{50, 100, nil, 100}, // a readout unit that knows what is safe alone
		{100, 50, []uint64{98, 99, 100, 101}, 102},
		{100, 0, []uint64{100, 1 << 50, 101, 102}, 103}, // wild
		{100, 0, []uint64{100, 101, 1 << 50}, 102},
		{100, 0, []uint64{100, 105, 110, 115}, 111}, // numbers are left out: the last one is asked for again
		{0, 0, []uint64{1 << 40, 1<<40 + 1}, 1<<40 + 2},
	} {
		s := runState{acceptedBelow: c.acceptedBelow, safeBelow: c.safe}
		if got := s.resumeFrom(c.waiting); got != c.want {
			t.Errorf("%+v: resumes at %d", c, got)
		}
	}
}

// readUntilAck reads answers until one of outcome a, and returns those of what was given up.
func (p *peer) readUntilAck(a uint64) (out []answer) {
	p.t.Helper()
	for {
		switch x := p.answer(); {
		case x.Code == codeGivenUp:
			out = append(out, x)
		case x.Code == codeAcknowledged && x.A == a:
			return out
		case x.Code != codeAcknowledged && x.Code != codeEndReceived:
			p.t.Fatalf("%+v", x)
		}
	}
}

// TestGivenUpIsReported: a front-end hears what was given up before it hears that it has its outcome, and again after
// each break, since nobody knows what it has read.
func TestGivenUpIsReported(t *testing.T) {
	f := openTCP(t)
	p, _ := connect(t, f, plain)
	p.send(events(0, 100))
	collect(t, f, 0, 100)
	f.ReportGivenUp(10, 12, live.FaultLate)
	f.ReportGivenUp(12, 13, live.FaultLate)
	f.ReportGivenUp(1<<50, 1<<50+1, live.FaultJump)
	f.SetSafeBelow(50)
	got := p.readUntilAck(50)
	var n uint32
	for _, a := range got {
		n += a.D
	}
	if n != 4 || got[0].A != 10 || got[0].C != reasonLate || !strings.Contains(got[0].Sentence, "came too late") {
		t.Errorf("%+v", got)
	}
	must.OK(t, p.Close())
	await(t, f, "gone", func(s live.Stats) bool { return s.FrontendsGone == 1 })
	f.ReportGivenUp(60, 61, live.FaultBackwards)
	f.SetSafeBelow(100)
	p, a := connect(t, f, plain)
	got = p.readUntilAck(100)
	if a.A != 100 || len(got) != 3 || got[0].B != 13 || got[0].D != 3 || got[1].A != 60 || got[2].C != reasonJump {
		t.Errorf("%+v, %+v", a, got)
	}
}

// TestOldFrontEndGetsNoFalseAck: one of version 1 is told nothing safe from the first fragment on that was given
// up; what came twice, and what was safe before, changes nothing.
func TestOldFrontEndGetsNoFalseAck(t *testing.T) {
	log := &written{}
	set := settings("127.0.0.1:0")
	set.Log = slog.New(slog.NewTextHandler(log, nil))
	got, err := OpenTCP(t.Context(), set)
	must.OK(t, err)
	f := got.(*feed)
	h := old
	h.Name = "old board"
	p, _ := connect(t, f, h)
	p.send(events(0, 100))
	collect(t, f, 0, 100)
	f.SetSafeBelow(20)
	p.readUntilAck(20)
	f.ReportGivenUp(25, 26, live.FaultRepeat)
	f.ReportGivenUp(10, 11, live.FaultBackwards)
	f.ReportGivenUp(1<<40, 1<<40+1, live.FaultJump)
	f.SetSafeBelow(30)
	p.readUntilAck(30)
	f.ReportGivenUp(40, 50, live.FaultLate)
	f.SetSafeBelow(80)
	p.readUntilAck(40)
	p.send(endFrame(100))
	ended(t, f)
	f.SetSafeBelow(100)
	must.OK(t, f.Close())
	must.OK(t, p.SetReadDeadline(time.Now().Add(patiently.LongTimeout)))
	if b, err := io.ReadAll(p); err != nil || len(b) != 0 {
		t.Errorf("%x, %v", b, err)
	}
	if n := strings.Count(log.String(), "cannot be told"); n != 1 || !strings.Contains(log.String(), "old board") {
		t.Error(log)
	}
}

// TestWildNumberAndReconnect: a front-end is asked for what the consumer has accepted, whatever numbers came; and an
// end below a wild number is taken.
func TestWildNumberAndReconnect(t *testing.T) {
	f := openTCP(t)
	p, _ := connect(t, f, plain)
	p.send(append(events(0, 100), events(1<<50, 1<<50+1)...))
	collect(t, f, 0, 100)
	await(t, f, "all came", func(s live.Stats) bool { return s.Fragments == 101 })
	must.OK(t, p.Close())
	await(t, f, "gone", func(s live.Stats) bool { return s.FrontendsGone == 1 })
	p, a := connect(t, f, plain)
	if a.A != 100 {
		t.Errorf("%+v", a)
	}
	collect(t, f, 1<<50, 1<<50+1)
	f.SetResumeEvent(100)
	f.ReportGivenUp(1<<50, 1<<50+1, live.FaultJump)
	p.send(append(events(100, 200), endFrame(200)...))
	collect(t, f, 100, 200)
	ended(t, f)
	f.SetSafeBelow(200)
	if got := p.readUntilAck(200); len(got) != 1 || got[0].A != 1<<50 {
		t.Errorf("%+v", got)
	}
}

// TestSentAgainWhileUnjudged: what stands in the store when a front-end comes again, and is asked for again, is there
// once.
func TestSentAgainWhileUnjudged(t *testing.T) {
	f := openTCP(t)
	p, _ := connect(t, f, plain)
	b := events(0, 10)
	for e := uint64(10); e < 10_000; e += 2000 {
		b = append(b, events(e, e+1)...)
	}
	p.send(b)
	await(t, f, "all came", func(s live.Stats) bool { return s.Fragments == 15 })
	must.OK(t, p.Close())
	await(t, f, "gone", func(s live.Stats) bool { return s.FrontendsGone == 1 })
	p, a := connect(t, f, plain)
	if a.A != 11 {
		t.Errorf("%+v", a)
	}
	for e := uint64(2010); e < 14_000; e += 2000 {
		p.send(events(e, e+1))
	}
	p.send(endFrame(20_000))
	var got []uint64
	dst := make([]live.Fragment, 100)
	ctx, cancel := context.WithTimeout(t.Context(), patiently.LongTimeout)
	defer cancel()
	for {
		n, err := f.Next(ctx, dst)
		if errors.Is(err, io.EOF) {
			break
		}
		must.OK(t, err)
		for _, g := range dst[:n] {
			got = append(got, g.Event)
		}
		f.ReleaseFragments(n)
	}
	if want := []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 2010, 4010, 6010, 8010, 10010, 12010}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// TestWhoIsThere: the front-end is told by its name, and so is the last refusal, of a stranger too.
func TestWhoIsThere(t *testing.T) {
	log := &written{}
	set := settings("127.0.0.1:0")
	set.Log = slog.New(slog.NewTextHandler(log, nil))
	got, err := OpenTCP(t.Context(), set)
	must.OK(t, err)
	defer got.Close()
	f := got.(*feed)
	if f.Frontend() != "" || f.Explain() != "" {
		t.Error(f.Frontend(), f.Explain())
	}
	h := plain
	h.Name = "board\n7"
	p, _ := connect(t, f, h)
	if name := f.Frontend(); !strings.HasPrefix(name, `"board\n7" at 127.0.0.1:`) {
		t.Error(name)
	}
	h.Version = 3
	connect(t, f, h)
	await(t, f, "refused", func(s live.Stats) bool { return s.RefusedMessages == 1 })
	if why := f.Explain(); !strings.Contains(why, "speaks version 3 of the format, and this Ringlet versions 1 and 2") {
		t.Error(why)
	}
	must.OK(t, p.Close())
	await(t, f, "gone", func(s live.Stats) bool { return s.FrontendsGone == 1 })
	if name := f.Frontend(); !strings.HasPrefix(name, `"board\n7" at 127.0.0.1:`) {
		t.Error("who was attached last is not known any more:", name)
	}
	patiently.Until(t, "a warning that the front-end is gone", func() bool {
		return strings.Contains(log.String(), `level=WARN msg="a front-end is gone"`)
	})
	h = plain
	h.MaxFragmentBytes = 1 << 20
	if _, a := connect(t, f, h); a.Code != codeBadFormat || !strings.Contains(a.Sentence, "up to 1048576 bytes") {
		t.Errorf("%+v", a)
	}
}
