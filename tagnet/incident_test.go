package tagnet

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet/core"
	"ringlet/testkit/patiently"
)

func small(rus, bus int) serverConfig {
	return serverConfig{Core: core.Config{
		RUs:     names("ru", rus),
		BUs:     names("bu", bus),
		Slots:   2,
		Packing: 1,
	},
		ResumeTimeout: time.Millisecond}
}

func (sys *system) incident(t *testing.T) *core.UnitError {
	t.Helper()
	for {
		some, more, _ := sys.server.log.follow(sys.noticesSeen + 1)
		for i := range some {
			sys.noticesSeen = some[i].Sequence
			if e, ok := incidentOf(noticeMessage(&some[i]).GetIncident()); ok {
				return e
			}
		}
		select {
		case <-more:
		case <-testContext(t).Done():
			t.Fatal("nothing was reported")
		}
	}
}

// nextToken waits for the first token for one builder unit.
func nextToken(t *testing.T, c *RUClient, bu uint16) core.Token {
	t.Helper()
	for {
		batch := nextBatch(t, c)
		for i := range batch.Len() {
			if tok, ok := batch.Token(i, int(bu)); ok {
				return tok
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	sys := serve(t, small(1, 1))
	sys.ru(t, "ru0")
	ctx := testContext(t)
	for _, tt := range []struct {
		scope Scope
		want  core.Refusal
		code  codes.Code
	}{
		{Scope{Run: 8, View: 3, Name: "ru0"}, core.RefusedRun, codes.FailedPrecondition},
		{Scope{Run: 7, View: 2, Name: "ru0"}, core.RefusedView, codes.FailedPrecondition},
		{Scope{Run: 7, View: 3, Name: "bu0"}, core.RefusedName, codes.InvalidArgument},
		{Scope{Run: 7, View: 3, Name: "ru0"}, core.RefusedSecondAttach, codes.FailedPrecondition},
	} {
		_, err := newRUClient(ctx, sys.conn, tt.scope, nil)
		var remote *RemoteError
		if !errors.As(err, &remote) || remote.Refusal != tt.want || status.Code(remote.Err) != tt.code {
			t.Errorf("%+v: got %v, want %s as %v", tt.scope, err, tt.want, tt.code)
		}
		if n := sys.server.Registers().Refused[string(tt.want)]; n != 1 {
			t.Errorf("%s was counted %d times", tt.want, n)
		}
	}
	_, err := newBUClient(ctx, sys.conn, sys.scope("bu0"), 3, BUHandlers{})
	var remote *RemoteError
	if !errors.As(err, &remote) || remote.Refusal != core.RefusedSlots || !strings.Contains(remote.Message, "says 2") {
		t.Errorf("wrong number of slots: got %v", err)
	}
}

// TestForeignMessages speaks the protocol by hand, wrongly.
func TestForeignMessages(t *testing.T) {
	sys := serve(t, small(1, 1))
	client := tagnetv1.NewTagNetClient(sys.conn)
	good := sys.scope("bu0").message()
	good.Conversation = 1
	old := sys.scope("bu0").message()
	old.Protocol = 99
	for name, messages := range map[string][]*tagnetv1.FeedbackBatch{
		"wrong_protocol": {{Scope: old, SlotCount: 2}},
		"bad_message":    {{SlotCount: 2}},
		"bad_message 2":  {{Scope: good, SlotCount: 2, Meps: []uint64{1}}},
		"bad_message 3":  {{Scope: good, SlotCount: 2}, {Meps: []uint64{1}}},
	} {
		stream, err := client.Feedback(testContext(t))
		must(t, err)
		for _, m := range messages {
			if err := stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
		}
		for err == nil {
			_, err = stream.Recv()
		}
		var remote *RemoteError
		if err := clientError("bu0", err); !errors.As(err, &remote) || string(remote.Refusal) != name[:len(remote.Refusal)] {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestReadoutUnitLost(t *testing.T) {
	sys := serve(t, small(2, 1))
	rus, _ := sys.attachAll(t)
	rus[1].Close()
	e := sys.incident(t)
	if e.Incident != core.UnitLost || e.Role != core.Readout || e.Unit != "ru1" || e.Err == nil {
		t.Errorf("got %+v, want ru1 lost", e)
	}
	// Run control decides to go on without it.
	must(t, sys.server.ExcludeRU("ru1"))
	must(t, rus[0].Update(core.Update{ReadBelow: 1, Events: 1}))
	if tok := nextToken(t, rus[0], 0); tok.MEP != 0 {
		t.Errorf("got %+v, want MEP 0", tok)
	}
	if err := sys.server.ExcludeRU("bu0"); !errors.Is(err, errUnknownUnit) {
		t.Errorf("excluding a builder unit as readout unit: %v", err)
	}
}

// TestBuilderUnitLost gives the MEP of a lost builder unit to another one, and does not let the lost one come back.
func TestBuilderUnitLost(t *testing.T) {
	sys := serve(t, small(1, 2))
	rus, bus := sys.attachAll(t)
	must(t, rus[0].Update(core.Update{ReadBelow: 2, Events: 2, InputEnded: true}))
	first := nextToken(t, rus[0], 1)
	bus[1].Close()
	if e := sys.incident(t); e.Incident != core.UnitLost || e.Role != core.Builder || e.Unit != "bu1" {
		t.Errorf("got %+v, want bu1 lost", e)
	}
	if n, err := sys.server.ExcludeBU("bu1"); n != 1 || err != nil {
		t.Fatalf("ExcludeBU: %d, %v", n, err)
	}
	again := nextToken(t, rus[0], 0)
	if again.MEP != first.MEP || again.Attempt != 2 {
		t.Fatalf("got %+v after %+v", again, first)
	}
	held := built(again, 1)
	must(t, bus[0].QueueFeedback(held))
	must(t, bus[0].Flush(testContext(t)))
	if err := sys.server.IncludeBU("bu1"); err == nil {
		t.Error("a lost unit may be included, although readout units have no links to it")
	}
	if err := sys.server.ReadmitBU("bu1"); err != nil { // it is not there before another process attaches
		t.Errorf("another process of a lost unit may not attach: %v", err)
	}
	if r := sys.server.Registers().Bus[1]; !r.Lost || r.Counters.Withdrawn != 1 || r.Counters.Exclusions != 1 {
		t.Errorf("got %+v", r)
	}
	if sys.server.Abandon() != 1 {
		t.Error("one MEP was in flight")
	}
	for {
		if _, err := rus[0].Next(testContext(t)); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestBuilderUnitExcludedAndIncluded takes a builder unit out and lets it come back, when nothing is under way to it
// and it has freed its slots.
func TestBuilderUnitExcludedAndIncluded(t *testing.T) {
	sys := serve(t, small(1, 2))
	rus, bus := sys.attachAll(t)
	ru := rus[0]
	must(t, ru.Update(core.Update{ReadBelow: 2, Events: 2}))
	nextToken(t, ru, 1)
	if n, err := sys.server.ExcludeBU("bu1"); n != 1 || err != nil {
		t.Fatalf("ExcludeBU: %d, %v", n, err)
	}
	patiently.Receive(t, bus[1].Done())
	refused := func(want core.Refusal) {
		t.Helper()
		c, err := newBUClient(testContext(t), sys.conn, sys.scope("bu1"), sys.cfg.Core.Slots, BUHandlers{})
		if err == nil {
			_ = c.Close()
		}
		var remote *RemoteError
		if !errors.As(err, &remote) || remote.Refusal != want {
			t.Fatalf("attaching gave %v, want %s", err, want)
		}
	}
	refused(core.RefusedExcluded)
	if err := sys.server.IncludeBU("bu1"); !errors.Is(err, core.NotNow) {
		t.Fatalf("included although ru0 has not confirmed the exclusion: %v", err)
	}
	var tokens Tokens
	for len(tokens.Withdrawals) == 0 {
		var err error
		if tokens, err = ru.Next(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	if w := tokens.Withdrawals[0]; w.BU != 1 || w.Lost || w.BeforeCycle < tokens.FirstCycle {
		t.Fatalf("withdrawn is %+v", w)
	}
	must(t, ru.ConfirmExclusion(0))
	for err := sys.server.IncludeBU("bu1"); err != nil; err = sys.server.IncludeBU("bu1") {
		if !errors.Is(err, core.NotNow) || testContext(t).Err() != nil {
			t.Fatal(err)
		}
	}
	refused(core.RefusedUntilReset)
	if !sys.server.Registers().Bus[1].Excluded {
		t.Error("it gets tokens before it has freed its slots")
	}
	sys.bu(t, "bu1")
	if r := sys.server.Registers().Bus[1]; r.Excluded || !r.Attached || int(r.Free+r.Used.Now) != sys.cfg.Core.Slots {
		t.Errorf("got %+v", r)
	}
}

func TestMissingUnitsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := small(2, 1)
		cfg.AttachTimeout = time.Minute
		s, err := newServer(cfg)
		must(t, err)
		defer s.Close()
		sys, began := &system{server: s}, time.Now()
		time.Sleep(cfg.AttachTimeout)
		for _, want := range []string{"ru0", "ru1", "bu0"} {
			if e := sys.incident(t); e.Incident != core.UnitMissing || e.Unit != want || time.Since(began) != time.Minute {
				t.Errorf("got %v after %v, want %s missing after a minute", e, time.Since(began), want)
			}
		}
	})
}

func TestUpdateThatCannotBe(t *testing.T) {
	sys := serve(t, small(1, 1))
	rus, _ := sys.attachAll(t)
	err := rus[0].Update(core.Update{ReadBelow: 2, Events: 77}) // the refusal may come before it returns
	for err == nil {
		_, err = rus[0].Next(testContext(t))
	}
	var remote *RemoteError
	if !errors.As(err, &remote) || remote.Refusal != core.RefusedInput {
		t.Errorf("the unit got %v", err)
	}
	e := sys.incident(t)
	if e.Incident != core.UnitMisbehaved || e.Unit != "ru0" || !strings.Contains(e.Error(), "77 events") {
		t.Errorf("got %v, want ru0 misbehaved", e)
	}
}

func TestWrongFeedbackIsCounted(t *testing.T) {
	sys := serve(t, small(1, 1))
	rus := sys.ru(t, "ru0")
	bu := sys.bu(t, "bu0")
	must(t, rus.Update(core.Update{ReadBelow: 1, Events: 1}))
	tok := nextToken(t, rus, 0)
	tok.Attempt++
	must(t, build(bu, tok, 1))
	must(t, bu.Flush(testContext(t)))
	if n := sys.server.Registers().Counters.Refused[core.WrongAttempt]; n != 1 {
		t.Errorf("counted %d times", n)
	}
	if err := bu.SendFeedback(make([]core.Feedback, 3)...); err == nil {
		t.Error("three outcomes for two slots were taken")
	}
}

// TestFirstCycleComesAlone: what the fastest source has read waits for the others, but not for ever.
func TestFirstCycleComesAlone(t *testing.T) {
	sys := serve(t, small(1, 3))
	rus, _ := sys.attachAll(t)
	must(t, rus[0].Update(core.Update{ReadBelow: 1, Events: 1}))
	if tok := nextToken(t, rus[0], 0); tok.MEP != 0 {
		t.Errorf("the first token is %+v", tok)
	}
}
