package decision

import (
	"bytes"
	"errors"
	"testing"

	"ringlet/shmem"
	"ringlet/testkit/golden"
)

func someMessages() []Message {
	return []Message{
		{Kind: KindOpen, Epoch: 7, Ref: shmem.Ref{Window: 42, Gen: 5}, RingCapacity: 16384},
		{Kind: KindOpen, Epoch: 7},
		{Kind: KindCredit, Epoch: 7, Number: 4096},
		{Kind: KindTriggered, Epoch: 7, Number: 1000000},
		{Kind: KindRequestOpen},
		{Kind: KindEnd, Epoch: 7, Number: 1025},
		{Kind: KindDecisions, Epoch: 7, Number: 4000},
		{Kind: KindAck, Epoch: 7, Number: 3},
	}
}

func TestGoldenMessages(t *testing.T) {
	want := golden.Hex(t, "messages")
	for i, m := range someMessages() {
		by := want[i*MessageSize : (i+1)*MessageSize]
		if got := m.Append(nil); !bytes.Equal(got, by) {
			t.Errorf("%+v is % x, and by hand % x", m, got, by)
		}
		var back Message
		if err := back.Parse(by); err != nil || back != m {
			t.Errorf("% x is read as %+v, %v", by, back, err)
		}
	}
}

func TestBadMessages(t *testing.T) {
	for i, m := range someMessages() {
		good := m.Append(nil)
		for _, bad := range [][]byte{
			good[:15], append(bytes.Clone(good), 0), change(good, 0, 2), change(good, 1, 9), change(good, 3, 1),
		} {
			var back Message
			if err := back.Parse(bad); !errors.Is(err, ErrMessage) {
				t.Errorf("message %d as % x: %v", i, bad, err)
			}
		}
	}
	for _, bad := range [][]byte{
		change(someMessages0(0), 15, 0xff), // more places than there can be
		change(someMessages0(1), 12, 1),    // places, and no window
		change(someMessages0(2), 4, 1),     // reserved
	} {
		var m Message
		if err := m.Parse(bad); !errors.Is(err, ErrMessage) {
			t.Errorf("% x: %v", bad, err)
		}
	}
}

func someMessages0(i int) []byte { return someMessages()[i].Append(nil) }

func change(b []byte, at int, to byte) []byte {
	b = bytes.Clone(b)
	b[at] = to
	return b
}

func FuzzMessage(f *testing.F) {
	for _, m := range someMessages() {
		f.Add(m.Append(nil))
	}
	box := newOutbox(0)
	f.Fuzz(func(t *testing.T, b []byte) {
		var m Message
		if m.Parse(b) != nil {
			return
		}
		if back := m.Append(nil); !bytes.Equal(b, back) {
			t.Errorf("% x is read as %+v and written as % x", b, m, back)
		}
		if m.RingCapacity < 1<<10 && box.openRing(m) == nil { // an outbox bears whatever can be read
			box.nextWrite()
		}
		_ = box.applyCredit(m)
	})
}
