package core

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

var takeovers = flag.Int("takeovers", 0, "takeovers in TestSimulatedTakeovers; 0: 300, or 20,000 without -short")

// bringBack starts the process of a lost node anew, which joins the run.
func (c *cluster) bringBack(i int) {
	for j, n := range c.nodes { // others let it in when they have finished with the former process
		if n.alive && j != i && (n.lacksBelow[i] != NoMEP || len(n.known.Withdrawals) < len(c.core.alloc.withdrawals)) {
			return
		}
	}
	for _, op := range []tagnetv1.ControlRequest_Operation{tagnetv1.ControlRequest_OPERATION_INCLUDE_RU,
		tagnetv1.ControlRequest_OPERATION_READMIT_BU} {
		if c.core.Step(c.tick(), Command{Operation: op, Unit: i}).Err != nil {
			return
		}
	}
	c.wire = slices.DeleteFunc(c.wire, func(w clusterWrite) bool { return w.ru == i || int(w.BU) == i })
	c.nodes[i] = c.newProcess()
	c.nodes[i].first = NoMEP // until it hears from which MEP on it takes part
	if !c.attach(Unit{Readout, i}, nil) || !c.attach(Unit{Builder, i}, nil) {
		c.t.Fatalf("node %d is not let in", i)
	}
	c.count.back++
}

// isOver tells that every MEP has its outcome.
func (c *cluster) isOver() bool { return !c.down && c.core.succession == nil && c.core.alloc.drained() }

// verify holds that each MEP has one outcome, and that the scheduler counts that of its last attempt.
func (c *cluster) verify() {
	r := c.core.alloc.Registers()
	total, events := c.total, c.total
	if c.cfg.Live {
		total, events = c.verifyLive()
	}
	n, want := r.GetCounters(), Unbuilt{}
	for mep := range total {
		if len(c.ended[mep]) == 0 {
			c.t.Fatalf("MEP %d was built by nobody", mep)
		}
		want.add(stateOf(c.last[mep].Outcome), uint64(c.last[mep].Events))
	}
	got := Unbuilt{n.GetDiscarded(), n.GetEventsDiscarded(), n.GetRejected(), n.GetEventsRejected(), n.GetAbandoned(),
		n.GetEventsAbandoned()}
	if n.GetIssued() != total || n.GetEventsIssued() != events || got != want ||
		n.GetBuilt() != total-want.meps() || n.GetEventsBuilt() != events-want.events() {
		c.t.Fatalf("%d MEPs of %d events, of which %+v were not built, and the scheduler counts %v", total, events, want, n)
	}
	if c.cfg.Trigger != "" && n.GetTriggers() < total { // there may be more, which came while nobody knew that number
		c.t.Fatalf("%d events were triggered, and the scheduler counts %d", total, n.GetTriggers())
	}
	var sum uint64
	for j, b := range r.GetBus() {
		sum += b.GetCounters().GetBuilt() + b.GetCounters().GetDiscarded() + b.GetCounters().GetRejected()
		if _, t := c.nodes[j].outcomes.Outcomes(); c.nodes[j].alive && b.GetCounters().GetBuilt() < t.Built {
			c.t.Fatalf("bu%d built %d MEPs, and the scheduler counts %d", j, t.Built, b.GetCounters().GetBuilt())
		}
	}
	if sum != total {
		c.t.Fatalf("builder units have outcomes of %d of %d MEPs", sum, total)
	}
}

// addTrigger adds the trigger of an event.
func (c *cluster) addTrigger(add func(do func(), format string, args ...any)) {
	if c.down || c.cfg.Trigger == "" {
		return
	}
	t := &c.core.alloc.triggers
	taken := t.below + t.early.Count
	if c.core.succession != nil {
		for _, n := range c.nodes {
			taken = max(taken, n.known.Triggers.Taken+t.early.Count)
		}
	}
	if taken < c.total {
		add(func() { c.core.Step(c.tick(), Triggered{Count: 1}); c.takeReady() }, "event %d is triggered", taken)
	}
}

// checkTriggers holds that no trigger is lost of which a readout unit knows.
func (c *cluster) checkTriggers(n *clusterNode) {
	if taken := n.known.Triggers.Taken; c.core.alloc.triggers.below < taken {
		c.t.Fatalf("a successor knows of %d triggers, and a readout unit was told of %d", c.core.alloc.triggers.below, taken)
	}
}

// key is the state, for the search.
func (c *cluster) key() string {
	var b strings.Builder
	fmt.Fprint(&b, c.down, c.home, c.wire, len(c.pending))
	for _, n := range c.nodes {
		tokens, _ := n.log.Tokens()
		fmt.Fprint(&b, n.alive, n.attachedRU, n.attachedBU, n.lacksBelow, n.read, n.toWrite, n.slots, n.unsent, n.entries,
			n.confirmTo, n.known.NextCycle, n.known.Released, len(n.known.Absences), len(n.known.Withdrawals), tokens,
			len(n.absences), len(n.fromScheduler), len(n.fromSchedulerToBU), n.arrived, n.flush, n.overdue, n.cuts.Next())
	}
	a := c.core.alloc
	fmt.Fprint(&b, a.nextMEP, a.released, a.nextCycle, a.records[:8], a.reissue.list(), c.core.succession == nil)
	for j := range a.bus {
		fmt.Fprint(&b, a.bus[j].freeSlots.list(), a.bus[j].excluded, a.bus[j].unconfirmed)
	}
	return b.String()
}

// TestSimulatedTakeovers loses schedulers, nodes and messages at random, and brings nodes back: no MEP has two
// outcomes, and none has none.
func TestSimulatedTakeovers(t *testing.T) {
	want := *takeovers
	if want == 0 {
		want = 20_000
		if testing.Short() {
			want = 300
		}
	}
	var sum struct{ takeovers, late, orphans, killed, back int }
	for seed := uint64(1); sum.takeovers < want; seed++ {
		n := simulateTakeovers(t, seed)
		sum.takeovers, sum.late, sum.orphans = sum.takeovers+n.takeovers, sum.late+n.late, sum.orphans+n.orphans
		sum.killed, sum.back = sum.killed+n.killed, sum.back+n.back
	}
	if sum.orphans == 0 || sum.late == 0 || sum.back == 0 {
		t.Errorf("the simulation misses cases: %+v", sum)
	}
	t.Logf("%+v", sum)
}

func simulateTakeovers(t *testing.T, seed uint64) (count struct{ takeovers, late, orphans, killed, back int }) {
	rng := rand.New(rand.NewPCG(seed, 42))
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	nodes := 2 + rng.IntN(4)
	cfg := Config{RUs: names("n", nodes), BUs: names("n", nodes), Slots: 1 + rng.IntN(3), Packing: 1,
		MaxAttempts: MaxAttempt, NoSlotPolicy: Policy(rng.IntN(2)), Loose: rng.IntN(2) == 0}
	if rng.IntN(3) == 0 {
		cfg.Live, cfg.Packing, cfg.CompleteEventsOnly = true, 1+rng.IntN(4), rng.IntN(4) == 0
		if rng.IntN(4) == 0 {
			cfg.MaxEvents = 20 + rng.Uint64N(80)
		}
	}
	if !cfg.Live && rng.IntN(4) == 0 {
		cfg.Trigger = "hand"
	}
	if rng.IntN(2) == 0 { // else no builder unit drops an outcome
		cfg.Window = nodes * (2 + rng.IntN(4))
	}
	c := newCluster(t, nodes, cfg, 40+rng.Uint64N(80), rng.IntN(4) > 0)
	c.drops = rng.IntN(3) == 0
	for n := 0; !c.isOver(); n++ {
		if n > 200_000 {
			t.Fatalf("seed %d: nothing comes to an end: %s\n%+v", seed, c.key(), c.core.alloc.Registers())
		}
		c.disturb(rng)
		steps := c.steps()
		if len(steps) == 0 {
			t.Fatalf("seed %d: nothing more can happen: %s\n%+v", seed, c.key(), c.core.alloc.Registers())
		}
		steps[rng.IntN(len(steps))].do()
	}
	c.verify()
	return c.count
}

// disturb loses something now and then, or brings a node back.
func (c *cluster) disturb(rng *rand.Rand) {
	var living, gone []int
	for i, n := range c.nodes {
		if n.alive {
			living = append(living, i)
		} else if n.lost {
			gone = append(gone, i)
		}
	}
	switch rng.IntN(60) {
	case 0: // a node
		if i := living[rng.IntN(len(living))]; c.canLose(i) {
			c.kill(i)
		}
	case 1: // the scheduler alone, if it is on no node; or its node
		switch {
		case c.down:
		case c.home < 0:
			c.loseScheduler()
		case c.canLose(c.home):
			c.kill(c.home)
		}
	case 2, 3:
		if len(gone) > 0 && !c.down && c.core.succession == nil {
			c.bringBack(gone[rng.IntN(len(gone))])
		}
	case 4: // a unit that does not recall in time
		if !c.down && c.core.succession != nil && len(living) > 1 && rng.IntN(4) == 0 {
			c.recallOver()
		}
	}
	if c.down {
		for _, n := range c.nodes {
			n.forget(rng.IntN(6), rng.IntN(6))
		}
	}
}

// canLose tells that another readout unit has its parts of all MEPs that have no outcome: what is in no memory any more
// cannot be built.
func (c *cluster) canLose(i int) bool {
	for j, n := range c.nodes {
		if j != i && n.alive && n.hasAllParts() {
			return true
		}
	}
	return false
}

func (n *clusterNode) hasAllParts() bool {
	lowest := n.known.Released
	if len(n.known.HeldUp) > 0 {
		lowest = n.known.HeldUp[0]
	}
	return n.first <= lowest
}

// recallOver is the end of the successor's wait. Nodes whose units are both not there are lost.
func (c *cluster) recallOver() {
	there := 0
	for i := range c.nodes {
		if c.isPending(Unit{Readout, i}) && c.isPending(Unit{Builder, i}) && c.nodes[i].hasAllParts() {
			there++
		}
	}
	if there == 0 || !c.isPending(Unit{Readout, c.home}) || !c.isPending(Unit{Builder, c.home}) {
		return
	}
	for i, n := range c.nodes {
		if n.alive && !(c.isPending(Unit{Readout, i}) && c.isPending(Unit{Builder, i})) {
			c.kill(i)
			n.lost = true
		}
	}
	c.core.Step(c.tick(), RecallOver{})
	c.takeReady()
}

// TestEveryInterleavingOfATakeover walks through all orders in which two folded nodes can read, write and build two
// MEPs, hear and lose what the scheduler has sent, and go on with its successor when it is lost, with or without a
// node: nothing is ever stuck, and every MEP is built and has one outcome.
func TestEveryInterleavingOfATakeover(t *testing.T) {
	for _, withNode := range []bool{false, true} {
		if !withNode && testing.Short() {
			continue // three times as many states, of which fewer lose anything
		}
		t.Run(fmt.Sprintf("node lost=%v", withNode), func(t *testing.T) {
			seen, ends := map[string]bool{}, 0
			todo := [][]int{nil}
			for len(todo) > 0 {
				path := todo[len(todo)-1]
				todo = todo[:len(todo)-1]
				c := replay(t, withNode, path)
				key := c.key()
				if seen[key] {
					continue
				}
				seen[key] = true
				n := len(c.walk(withNode))
				if n == 0 || c.isOver() {
					if ends++; !c.isOver() {
						t.Fatalf("nothing more can happen: %s: %+v", key, c.core.alloc.Registers())
					}
					c.verify()
				}
				for next := range n {
					todo = append(todo, append(slices.Clone(path), next))
				}
			}
			t.Logf("%d states, %d ends", len(seen), ends)
		})
	}
}

// replay is a small cluster after the steps with those numbers.
func replay(t *testing.T, withNode bool, path []int) *cluster {
	total := uint64(2)
	if testing.Short() {
		total = 1
	}
	c := newCluster(t, 2, Config{RUs: names("n", 2), BUs: names("n", 2), Slots: 1, Packing: 1}, total, withNode)
	for _, n := range path {
		c.walk(withNode)[n].do()
	}
	return c
}

// walk is all that can happen next: the steps, and once the loss of the scheduler.
func (c *cluster) walk(withNode bool) []clusterStep {
	all := c.steps()
	if c.term > 1 || c.down || c.isOver() {
		return all
	}
	for drops := range 4 { // what it had sent to a readout unit is lost, or not
		all = append(all, clusterStep{"the scheduler is lost", func() {
			if withNode {
				c.kill(0)
			} else {
				c.loseScheduler()
			}
			for i, n := range c.nodes {
				if drops>>i&1 == 1 {
					n.forget(0, 0)
				}
			}
		}})
	}
	return all
}

// kill ends the process of a node.
func (c *cluster) kill(i int) {
	n := c.nodes[i]
	n.alive, n.attachedRU, n.attachedBU = false, false, false
	n.fromScheduler, n.fromSchedulerToBU = nil, nil
	c.count.killed++
	for s, u := range c.pending {
		if u.Index == i {
			delete(c.pending, s)
			c.core.Step(c.tick(), Detached{Unit: u, Stream: s, Err: errTest})
		}
	}
	if i == c.home {
		c.loseScheduler()
	}
}

var errTest = errors.New("its stream broke")

func (c *cluster) exclude(i int) {
	for _, op := range []tagnetv1.ControlRequest_Operation{tagnetv1.ControlRequest_OPERATION_EXCLUDE_RU,
		tagnetv1.ControlRequest_OPERATION_LOSE_BU} {
		must(c.t, c.core.Step(c.tick(), Command{Operation: op, Unit: i}).Err)
	}
	c.nodes[i].lost = true
	c.takeReady()
}

// loseScheduler ends the scheduler. Units still hear some of what it had sent to them.
func (c *cluster) loseScheduler() {
	c.down, c.home = true, -1
	clear(c.pending)
	for _, n := range c.nodes {
		n.attachedRU, n.attachedBU = false, false
	}
}

// forget drops all but the first of what a unit was sent and has not heard.
func (n *clusterNode) forget(ru, bu int) {
	n.fromScheduler = n.fromScheduler[:min(ru, len(n.fromScheduler))]
	n.fromSchedulerToBU = n.fromSchedulerToBU[:min(bu, len(n.fromSchedulerToBU))]
}

// beginSuccessor makes a scheduler on the first living node.
func (c *cluster) beginSuccessor() {
	var living []Unit
	for i, n := range c.nodes {
		if n.alive && n.first == NoMEP { // it was not answered, so it has not begun
			c.kill(i)
		}
		if n.alive {
			if c.home < 0 {
				c.home = i
			}
			living = append(living, Unit{Readout, i}, Unit{Builder, i})
		}
		n.lost = !n.alive
	}
	c.count.takeovers++
	c.makeCore(living)
}
