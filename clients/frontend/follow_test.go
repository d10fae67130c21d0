package frontend_test

import (
	"context"
	"errors"
	"os/exec"
	"testing"

	"ringlet/clients/frontend"
	"ringlet/source/live"
	"ringlet/testkit/compiled"
	"ringlet/testkit/interpreted"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// nextCommand waits for a command of one kind, in run 42 of source 7.
func nextCommand(ctx context.Context, t *testing.T, s *frontend.Stream, kind frontend.CommandKind) frontend.Command {
	t.Helper()
	c, err := s.NextCommand(ctx)
	must.OK(t, err)
	if c.Kind != kind || c.Run != 42 || c.Source != 7 {
		t.Fatalf("%v of run %d, source %d; want %v", c.Kind, c.Run, c.Source, kind)
	}
	return c
}

// awaitLife waits until a source is somewhere.
func awaitLife(t *testing.T, f live.Feed, is func(live.LifeStatus) bool) {
	t.Helper()
	follower := f.(live.Follower)
	patiently.Until(t, "the source is where the run wants it", func() bool { return is(follower.Life()) })
}

func hasArrived(s live.LifeStatus) bool { return s.Arrived }

// TestFollow: a front-end that follows the run hears each command once, in order, and the readout unit what it answers.
func TestFollow(t *testing.T) {
	f, path := openStream(t)
	ctx := longContext(t)
	follower := f.(live.Follower)
	s, err := frontend.Dial(ctx, "unix:"+path, frontend.StreamSettings{Follow: true})
	must.OK(t, err)
	prepare := nextCommand(ctx, t, s, frontend.Prepare)
	follower.Want(live.Begin)
	s.Answer(prepare, errors.New("the high voltage\nis off"))
	awaitLife(t, f, func(s live.LifeStatus) bool { return s.Failed == "the high voltage?is off" && !s.Arrived })
	s.Answer(prepare, nil)
	s.Answer(nextCommand(ctx, t, s, frontend.Begin), nil)
	awaitLife(t, f, hasArrived)
	must.OK(t, s.Send(ctx, 0, fragment(0)))
	follower.Want(live.Pause)
	s.Answer(nextCommand(ctx, t, s, frontend.Pause), nil)
	awaitLife(t, f, hasArrived)
	follower.Want(live.Begin)
	s.Answer(nextCommand(ctx, t, s, frontend.Resume), nil)
	must.OK(t, s.Send(ctx, 1, fragment(1)))
	follower.Want(live.End)
	end := nextCommand(ctx, t, s, frontend.End)
	must.OK(t, s.Send(ctx, 2, fragment(2)))
	s.Answer(end, nil)
	awaitLife(t, f, func(s live.LifeStatus) bool { return s.Untaken && !s.Arrived })
	built := make(chan error, 1)
	go func() { built <- build(ctx, f, 3) }()
	awaitLife(t, f, hasArrived)
	must.OK(t, s.Close(ctx))
	must.OK(t, patiently.Receive(t, built, "nothing is built"))
	if _, err := s.NextCommand(ctx); err == nil {
		t.Error("a closed stream has a command")
	}
}

// TestFollowOverBreaks: replies go between frames, however large these are; after each break the front-end is told the
// present state, and what it answered before does not count.
func TestFollowOverBreaks(t *testing.T) {
	f, path := openStream(t)
	const n = 20_000
	ctx := longContext(t)
	follower := f.(live.Follower)
	follower.Want(live.Begin)
	built := make(chan error, 1)
	go func() { built <- build(ctx, f, n) }()
	s, err := frontend.Dial(ctx, cutter(t, path), frontend.StreamSettings{Follow: true, Keep: 1 << 20})
	must.OK(t, err)
	answered := make(chan [6]int, 1)
	go func() {
		var kinds [6]int
		for {
			c, err := s.NextCommand(ctx)
			if err != nil {
				answered <- kinds
				return
			}
			kinds[c.Kind]++
			s.Answer(c, nil)
		}
	}()
	for e := range uint64(n) {
		must.OK(t, s.Send(ctx, e, fragment(e)))
		if e%512 == 0 {
			follower.Want(live.Pause)
			follower.Want(live.Begin)
		}
	}
	must.OK(t, s.Close(ctx))
	must.OK(t, patiently.Receive(t, built, "not all is built"))
	kinds := patiently.Receive(t, answered, "it goes on to wait for commands")
	if kinds[frontend.Prepare] < 3 || kinds[frontend.Begin] < 1 || kinds[frontend.End] != 0 ||
		kinds[frontend.Resume] > kinds[frontend.Pause] {
		t.Errorf("commands by kind: %v", kinds)
	}
}

// TestNobodyFollows: a front-end that does not ask hears nothing of the run; a feed that closes tells one that does.
func TestNobodyFollows(t *testing.T) {
	f, path := openStream(t)
	ctx := longContext(t)
	follower := f.(live.Follower)
	if follower.Life().Arrived {
		t.Error("a source without a front-end is ready")
	}
	s, err := frontend.Dial(ctx, "unix:"+path, frontend.StreamSettings{})
	must.OK(t, err)
	awaitLife(t, f, func(s live.LifeStatus) bool { return s.Arrived && s.Attached && !s.Follows })
	follower.Want(live.Begin)
	must.OK(t, s.Leave(ctx))
	awaitLife(t, f, func(s live.LifeStatus) bool { return !s.Attached })
	s, err = frontend.Dial(ctx, "unix:"+path, frontend.StreamSettings{Follow: true})
	must.OK(t, err)
	s.Answer(nextCommand(ctx, t, s, frontend.Prepare), nil)
	s.Answer(nextCommand(ctx, t, s, frontend.Begin), nil)
	go func() { _ = f.Close() }()
	nextCommand(ctx, t, s, frontend.End)
	over, cancel := context.WithCancel(ctx)
	cancel()
	_ = s.Leave(over) // nobody is there
}

// TestCloseBehindTheRun: a run that ends by itself tells its front-ends when all of theirs is safe, and is gone before
// they can declare an end: close is right all the same, at once.
func TestCloseBehindTheRun(t *testing.T) {
	for name, program := range map[string]func(*testing.T) []string{
		"Go":     nil,
		"C":      func(t *testing.T) []string { return []string{compiled.C(t, "../c", "testdata/behind.c")} },
		"Python": func(t *testing.T) []string { return append(interpreted.Python(t, "../python"), "testdata/behind.py") },
	} {
		t.Run(name, func(t *testing.T) {
			f, path := openStream(t)
			ctx := longContext(t)
			f.(live.Follower).Want(live.Begin)
			built := make(chan error, 1)
			go func() {
				_, err := f.Next(ctx, make([]live.Fragment, 1))
				f.SetResumeEvent(1)
				f.ReleaseFragments(1)
				f.SetSafeBelow(1)
				patiently.Until(t, "it has begun", func() bool { return f.(live.Follower).Life().Arrived })
				built <- errors.Join(err, f.Close()) // which tells the end
			}()
			if program != nil {
				command := program(t)
				out, err := exec.CommandContext(ctx, command[0], append(command[1:], "unix:"+path)...).CombinedOutput()
				if err != nil {
					t.Errorf("%v: %s", err, out)
				}
			} else {
				closeBehindTheRun(ctx, t, path)
			}
			must.OK(t, patiently.Receive(t, built, "nothing is built"))
		})
	}
}

func closeBehindTheRun(ctx context.Context, t *testing.T, path string) {
	t.Helper()
	s, err := frontend.Dial(ctx, "unix:"+path, frontend.StreamSettings{Follow: true})
	must.OK(t, err)
	for kind := frontend.Prepare; kind < frontend.End; {
		c, err := s.NextCommand(ctx)
		must.OK(t, err)
		if kind = c.Kind; kind == frontend.Begin {
			must.OK(t, s.Send(ctx, 0, fragment(0)))
		}
		s.Answer(c, nil)
	}
	must.OK(t, s.Close(ctx))
}
