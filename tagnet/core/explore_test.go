package core

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
)

// TestEveryInterleaving walks through all orders in which 2 readout units can read 4 MEPs, 3 builder units with 2 slots
// in 2 groups can build them, one of them can be lost and come back, and the scheduler can look: under each set of
// rules no group ever has two running events, no slot two MEPs, every MEP gets one outcome, and nothing is ever stuck.
func TestEveryInterleaving(t *testing.T) {
	for _, loose := range []bool{false, true} {
		for _, empty := range []Policy{Wait, Skip} {
			for _, busy := range []Policy{Wait, Skip} {
				for next := RoundRobin; next <= ByDemand; next++ {
					cfg := Config{
						RUs:          names("ru", 2),
						BUs:          names("bu", 3),
						Slots:        2,
						Packing:      1,
						Window:       4,
						NoSlotPolicy: empty,
						Loose:        loose,
						Rules:        Rules{Groups: [][]int{{0, 1}, {2}}, BusyGroupPolicy: busy, TurnOrder: next},
					}
					if next == ByRatio {
						cfg.Rules.Ratio = []int{2, 1, 1}
					}
					name := fmt.Sprintf("loose=%v/empty=%v/busy=%v/%v", loose, empty, busy, next)
					t.Run(name, func(t *testing.T) { explore(t, cfg) })
					cfg.Rules.TurnSets = cfg.Rules.Groups
					t.Run(name+"/partitions", func(t *testing.T) { explore(t, cfg) })
				}
			}
		}
	}
}

// explorable is a core on its way, with what has been done to it.
type explorable struct {
	*Allocator
	lost int // 0 all are there, 1 bu1 is lost, 2 it has come back
}

func explore(t *testing.T, cfg Config) {
	core := newAllocator(t, cfg)
	core.Start()
	todo := []explorable{{Allocator: core}}
	seen := map[string]bool{todo[0].key(): true}
	ends := 0
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		nexts := at.steps(t)
		if len(nexts) == 0 {
			ends++
			if c := at.counters; at.State() != Drained || c.Built != meps || c.Issued != meps || at.released != meps {
				t.Fatalf("nothing more can happen in %s: %+v", at.key(), at.Registers())
			}
		}
		for _, n := range nexts {
			n.verify(t)
			if k := n.key(); !seen[k] {
				seen[k] = true
				todo = append(todo, n)
			}
		}
	}
	if ends == 0 {
		t.Fatal("no way leads to an end")
	}
	t.Logf("%d states, %d ends", len(seen), ends)
}

const meps = 4 // of the explored run

// steps is every state that one thing happening can lead to.
func (e explorable) steps(t *testing.T) (out []explorable) {
	do := func(what func(*explorable)) {
		n := e.clone()
		what(&n)
		out = append(out, n)
	}
	for ru := range e.rus {
		if read := e.rus[ru].ReadBelow; read < meps {
			do(func(n *explorable) {
				must(t, n.ApplyUpdate(ru, Update{ReadBelow: read + 1, Events: read + 1, InputEnded: read+1 == meps}))
			})
		}
	}
	e.forEachUnfinished(func(k uint64, r *mepRecord) {
		if r.state == recordInFlight {
			do(func(n *explorable) {
				must(t, n.ApplyFeedback(int(r.bu), Feedback{
					MEP:     k,
					Slot:    r.slot,
					Attempt: r.attempt,
					Events:  1,
					Outcome: Built,
				}))
			})
		}
	})
	switch {
	case e.State() == Drained:
	case e.lost == 0:
		do(func(n *explorable) { n.lost = 1; _, err := n.ExcludeBU(1, false); must(t, err) })
	case e.lost == 1:
		do(func(n *explorable) { n.lost = 2; must(t, n.IncludeBU(1)) })
	}
	if e.waitsForBuilders() {
		do(func(n *explorable) { n.passOver() })
	}
	n := e.clone()
	var batch Batch
	batch.Reset(n.NextCycle(), n.PlacesPerCycle())
	if n.Issue(&batch) > 0 {
		out = append(out, n)
	} else if n.InFlight() == n.reissue.len() && n.newMEPs()+uint64(n.reissue.len()) > 0 && n.activeBUs > 0 {
		t.Fatalf("nothing runs, and nothing is issued: %s: %+v", n.key(), n.Registers())
	}
	return out
}

// verify holds what must be true in every state.
func (e explorable) verify(t *testing.T) {
	running, slots := map[uint16]int{}, map[[2]uint32]bool{}
	e.forEachUnfinished(func(_ uint64, r *mepRecord) {
		if r.state != recordInFlight {
			return
		}
		if running[e.groups.groupOf[r.bu]]++; running[e.groups.groupOf[r.bu]] > 1 {
			t.Fatalf("two running events in one group: %s", e.key())
		}
		if at := [2]uint32{uint32(r.bu), r.slot}; slots[at] {
			t.Fatalf("two MEPs in one slot: %s", e.key())
		} else {
			slots[at] = true
		}
	})
	for j := range e.bus {
		b := &e.bus[j]
		if used := b.usedSlots.Now; !b.excluded && uint64(b.freeSlots.len())+used != uint64(e.cfg.creditPerBU()) {
			t.Fatalf("bu%d has %d slots free and %d used: %s", j, b.freeSlots.len(), used, e.key())
		}
	}
	if c := e.counters; c.Issued != c.Built+uint64(e.InFlight()) || c.Abandoned > 0 {
		t.Fatalf("MEPs do not add up: %+v", c)
	}
}

// key is the state without what only counts.
func (e explorable) key() string {
	records := make([]mepRecord, 0, meps)
	for k := e.released; k < e.nextMEP; k++ {
		r := e.records[k&e.recordMask]
		if r.attempt = 0; r.cycle != noCycle {
			r.cycle = e.openTokens[r.cycle]
		}
		records = append(records, r)
	}
	var free []any
	for j := range e.bus {
		free = append(free, e.bus[j].freeSlots.list(), e.bus[j].excluded, e.bus[j].leftBehind)
	}
	return fmt.Sprint(e.lost, e.rus, e.released, e.nextMEP, records, e.heldUp.meps, e.heldUp.records, e.reissue.list(),
		free, e.chooser.nextTurn, len(e.freeCycles), e.waitsForBuilders())
}

func (q *queue) list() (out []uint64) {
	for i := q.head; i < q.tail; i++ {
		out = append(out, q.entries[i&uint64(len(q.entries)-1)])
	}
	return out
}

// clone is a copy that shares nothing that changes.
func (e explorable) clone() explorable {
	c := *e.Allocator
	c.records, c.openTokens, c.freeCycles = slices.Clone(c.records), slices.Clone(c.openTokens), slices.Clone(c.freeCycles)
	c.rus, c.bus = slices.Clone(c.rus), slices.Clone(c.bus)
	c.reissue.entries = slices.Clone(c.reissue.entries)
	c.heldUp.meps, c.heldUp.records = slices.Clone(c.heldUp.meps), slices.Clone(c.heldUp.records)
	c.heldUp.events = slices.Clone(c.heldUp.events)
	for j := range c.bus {
		c.bus[j].freeSlots.entries = slices.Clone(c.bus[j].freeSlots.entries)
		c.bus[j].usedSlots.Depth = c.bus[j].usedSlots.message()
	}
	for _, d := range []*depth{&c.depths.ready, &c.depths.cycles, &c.depths.window, &c.depths.reissue} {
		d.Depth = d.message()
	}
	c.groups.registers = slices.Clone(c.groups.registers)
	for i, g := range c.groups.registers {
		c.groups.registers[i] = proto.CloneOf(g)
	}
	c.counters = proto.CloneOf(c.counters)
	ch := newChooser(&c.cfg, c.bus, &c.groups)
	copy(ch.nextTurn, e.chooser.nextTurn)
	c.chooser = ch
	return explorable{Allocator: &c, lost: e.lost}
}
