package decision

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ringlet/filter"
	"ringlet/testkit/golden"
	"ringlet/testkit/must"
)

func someDecided() DecisionMessage {
	return DecisionMessage{Epoch: 7, FirstEvent: 4000, Spans: []Span{
		{2, filter.Rejected}, {1, filter.Accepted}, {50, filter.TimedOut}, {1, filter.Failed},
		{maxSpanEvents, Omitted}, {5, Void},
	}}
}

// idle says that all was heard.
func (d *deliveryQueue) idle() bool { return d.spanCount == 0 && d.messagesSent == d.messagesAcked }

func TestGoldenDecided(t *testing.T) {
	by, d := golden.Hex(t, "decided"), someDecided()
	if got := d.Append(nil); !bytes.Equal(got, by) {
		t.Errorf("%+v is % x, and by hand % x", d, got, by)
	}
	var back DecisionMessage
	if err := back.Parse(by); err != nil || back.Epoch != d.Epoch || back.FirstEvent != d.FirstEvent ||
		!slices.Equal(back.Spans, d.Spans) {
		t.Errorf("% x is read as %+v, %v", by, back, err)
	}
}

func TestBadDecided(t *testing.T) {
	d := someDecided()
	good := d.Append(nil)
	many := append(bytes.Clone(good[:MessageSize]), bytes.Repeat(good[MessageSize:MessageSize+4], maxSpans+1)...)
	for name, bad := range map[string][]byte{
		"short":             good[:15],
		"no span":           good[:16],
		"half a span":       good[:18],
		"too many":          many,
		"another kind":      change(good, 1, byte(KindAck)),
		"another version":   change(good, 0, 2),
		"no such decision":  change(good, 16, 0x25),
		"no event":          change(good, 16, 0x02),
		"beyond all events": change(good, 14, 1),
		"first beyond them": change(change(good, 15, 0xff), 14, 0xff),
		"reserved":          change(good, 5, 1),
		"nothing":           nil,
	} {
		var back DecisionMessage
		if err := back.Parse(bad); !errors.Is(err, ErrMessage) {
			t.Errorf("%s: % x: %v", name, bad, err)
		}
	}
	if KindOf(good[:15]) != 0 || KindOf(good) != KindDecisions {
		t.Error("the kind is the second byte of a message")
	}
}

func FuzzDecided(f *testing.F) {
	d := someDecided()
	f.Add(d.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var d DecisionMessage
		if d.Parse(b) != nil {
			return
		}
		if back := d.Append(nil); !bytes.Equal(b, back) {
			t.Errorf("% x is read as %+v and written as % x", b, d, back)
		}
		var r Reader
		r.Open(d.Epoch)
		if _, ok, err := r.Receive(b, func(uint64, Span) {}); !ok || err != nil {
			t.Errorf("% x: %v", b, err)
		}
	})
}

// TestDeliveryQueueAgainstReader has decisions and events without one at random, and a reader that hears now and then:
// it is told each decision once, in order, or that it was left out, and both sides count the same.
func TestDeliveryQueueAgainstReader(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r Reader
		d := newDeliveryQueue(3)
		r.Open(3)
		next := rapid.Uint64Range(0, 1<<40).Draw(t, "first")
		want, void := map[uint64]filter.Decision{}, map[uint64]bool{}
		nextEvent, begun := uint64(0), false
		var wire [][]byte
		receive := func(t *rapid.T) {
			answer, ok, err := r.Receive(wire[0], func(first uint64, s Span) {
				if begun && first != nextEvent {
					t.Fatalf("events from %d on, where %d follows", first, nextEvent)
				}
				nextEvent, begun = first+s.Events, true
				for e := first; e < nextEvent; e++ {
					if got := s.Decision; got != want[e] && got != Omitted && !(got == Void && void[e]) {
						t.Fatalf("event %d is told as %v, and was %v", e, got, want[e])
					}
				}
			})
			if wire = wire[1:]; err != nil || !ok || !d.ack(answer.Number) {
				t.Fatalf("%v %v", ok, err)
			}
		}
		send := func(*rapid.T) {
			for m := d.nextMessage(nil); m != nil; m = d.nextMessage(nil) {
				wire = append(wire, bytes.Clone(m))
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"decide": func(t *rapid.T) {
				for range rapid.SampledFrom([]int{1, 10, 3000}).Draw(t, "rows") {
					gap := rapid.Uint64Range(0, 3).Draw(t, "gap")
					if len(want) > 0 {
						for ; gap > 0; gap-- {
							void[next] = true
							next++
						}
					}
					n := rapid.Uint64Range(1, 3).Draw(t, "events")
					v := filter.Decision(rapid.IntRange(1, 4).Draw(t, "decision"))
					d.add(next, n, v)
					for ; n > 0; n-- {
						want[next] = v
						next++
					}
				}
			},
			"tell": send,
			"hear": func(t *rapid.T) {
				if len(wire) == 0 {
					t.Skip("nothing is told")
				}
				receive(t)
			},
			"": func(t *rapid.T) {
				if d.spanCount > maxQueuedSpans || d.messagesSent-d.messagesAcked > maxUnacked || len(wire) > maxUnacked {
					t.Fatalf("%d spans wait, %d messages", d.spanCount, d.messagesSent-d.messagesAcked)
				}
			},
		})
		for !d.idle() {
			if send(t); len(wire) > 0 {
				receive(t)
			}
		}
		s, delivered := r.Stats(), uint64(0)
		for _, n := range s.Decided {
			delivered += n
		}
		if d.stats.Delivered != delivered || d.stats.Omitted != s.Omitted || d.stats.Undelivered != 0 || begun &&
			nextEvent != next {
			t.Fatalf("%+v were told, %+v heard", d.stats, s)
		}
		if d.stats.Omitted == 0 && delivered != uint64(len(want)) {
			t.Fatalf("%d decisions of %d were heard", delivered, len(want))
		}
	})
}

// A reader that hears nothing costs what is bounded, and then hears that something was left out.
func TestReaderIsStuck(t *testing.T) {
	d := newDeliveryQueue(1)
	const events = 3 * (maxQueuedSpans + maxUnacked*maxSpans)
	var wire [][]byte
	for e := range uint64(events) {
		d.add(e, 1, filter.Decision(1+e%2))
		if m := d.nextMessage(nil); m != nil {
			wire = append(wire, m)
		}
	}
	if len(wire) != maxUnacked || d.stats.Omitted == 0 || d.stats.Undelivered+d.stats.Omitted != events {
		t.Fatalf("%d messages, %+v", len(wire), d.stats)
	}
	var r Reader
	r.Open(1)
	for len(wire) > 0 {
		answer, ok, err := r.Receive(wire[0], func(uint64, Span) {})
		must.OK(t, err)
		if wire = wire[1:]; !ok || !d.ack(answer.Number) {
			t.Fatal("it was told")
		}
		if m := d.nextMessage(nil); m != nil {
			wire = append(wire, m)
		}
	}
	if s := r.Stats(); s.Omitted != d.stats.Omitted || s.Omitted+d.stats.Delivered != events || !d.idle() {
		t.Errorf("%+v heard, %+v told", s, d.stats)
	}
	if d.ack(d.messagesSent + 1) {
		t.Error("it has heard more than it was told")
	}
}

// What is of a decision unit that is gone, or does not follow, has no effect.
func TestReaderIsCareful(t *testing.T) {
	message := func(epoch uint8, first uint64) []byte {
		return (&DecisionMessage{Epoch: epoch, FirstEvent: first, Spans: []Span{{10, filter.Rejected}}}).Append(nil)
	}
	var r Reader
	take := func(b []byte) (bool, error) {
		_, ok, err := r.Receive(b, func(uint64, Span) {})
		return ok, err
	}
	is := func(b []byte, want, wrong bool) {
		t.Helper()
		if ok, err := take(b); ok != want || wrong != errors.Is(err, ErrMessage) {
			t.Errorf("% x: %v, %v", b, ok, err)
		}
	}
	is(message(1, 0), false, false) // there is none
	r.Open(1)
	is(message(1, 100), true, false)
	is(message(2, 110), false, false) // of another
	is(message(1, 120), false, true)  // does not follow
	is(message(1, 110), true, false)
	r.Close()
	is(message(1, 120), false, false)
	r.Open(2)
	is(message(2, 5), true, false) // one that came back begins where it likes
	if s := r.Stats(); s.Decided[filter.Rejected] != 30 || s.Omitted != 0 {
		t.Errorf("%+v", s)
	}
}

// Nothing is allocated to tell decisions, but for the first message.
func TestPublishingAllocatesNothing(t *testing.T) {
	d := newDeliveryQueue(1)
	var r Reader
	r.Open(1)
	b, e := make([]byte, 0, MessageSize+maxSpans*spanSize), uint64(0)
	if n := testing.AllocsPerRun(1000, func() {
		for range 2 * maxSpans {
			d.add(e, 1, filter.Decision(1+e%2))
			e++
		}
		for m := d.nextMessage(b); m != nil; m = d.nextMessage(b) {
			answer, _, _ := r.Receive(m, func(uint64, Span) {})
			d.ack(answer.Number)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
