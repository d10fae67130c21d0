package main

import (
	"strings"
	"testing"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// TestLot: what a front-end was told is safe must be found, once, as it was sent; what was given up need not.
func TestLot(t *testing.T) {
	none := func(uint64) bool { return false }
	l := sourceFragments{found: make([]bool, 10)}
	for n := range uint64(6) {
		l.record(n, true)
	}
	if safe, problems := l.judgeAcked("x", 6, none); safe != 6 || problems != nil {
		t.Errorf("all there: %d, %q", safe, problems)
	}
	safe, problems := l.judgeAcked("x", 8, none)
	if safe != 8 || len(problems) != 1 || !strings.Contains(problems[0], "2 fragments") {
		t.Errorf("two missing: %d, %q", safe, problems)
	}
	if safe, problems := l.judgeAcked("x", 8, func(n uint64) bool { return n >= 6 }); safe != 6 || problems != nil {
		t.Errorf("two given up: %d, %q", safe, problems)
	}
	l.record(3, true)
	l.record(4, false)
	l.record(1<<60, true)
	_, problems = l.judgeAcked("x", 6, none)
	if len(problems) != 1 || !strings.Contains(problems[0], "2 fragments in the output are none") ||
		!strings.Contains(problems[0], "1 are there twice") {
		t.Errorf("wrong and twice: %q", problems)
	}
}

// TestWronglyFailed: only who was hurt may be said to have failed.
func TestWronglyFailed(t *testing.T) {
	run := &ecsv1.Run{
		Cause: &ecsv1.Cause{Component: "n3"},
		Events: []*ecsv1.Event{
			{Kind: "degraded", Component: "n4/bu2"},
			{Kind: "state", Component: "n1"},
			{Kind: "fault", Component: "udp:127.0.0.1:1"},
		},
	}
	if got := strings.Join(wronglyFailed(run, map[string]bool{"n3": true}), " "); got != "n4" {
		t.Errorf("blamed %q, want n4", got)
	}
	if got := wronglyFailed(run, map[string]bool{"n3": true, "n4": true}); got != nil {
		t.Errorf("blamed %q, want nobody", got)
	}
}

// TestLosses: a run that is not GOOD names what it lost.
func TestLosses(t *testing.T) {
	lost := []*ecsv1.Loss{{What: "missing", Of: "udp:127.0.0.1:1/1", Count: 1, Unit: "fragments"}}
	for _, c := range []struct {
		verdict ecsv1.Verdict
		losses  []*ecsv1.Loss
		want    int
	}{
		{ecsv1.Verdict_VERDICT_GOOD, nil, 0},
		{ecsv1.Verdict_VERDICT_DEGRADED, lost, 0},
		{ecsv1.Verdict_VERDICT_INCOMPLETE, lost, 0},
		{ecsv1.Verdict_VERDICT_INCOMPLETE, nil, 1},
		{ecsv1.Verdict_VERDICT_ABORTED, lost, 1},
	} {
		if got := judgeLosses(&ecsv1.Run{Verdict: c.verdict, Losses: c.losses}); len(got) != c.want {
			t.Errorf("%v with %d losses: %q, want %d", c.verdict, len(c.losses), got, c.want)
		}
	}
}

// TestBound: a line of /proc/net/tcp, of a socket that listens and is ours.
func TestBound(t *testing.T) {
	const line = "  0: 0100007F:1F0A 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 4711 1 0 100 0 0 10 0"
	ours := map[string]bool{"4711": true}
	if port, ok := boundPort(line, "tcp", ours); !ok || port != 0x1f0a {
		t.Errorf("%d %v", port, ok)
	}
	if _, ok := boundPort(line, "tcp", map[string]bool{"4712": true}); ok {
		t.Error("it is not ours")
	}
	if _, ok := boundPort(strings.Replace(line, " 0A ", " 01 ", 1), "tcp", ours); ok {
		t.Error("it does not listen")
	}
	if _, ok := boundPort("sl local_address", "tcp", ours); ok {
		t.Error("it is the head of the table")
	}
}
