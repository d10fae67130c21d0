package partition_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ringlet/clients/frontend"
	"ringlet/node/config"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	"ringlet/testkit/patiently"
)

// board is a front-end that follows runs, one stream for each.
type board struct {
	prefix   string
	prepare  func(run uint64) error // nil: it is always ready
	received chan string            // commands, as "begin 1" behind the prefix, each before it is answered
}

// newBoard starts a front-end, which ends with the test.
func newBoard(t *testing.T, address, prefix string, received chan string, prepare func(run uint64) error) *board {
	b := &board{prefix: prefix, prepare: prepare, received: received}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		for ctx.Err() == nil {
			s, err := frontend.Dial(ctx, address, frontend.StreamSettings{Follow: true})
			if err != nil {
				return
			}
			b.followRun(ctx, s)
		}
	}()
	t.Cleanup(func() {
		cancel()
		patiently.Receive(t, over, "a front-end does not end")
	})
	return b
}

// followRun does what a run says, to its end.
func (b *board) followRun(ctx context.Context, s *frontend.Stream) {
	var next uint64
	var send <-chan time.Time
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	commands := make(chan frontend.Command)
	go func() {
		defer close(commands)
		for {
			c, err := s.NextCommand(ctx)
			if err != nil {
				return
			}
			commands <- c
		}
	}()
	defer func() {
		over, cancel := context.WithTimeout(ctx, patiently.LongTimeout)
		defer cancel()
		_ = s.Close(over)
		for range commands { // bounded by Close, which has a time
		}
	}()
	for {
		select { // bounded by the end of the stream
		case c, ok := <-commands:
			if !ok {
				return
			}
			b.received <- fmt.Sprintf("%s%v %d", b.prefix, c.Kind, c.Run)
			var err error
			switch c.Kind {
			case frontend.Prepare:
				if b.prepare != nil {
					err = b.prepare(c.Run)
				}
			case frontend.Begin:
				next, send = s.Next(), tick.C
			case frontend.Resume:
				send = tick.C
			case frontend.Pause:
				send = nil
			case frontend.End:
				return
			}
			s.Answer(c, err)
		case <-send:
			_ = s.Send(ctx, next, []byte("fragment"))
			next++
		}
	}
}

// expect takes the next commands that a front-end hears.
func (b *board) expect(t *testing.T, commands ...string) {
	t.Helper()
	for _, want := range commands {
		if got := patiently.Receive(t, b.received, "no "+want); got != want {
			t.Fatalf("it hears %s, and not %s", got, want)
		}
	}
}

// TestFrontendsFollowRuns: a start waits for a front-end that the input requires; each front-end hears of each run once
// and in order; a run begins for none of them if one of them cannot.
func TestFrontendsFollowRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "tof"), filepath.Join(dir, "b")}
	h := newFarm(t, 2, func(c *config.Config) {
		c.Rate = 0
		c.Input = "unix:" + paths[0] + "?name=tof&require,unix:" + paths[1]
	})
	h.mustCommand("load", "configure")
	released := make(chan error)
	tof := newBoard(t, "unix:"+paths[0], "", make(chan string, 100), func(uint64) error {
		return patiently.Receive(t, released, "nobody lets it go on")
	})
	b := newBoard(t, "unix:"+paths[1], "", make(chan string, 100), nil)
	const first = 1
	of := func(run uint32, commands ...string) (out []string) {
		for _, c := range commands {
			out = append(out, fmt.Sprintf("%s %d", c, run))
		}
		return out
	}
	for run := uint32(first); run < first+2; run++ {
		started := make(chan error, 1)
		go func() { started <- h.command("start") }()
		tof.expect(t, of(run, "prepare")...)
		b.expect(t, of(run, "prepare")...)
		h.await("the start says for whom it waits", func() bool { return h.journalHas("run", "front-end of tof") })
		if s := h.state(); s != "Starting" {
			t.Fatalf("a front-end is not ready, and the partition is %s", s)
		}
		released <- nil
		if err := patiently.Receive(t, started, "the run does not start"); err != nil {
			t.Fatal(err)
		}
		tof.expect(t, of(run, "begin")...)
		b.expect(t, of(run, "begin")...)
		h.mustCommand("pause", "resume", "stop")
		for _, one := range []*board{tof, b} {
			one.expect(t, of(run, "pause", "resume", "end")...)
		}
		if r, err := h.store.Get(run); err != nil || r.GetVerdict() == ecsv1.Verdict_VERDICT_ABORTED {
			t.Errorf("run %d: %v, %v", run, r, err)
		}
	}
	started := make(chan error, 1)
	go func() { started <- h.command("start") }()
	tof.expect(t, of(first+2, "prepare")...)
	b.expect(t, of(first+2, "prepare")...)
	released <- errors.New("the high voltage is off")
	if err := patiently.Receive(t, started, "the start waits on"); err == nil ||
		!strings.Contains(err.Error(), "tof is not ready for the run: the high voltage is off") {
		t.Errorf("the start answers %v", err)
	}
	tof.expect(t, of(first+2, "end")...)
	b.expect(t, of(first+2, "end")...)
	h.mustCommand("recover")
}

// TestTriggerStartsLastAndStopsFirst: the front-end of the trigger begins and goes on when the others do, and is paused
// and ended before them.
func TestTriggerStartsLastAndStopsFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "trigger"), filepath.Join(dir, "tof")}
	h := newFarm(t, 2, func(c *config.Config) {
		c.Rate = 0
		c.Input = "unix:" + paths[0] + "?start=last&stop=first&require,unix:" + paths[1] + "?require"
	})
	h.mustCommand("load", "configure")
	received := make(chan string, 100)
	for i, name := range []string{"trigger", "tof"} {
		newBoard(t, "unix:"+paths[i], name+" ", received, nil)
	}
	next := func() string { return patiently.Receive(t, received, "no command comes") }
	for _, s := range []struct{ command, word, first, second string }{
		{"start", "begin", "tof", "trigger"},
		{"pause", "pause", "trigger", "tof"},
		{"resume", "resume", "tof", "trigger"},
		{"stop", "end", "trigger", "tof"},
	} {
		h.mustCommand(s.command)
		for i := 0; s.command == "start" && i < 2; i++ {
			if c := next(); !strings.Contains(c, "prepare") {
				t.Errorf("%s comes before all are prepared", c)
			}
		}
		for _, name := range []string{s.first, s.second} {
			if got, want := next(), name+" "+s.word+" 1"; got != want {
				t.Fatalf("%s: %s comes, and not %s", s.command, got, want)
			}
		}
	}
}
