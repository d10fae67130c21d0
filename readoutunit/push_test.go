package readoutunit

import (
	"testing"

	"ringlet/tagnet/core"
)

// TestPushUsesCreditsAsItReads: a cycle waits until all its MEPs are read; nothing waits for the scheduler then.
func TestPushUsesCreditsAsItReads(t *testing.T) {
	o := newPush(0, 2, 2, 2)
	var announced []uint64
	o.onWindowless = func(t *Transfer) { announced = append(announced, t.MEP) }
	for i, c := range [][]core.Token{{newToken(0, 0), newToken(1, 0)}, {newToken(2, 1), newToken(3, 1)}} {
		if err := o.AddCycle(batch(uint64(i), c), 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		read, announced uint64
		turn            Turn
		ahead           int
	}{{0, 0, WaitToken, 0}, {1, 0, WaitToken, 0}, {2, 2, WaitGrant, 0}, {3, 2, WaitGrant, 0}, {4, 4, WaitGrant, 1}} {
		if err := o.credits.markRead(step.read); err != nil {
			t.Fatal(err)
		}
		turn, _ := o.Next()
		if turn != step.turn || uint64(len(announced)) != step.announced || o.cyclesAhead() != step.ahead {
			t.Fatalf("with MEPs below %d read it %v, %d MEPs are announced, %d cycles ahead; want %+v", step.read, turn,
				len(announced), o.cyclesAhead(), step)
		}
	}
}

// TestPushStopsAndEnds: a unit that hears that the run is to end assigns no further MEP until it knows the end. Tokens
// beyond count as if they had not come.
func TestPushStopsAndEnds(t *testing.T) {
	o := newPush(0, 1, 1, 4)
	for i := range uint64(4) {
		if err := o.AddCycle(batch(i, []core.Token{newToken(i, uint32(i))}), 0); err != nil {
			t.Fatal(err)
		}
	}
	follow := func(s core.State, known bool, end uint64) (stopped bool) {
		stopped, err := o.credits.follow(s, known, end)
		if err != nil {
			t.Fatal(err)
		}
		return stopped
	}
	read := func(below uint64) {
		if err := o.credits.markRead(below); err != nil {
			t.Fatal(err)
		}
	}
	read(1)
	if follow(core.Paused, false, 0) {
		t.Fatal("a pause is taken for the end")
	}
	read(2)
	if got := o.credits.assignedBelow(); got != 1 {
		t.Fatalf("paused, it has assigned MEPs below %d", got)
	}
	if follow(core.Running, false, 0); o.credits.assignedBelow() != 2 {
		t.Fatalf("resumed, it has assigned MEPs below %d", o.credits.assignedBelow())
	}
	if !follow(core.Draining, false, 0) || follow(core.Draining, false, 0) {
		t.Fatal("the stop is not reported once")
	}
	read(9)
	if got := o.credits.assignedBelow(); got != 2 {
		t.Fatalf("stopped at MEP 2, it has assigned MEPs below %d", got)
	}
	if follow(core.Draining, true, 3); o.credits.assignedBelow() != 3 || o.OpenTransfers() != 3 || o.tokens != 3 {
		t.Fatalf("the run ends before MEP 3: assigned below %d, %d open, %d tokens", o.credits.assignedBelow(),
			o.OpenTransfers(), o.tokens)
	}
}
