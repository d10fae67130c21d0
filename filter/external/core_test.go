package external

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ringlet/event/selection"
	"ringlet/filter"
	"ringlet/filter/decision"
)

func caseOf(first uint64, n int) *filter.Case {
	return &filter.Case{
		Meta:       selection.Meta{MEP: first},
		FirstEvent: first,
		Events:     n,
		Verdicts:   make([]filter.Verdict, n),
	}
}

func resultOf(event uint64, d filter.Decision, score uint16) []byte {
	r := decision.Result{Event: event, Decision: d, Score: score}
	b := make([]byte, decision.ResultSize)
	r.Put(b)
	return b
}

// TestModel holds that whatever a process answers, and whenever: each case comes back once; each event has the first
// verdict that was right, or passes; and every answer is counted as one thing.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1000, 0)
		c := core{deadline: 10 * time.Millisecond}
		with, first := map[uint64]filter.Verdict{}, map[*filter.Case]bool{} // verdicts of events; cases in hand
		next, assigned := uint64(0), uint64(0)
		finish := func(t *rapid.T, one *filter.Case) {
			if one == nil {
				return
			}
			if !first[one] {
				t.Fatal("a case came back that was not there")
			}
			delete(first, one)
			for i, v := range one.Verdicts {
				want, known := with[one.FirstEvent+uint64(i)]
				if known && v != want || !known && (v.Decision != filter.TimedOut && v.Decision != filter.Failed) {
					t.Fatalf("event %d: %+v, told %+v", one.FirstEvent+uint64(i), v, want)
				}
			}
		}
		giveBack := func(t *rapid.T, back []*filter.Case) {
			for _, one := range back {
				if !first[one] || slices.ContainsFunc(one.Verdicts, func(v filter.Verdict) bool { return v.Decision != 0 }) {
					t.Fatal("what is given back was not there, or has verdicts")
				}
				delete(first, one)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"hand": func(t *rapid.T) {
				if !c.acceptsCase() {
					return
				}
				n := rapid.IntRange(1, 5).Draw(t, "events")
				one := caseOf(next, n)
				next += uint64(n)
				first[one] = true
				c.assign(one, now)
			},
			"answer": func(t *rapid.T) {
				event := rapid.Uint64Range(0, next+2).Draw(t, "event")
				d := filter.Decision(rapid.SampledFrom([]uint8{1, 2, 4, 0, 3, 5, 255}).Draw(t, "decision"))
				b := resultOf(event, d, 7)
				if rapid.Bool().Draw(t, "harm") {
					b = rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "bytes")
				}
				finished, what := c.applyAnswer(event, b, now)
				assigned++
				if what == answerUsed {
					if _, twice := with[event]; twice {
						t.Fatalf("event %d was taken twice", event)
					}
					with[event] = filter.Verdict{Decision: d, Score: 7}
				}
				finish(t, finished)
			},
			"time": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 15).Draw(t, "ms")) * time.Millisecond)
				had := len(c.cases)
				finished, back := c.expire(now, nil)
				if finished == nil && len(back) > 0 || finished != nil && len(back) != had-1 {
					t.Fatal("not all came back")
				}
				for _, one := range back {
					for i := range one.Events { // another process may answer them
						delete(with, one.FirstEvent+uint64(i))
					}
				}
				finish(t, finished)
				giveBack(t, back)
			},
			"": func(t *rapid.T) {
				if c.isIdle() != (len(first) == 0) || len(c.cases) != len(first) || c.hasOverdue() && !c.isIdle() {
					t.Fatalf("%d held, %d in hand", len(c.cases), len(first))
				}
				sum := uint64(0)
				for _, n := range c.answerCounts {
					sum += n
				}
				if sum != assigned {
					t.Fatalf("%d answers, %d counted", assigned, sum)
				}
			},
		})
		finished, back := c.releaseCases(filter.Failed, nil)
		finish(t, finished)
		giveBack(t, back)
		if len(first) != 0 {
			t.Fatalf("%d cases are left", len(first))
		}
	})
}

// TestWhatAnAnswerIs goes through the kinds of answers, one after the other.
func TestWhatAnAnswerIs(t *testing.T) {
	now := time.Unix(1000, 0)
	c := core{deadline: 10 * time.Millisecond}
	a, b := caseOf(100, 2), caseOf(102, 1)
	c.assign(a, now)
	c.assign(b, now)
	step := func(event uint64, bytes []byte, want answerKind, finishes *filter.Case) {
		t.Helper()
		finished, what := c.applyAnswer(event, bytes, now)
		if what != want || finished != finishes {
			t.Errorf("event %d: %d, and %d is expected; finished %v", event, what, want, finished)
		}
	}
	accept := func(event uint64) []byte { return resultOf(event, filter.Accepted, 1) }
	step(100, accept(100), answerUsed, nil)
	step(100, accept(100), answerDoubled, nil)
	step(101, accept(100), answerInvalid, nil)                       // of another event
	step(101, resultOf(101, filter.TimedOut, 0), answerInvalid, nil) // not the process's to say
	step(101, append(accept(101)[:15], 0xFF), answerInvalid, nil)    // of broken bytes
	step(99, accept(99), answerUnassigned, nil)
	step(101, resultOf(101, filter.Rejected, 2), answerUsed, a)
	step(101, accept(101), answerDoubled, nil)
	now = now.Add(11 * time.Millisecond)
	finished, back := c.expire(now, nil)
	if finished != b || len(back) != 0 || !c.hasOverdue() || c.acceptsCase() || b.Verdicts[0].Decision != filter.TimedOut {
		t.Fatalf("%v %v", finished, back)
	}
	step(102, accept(102), answerLate, nil)
	step(102, accept(102), answerDoubled, nil)
	if c.hasOverdue() || !c.acceptsCase() {
		t.Error("it has answered all, and is behind")
	}
	if a.Verdicts[1] != (filter.Verdict{Decision: filter.Rejected, Score: 2}) || c.judgingMax != 11*time.Millisecond {
		t.Errorf("%+v, %v", a.Verdicts, c.judgingMax)
	}
}

// TestTheClockOfAnEvent holds that an event counts from the answer before it: what waits behind others is not late.
func TestTheClockOfAnEvent(t *testing.T) {
	now := time.Unix(1000, 0)
	c := core{deadline: 10 * time.Millisecond}
	for k := range uint64(maxCases) {
		c.assign(caseOf(k, 1), now)
	}
	for k := range uint64(maxCases) {
		now = now.Add(9 * time.Millisecond)
		if finished, _ := c.expire(now, nil); finished != nil {
			t.Fatalf("event %d is late", k)
		}
		_, what := c.applyAnswer(k, resultOf(k, filter.Accepted, 0), now)
		if what != answerUsed {
			t.Fatal(what)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	now := time.Unix(1000, 0)
	c := core{deadline: time.Second}
	one, b := caseOf(5, 1), resultOf(5, filter.Accepted, 0)
	c.assign(one, now)
	if n := testing.AllocsPerRun(1000, func() {
		_, _ = c.applyAnswer(5, b, now)
		one.Verdicts[0] = filter.Verdict{}
		c.assign(one, now)
	}); n != 0 {
		t.Errorf("%v allocations an event", n)
	}
}
