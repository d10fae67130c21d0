package decision

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ringlet/filter"
	"ringlet/shmem"
)

func open(epoch uint8, places int) Message {
	return Message{Kind: KindOpen, Epoch: epoch, Ref: shmem.Ref{Window: 1, Gen: 1}, RingCapacity: uint32(places)}
}

// Whatever the order of outcomes and credits: what was added comes out once, in order, and no place is written again
// before it was read and its write has its outcome; whatever happens to the decision unit, each result is accounted
// for.
func TestOutbox(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		places := rapid.IntRange(1, 50).Draw(t, "places")
		box := newOutbox(3)
		var added, came uint64 // events
		var written, read uint64
		epoch := uint8(0)
		type under struct {
			w      Write
			copied []byte
		}
		var inFlight []under
		unread := map[int]bool{} // places
		var order []int
		shut := func() {
			box.closeRing()
			inFlight, unread, order, written, read = nil, map[int]bool{}, nil, 0, 0
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				n := rapid.IntRange(1, 30).Draw(t, "n")
				if !box.addVerdict(added, n, filter.Verdict{Decision: filter.Accepted, Score: 5}, time.Microsecond) {
					t.Skip("full")
				}
				added += uint64(n)
			},
			"open": func(t *rapid.T) {
				epoch++
				shut()
				if err := box.openRing(open(epoch, places)); err != nil {
					t.Fatal(err)
				}
			},
			"shut": func(*rapid.T) { shut() },
			"next": func(t *rapid.T) {
				w, ok := box.nextWrite()
				if !ok {
					return
				}
				if len(w.Data) == 0 || len(inFlight) == maxWrites {
					t.Fatal("a write of nothing, or one too many")
				}
				for at := 0; at < len(w.Data); at += ResultSize {
					var r Result
					if err := r.Parse(w.Data[at : at+ResultSize]); err != nil || r.Event != came || r.Builder != 3 ||
						r.Epoch != epoch {
						t.Fatal(&r, err, came)
					}
					came++
					place := int(w.Offset)/ResultSize + at/ResultSize
					if unread[place] || place >= places {
						t.Fatalf("place %d is written again, or is none", place)
					}
					unread[place] = true
					order = append(order, place)
				}
				written += uint64(len(w.Data) / ResultSize)
				inFlight = append(inFlight, under{w, append([]byte(nil), w.Data...)})
			},
			"completed": func(t *rapid.T) {
				if len(inFlight) == 0 {
					return
				}
				i := rapid.IntRange(0, len(inFlight)-1).Draw(t, "which")
				u := inFlight[i]
				if string(u.copied) != string(u.w.Data) {
					t.Fatal("data changed under way")
				}
				box.writeCompleted(u.w.Cookie, nil)
				box.writeCompleted(u.w.Cookie, nil) // again means nothing
				inFlight = append(inFlight[:i], inFlight[i+1:]...)
			},
			"credit": func(t *rapid.T) {
				if written == read {
					return
				}
				n := rapid.Uint64Range(0, written-read).Draw(t, "n")
				for range n {
					delete(unread, order[0])
					order = order[1:]
				}
				read += n
				m := Message{Kind: KindCredit, Epoch: epoch, Number: read}
				if err := box.applyCredit(m); err != nil {
					t.Fatal(err)
				}
				if m.Number = written + 1; box.applyCredit(m) == nil {
					t.Fatal("credit for what was never written")
				}
			},
			"": func(t *rapid.T) {
				s := box.snapshot()
				if s.Judged != added || s.Judged != s.Sent+s.Unacked+s.Dropped+s.Unsent {
					t.Fatalf("%+v", s)
				}
			},
		})
		if n := box.close(); n != written || box.snapshot().AbandonedWrites != uint64(len(inFlight)) {
			t.Fatalf("%d results were written, and %d writes are under way: %d, %+v", written, len(inFlight), n, box.snapshot())
		}
		if s := box.snapshot(); s.Unsent != 0 || !box.idle() || s.Judged != s.Sent+s.Unacked+s.Dropped {
			t.Fatalf("%+v", s)
		}
	})
}

func TestOutboxRefuses(t *testing.T) {
	box := newOutbox(0)
	for _, m := range []Message{{}, {Kind: KindCredit}, {Kind: KindOpen},
		{Kind: KindOpen, RingCapacity: maxRingCapacity + 1}} {
		if err := box.openRing(m); !errors.Is(err, ErrMessage) {
			t.Errorf("%+v: %v", m, err)
		}
	}
	if err := box.applyCredit(open(0, 1)); !errors.Is(err, ErrMessage) {
		t.Error(err)
	}
	v := filter.Verdict{Decision: filter.Accepted}
	for i := range maxRuns {
		if !box.addVerdict(uint64(i), 1, v, 0) {
			t.Fatal(i)
		}
	}
	if box.addVerdict(0, 3, v, 0) || box.snapshot().Dropped != 3 {
		t.Error("more than too many wait")
	}
}

func TestOutboxAllocations(t *testing.T) {
	box := newOutbox(0)
	if err := box.openRing(open(1, 1024)); err != nil {
		t.Fatal(err)
	}
	e := uint64(0)
	if n := testing.AllocsPerRun(1000, func() {
		box.addVerdict(e, 100, filter.Verdict{Decision: filter.Accepted}, 0)
		for w, ok := box.nextWrite(); ok; w, ok = box.nextWrite() {
			box.writeCompleted(w.Cookie, nil)
		}
		e += 100
		if err := box.applyCredit(Message{Kind: KindCredit, Epoch: 1, Number: e}); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Error(n)
	}
	if box.snapshot().Sent != e {
		t.Error(box.snapshot(), e)
	}
}
