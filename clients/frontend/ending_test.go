package frontend_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"ringlet/clients/frontend"
	"ringlet/source/frames"
	"ringlet/source/live"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// receiveFragments takes n fragments, of which each has the next number.
func receiveFragments(ctx context.Context, t *testing.T, f live.Feed, from, n uint64) {
	t.Helper()
	dst := make([]live.Fragment, 100)
	for due := from; due < from+n; {
		k, err := f.Next(ctx, dst[:min(100, from+n-due)])
		must.OK(t, err)
		for _, g := range dst[:k] {
			if g.Event != due {
				t.Fatalf("event %d, where %d is due", g.Event, due)
			}
			due++
		}
		f.SetResumeEvent(due)
		f.ReleaseFragments(k)
	}
}

// awaitAcked waits until all below an event have their outcome.
func awaitAcked(t *testing.T, s *frontend.Stream, event uint64) {
	t.Helper()
	for until := time.Now().Add(patiently.LongTimeout); s.Acked() < event; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%d are safe", s.Acked())
		}
	}
}

// TestCloseSaysTheEnd: a front-end that closes when all is safe, or has sent nothing, has declared the end of its run
// before Close is over, every time.
func TestCloseSaysTheEnd(t *testing.T) {
	for _, n := range []uint64{100, 100, 100, 0, 0, 0} {
		f, path := openStream(t)
		ctx := longContext(t)
		s, err := frontend.Dial(ctx, "unix:"+path, frontend.StreamSettings{})
		must.OK(t, err)
		for e := range n {
			must.OK(t, s.Send(ctx, e, nil))
		}
		receiveFragments(ctx, t, f, 0, n)
		f.SetSafeBelow(n)
		awaitAcked(t, s, n)
		must.OK(t, s.Close(t.Context()))
		if k, err := f.Next(ctx, make([]live.Fragment, 1)); k != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("%d events: %d, %v", n, k, err)
		}
		if s := f.Stats(); s.FrontendsGone != 0 {
			t.Errorf("%+v", s)
		}
	}
}

// TestCloseHasABound: where no readout unit is, and none comes, Close says what may be lost.
func TestCloseHasABound(t *testing.T) {
	for _, safe := range []uint64{4, 10} {
		f, path := openStream(t)
		ctx := longContext(t)
		s, err := frontend.Dial(ctx, "unix:"+path, frontend.StreamSettings{})
		must.OK(t, err)
		for e := range uint64(10) {
			must.OK(t, s.Send(ctx, e, nil))
		}
		receiveFragments(ctx, t, f, 0, 10)
		f.SetSafeBelow(safe)
		awaitAcked(t, s, safe)
		must.OK(t, f.Close())
		s.Hurry(30 * time.Millisecond)
		want := "events from 4 on are not known to be safe: 6 fragments"
		if safe == 10 {
			want = "the end is not known to be taken; all events below 10 are safe"
		}
		if err := s.Close(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	}
}

// TestGivenUp: Close tells what was given up, and what a new run takes all the same is not told.
func TestGivenUp(t *testing.T) {
	f, path := openStream(t)
	ctx := longContext(t)
	s, err := frontend.Dial(ctx, "unix:"+path, frontend.StreamSettings{})
	must.OK(t, err)
	for e := range uint64(100) {
		must.OK(t, s.Send(ctx, e, nil))
	}
	receiveFragments(ctx, t, f, 0, 100)
	f.ReportGivenUp(7, 9, live.FaultLate)
	f.ReportGivenUp(60, 61, live.FaultLate)
	f.SetSafeBelow(50)
	awaitAcked(t, s, 50)
	must.OK(t, f.Close())
	set := live.FeedSettings{Address: path, Name: "again", Run: 43}
	again := reopen(t, set)
	must.OK(t, s.Send(ctx, 1<<50, nil))
	receiveFragments(ctx, t, again, 50, 50)
	for got := 0; got == 0; {
		got, err = again.Next(ctx, make([]live.Fragment, 1))
		must.OK(t, err)
	}
	again.ReportGivenUp(1<<50, 1<<50+1, live.FaultJump)
	again.SetSafeBelow(100)
	err = s.Close(ctx)
	var lost *frontend.GivenUpError
	if !errors.As(err, &lost) || len(lost.Ranges) != 2 || lost.Ranges[0].From != 7 || lost.Ranges[1].Reason != 4 ||
		!strings.HasPrefix(err.Error(), "3 fragments that were sent are not in the run; the first of them: 2 fragments of") {
		t.Error(err)
	}
}

// TestNumbersAnew: a front-end that counts from 0 again within a run gets an error.
func TestNumbersAnew(t *testing.T) {
	f, path := openStream(t)
	ctx := longContext(t)
	s, err := frontend.Dial(ctx, "unix:"+path, frontend.StreamSettings{})
	must.OK(t, err)
	for e := range uint64(10) {
		must.OK(t, s.Send(ctx, e, nil))
	}
	must.OK(t, s.Leave(ctx))
	receiveFragments(ctx, t, f, 0, 10)
	s, err = frontend.Dial(ctx, "unix:"+path, frontend.StreamSettings{})
	must.OK(t, err)
	if err := s.Send(ctx, 0, nil); err == nil || !strings.Contains(err.Error(), "has taken the events below 10") {
		t.Error(err)
	}
	f.SetSafeBelow(10)
	must.OK(t, s.Close(ctx))
}

// TestLeave: what was sent is there when Leave is over; what nobody takes is told.
func TestLeave(t *testing.T) {
	f, path := openStream(t)
	ctx := longContext(t)
	s, err := frontend.Dial(ctx, "unix:"+path, frontend.StreamSettings{Name: "leaver"})
	must.OK(t, err)
	named := f.(interface{ Frontend() string })
	if name := named.Frontend(); !strings.HasPrefix(name, `"leaver" at connection`) {
		t.Error(name)
	}
	for e := range uint64(1000) {
		must.OK(t, s.Send(ctx, e, make([]byte, 1000)))
	}
	must.OK(t, s.Leave(ctx))
	if s := f.Stats(); s.Fragments != 1000 || s.FrontendsGone != 1 {
		t.Errorf("%+v", s)
	}
	s, err = frontend.Dial(ctx, "unix:"+path, frontend.StreamSettings{})
	must.OK(t, err)
	for e := uint64(1000); e < 1600; e++ {
		must.OK(t, s.Send(ctx, e, make([]byte, 50_000)))
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	want := "600 fragments from event 1000 on may be lost"
	if err := s.Leave(short); err == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
}

// reopen opens a feed where one was.
func reopen(t *testing.T, set live.FeedSettings) live.Feed {
	t.Helper()
	f, err := frames.OpenUnix(t.Context(), set)
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, f.Close()) })
	return f
}

// TestBogusServer: what a server says has bounds, too.
func TestBogusServer(t *testing.T) {
	for name, c := range map[string]struct{ say, want string }{
		"old":      {"RLFA\x01\x02\x04\x00" + strings.Repeat("\x00", 16) + "why?", "why?"},
		"old, too": {"RLFA\x01\x00\x00\x00" + strings.Repeat("\x00", 16), "older release"},
		"sentence": {"RLFA\x02\x02\xff\xff" + strings.Repeat("\x00", 16), "a sentence of 65535 bytes"},
		"other":    {"HTTP/1.1 400 Bad Request\r\n\r\n", "no answer of version 2"},
	} {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		must.OK(t, err)
		over := make(chan struct{})
		go func() {
			defer close(over)
			if conn, err := lis.Accept(); err == nil {
				_, _ = conn.Read(make([]byte, 100))
				_, _ = conn.Write([]byte(c.say))
				_ = conn.Close()
			}
		}()
		_, err = frontend.Dial(longContext(t), "tcp:"+lis.Addr().String(), frontend.StreamSettings{})
		var refused *frontend.StreamError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		must.OK(t, lis.Close())
		patiently.Receive(t, over, "it goes on")
	}
}
