package tagnet

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ringlet/tagnet/core"
)

// TestOutbox cuts the line between an outbox and its other end at any moment: everything arrives once and in order,
// whatever was lost.
func TestOutbox(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var box outbox[int]
		type message struct {
			first uint64
			items []int
		}
		var wire []message
		var acks []uint64
		var got []int
		total := 0
		deliver := func(t *rapid.T) {
			if len(wire) == 0 {
				return
			}
			m := wire[0]
			wire = wire[1:]
			before, ok := core.CountRepeated(uint64(len(got)), m.first, len(m.items))
			if !ok {
				t.Fatalf("entry %d came after %d entries", m.first, len(got))
			}
			got = append(got, m.items[before:]...)
			acks = append(acks, uint64(len(got)))
		}
		acknowledge := func(t *rapid.T) {
			if len(acks) > 0 && !box.ack(acks[0]) {
				t.Fatalf("an acknowledgement of %d was refused: %+v", acks[0], box)
			}
			acks = acks[min(1, len(acks)):]
		}
		send := func(t *rapid.T) {
			first, items := box.claim(nil, rapid.IntRange(1, 4).Draw(t, "limit"))
			if len(items) > 0 {
				wire = append(wire, message{first, items})
			}
		}
		cut := func(answered bool) {
			wire, acks = nil, nil
			box.rewind()
			if answered { // who resumes is told at once what has come
				acks = []uint64{uint64(len(got))}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"give": func(*rapid.T) { box.push(total); total++ }, "send": send, "deliver": deliver, "acknowledge": acknowledge,
			"cut": func(t *rapid.T) { cut(rapid.Bool().Draw(t, "answered")) },
			"": func(t *rapid.T) {
				if box.total() != uint64(total) || box.acked > uint64(len(got)) || box.unsent() > total-len(got) {
					t.Fatalf("%d given, %d arrived: %+v", total, len(got), box)
				}
				if len(box.items) > 2*int(box.total()-box.acked)+1 {
					t.Fatalf("%d of %d entries kept", len(box.items), box.total()-box.acked)
				}
			},
		})
		for box.acked < uint64(total) {
			send(t)
			deliver(t)
			acknowledge(t)
		}
		if len(got) != total || !slices.IsSorted(got) || len(box.items) != box.head {
			t.Fatalf("%d given, and %v arrived", total, got)
		}
		if box.ack(uint64(total)+1) || total > 0 && box.ack(0) {
			t.Fatal("an acknowledgement that cannot be was taken")
		}
	})
}
