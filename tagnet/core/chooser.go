package core

import tagnetv1 "ringlet/proto/ringlet/tagnet/v1"

// The choice of builder units for a cycle by Rules. It is sequential, owned by the Core's goroutine, and allocates
// nothing once warm:
//
//  1. drawCycle tries out the next cycle: it calls choose until no builder unit can be chosen or one is chosen twice.
//     choose takes the turn set whose turn it is. It passes over turn sets in which no builder unit can take a MEP, and
//     over the turn set that had the last MEP while another one is active. In the turn set, pickInTurnSet takes the
//     group and the builder unit: by turns, by ratio or by demand.
//  2. plan compares the draw with the MEPs there are, and Issue issues all of the cycle, its first n places, or none.
//  3. commitPicks makes the first n picks final: the turns advance, and the lost turns are counted.
//
// A draw that is not committed has changed nothing, so it does not matter how often Issue looks.

// A chooser takes turns over turn sets, groups and builder units. It reads the states of the builder units and groups
// of its Allocator.
type chooser struct {
	// Immutable after newChooser, but for turnsBySet under ByRatio, which rebuildTurns lays out anew.

	turnOrder                     TurnOrder
	noSlotPolicy, busyGroupPolicy Policy // towards a builder unit without a free slot, and towards a busy group
	ratio                         []int
	turnSetOf                     []uint16
	turnSetCount                  int
	// of each turn set, in the order of their turns: groups, or by ratio builder units
	turnsBySet   [][]uint16
	groupMembers [][]uint16 // of each group
	groupOf      []uint16   // as in groups.groupOf; without groups each builder unit is a group

	bus    []buState
	groups *groups

	// Owned by the Core's goroutine.

	nextTurn []uint32 // whose turn is next: of the turn sets, in each turn set, in each group

	// Scratch of a draw.

	savedTurns      []uint32
	lastDrawOfBU    []uint64 // number of the draw that last picked the builder unit
	lastDrawOfGroup []uint64 // number of the draw that last picked the group
	drawNumber      uint64
	picks           []pick
	lostTurns       []lostTurn
}

// pick is a chosen builder unit, with the turns that hold after it.
type pick struct {
	bu, turnSet, group uint16
	nextTurn           [3]uint32 // next turns: of the turn sets, in the turn set, in the group
	lostTurnCount      int       // turns lost in the draw up to this pick
}

// lostTurn is the turn of a builder unit or group that the chooser passed over.
type lostTurn struct {
	index   uint16 // of the group or the builder unit
	isGroup bool   // the group was busy; otherwise the builder unit had no free slot
}

// drawResult is the result of one choice.
type drawResult uint8

// The results. After the first three the next builder unit, group or turn set gets the turn.
const (
	noActiveBU     drawResult = iota // no active builder unit
	noFreeSlot                       // no candidate has a free slot
	noIdleGroup                      // all candidates are in busy groups
	chosen                           // a builder unit was found
	alreadyInCycle                   // the unit or group whose turn it is has a place already: the cycle is full
	waitsForSlot                     // a builder unit without a free slot has the turn, under Wait
	waitsForGroup                    // a busy group has the turn, under Wait
)

// waitReason is the reason in the registers for a draw that ended so.
func (v drawResult) waitReason() WaitReason {
	if v == noIdleGroup || v == waitsForGroup {
		return WaitForGroup
	}
	return WaitForSlots
}

func newChooser(cfg *Config, bus []buState, g *groups) *chooser {
	r := &cfg.Rules
	n := len(bus)
	c := &chooser{
		turnOrder:       r.TurnOrder,
		noSlotPolicy:    cfg.NoSlotPolicy,
		busyGroupPolicy: r.BusyGroupPolicy,
		ratio:           r.Ratio,
		turnSetCount:    max(1, len(r.TurnSets)),
		bus:             bus,
		groups:          g,
		groupOf:         g.groupOf,
		lastDrawOfBU:    make([]uint64, n),
		picks:           make([]pick, 0, n),
		lostTurns:       make([]lostTurn, 0, n),
	}
	c.turnSetOf, _ = setIndexOf("partition", r.TurnSets, n) // checked with the Config
	for _, list := range r.Groups {
		members := make([]uint16, len(list))
		for i, bu := range list {
			members[i] = uint16(bu)
		}
		c.groupMembers = append(c.groupMembers, members)
	}
	if c.groupOf == nil {
		for bu := range uint16(n) {
			c.groupOf = append(c.groupOf, bu)
			c.groupMembers = append(c.groupMembers, []uint16{bu})
		}
	}
	c.turnsBySet = make([][]uint16, c.turnSetCount)
	for group, members := range c.groupMembers {
		turnSet := c.turnSetOf[members[0]]
		c.turnsBySet[turnSet] = append(c.turnsBySet[turnSet], uint16(group))
	}
	c.lastDrawOfGroup = make([]uint64, len(c.groupMembers))
	c.nextTurn = make([]uint32, 1+c.turnSetCount+len(c.groupMembers))
	c.savedTurns = make([]uint32, len(c.nextTurn))
	c.rebuildTurns()
	return c
}

// rebuildTurns lays out the turns by ratio among the builder units that are not excluded. Other turn orders pass over
// excluded units, so that the remaining units keep their places in the round.
func (c *chooser) rebuildTurns() {
	if c.turnOrder != ByRatio {
		return
	}
	for turnSet := range c.turnsBySet {
		var bus []uint16
		var weights []int
		for bu := range c.bus {
			if int(c.turnSetOf[bu]) == turnSet && !c.bus[bu].excluded {
				bus, weights = append(bus, uint16(bu)), append(weights, c.ratio[bu])
			}
		}
		c.turnsBySet[turnSet], c.nextTurn[1+turnSet] = spreadTurns(bus, weights), 0
	}
}

// drawCycle draws the next cycle, in which each builder unit has one place at most. It returns the number of places and
// why there are no more. The turns are as before: commitPicks advances them.
func (c *chooser) drawCycle() (int, drawResult) {
	copy(c.savedTurns, c.nextTurn)
	c.picks, c.lostTurns = c.picks[:0], c.lostTurns[:0]
	c.drawNumber++
	why := alreadyInCycle
	for len(c.picks) < len(c.bus) {
		p, v := c.choose()
		if v != chosen {
			why = v
			break
		}
		c.advanceTurns(&p)
		c.lastDrawOfBU[p.bu], c.lastDrawOfGroup[p.group] = c.drawNumber, c.drawNumber
		c.picks = append(c.picks, p)
	}
	copy(c.nextTurn, c.savedTurns)
	return len(c.picks), why
}

// commitPicks makes the first n picks of the last draw final, n at least 1.
func (c *chooser) commitPicks(n int, total *Counters) []pick {
	for i := range c.picks[:n] {
		c.advanceTurns(&c.picks[i])
	}
	for _, p := range c.lostTurns[:c.picks[n-1].lostTurnCount] {
		if p.isGroup {
			c.groups.registers[p.index].Skips++
			total.GroupSkips++
			continue
		}
		c.bus[p.index].counters.Skips++
		total.Skips++
	}
	return c.picks[:n]
}

// advanceTurns sets the turns that hold after the pick.
func (c *chooser) advanceTurns(p *pick) {
	set, group := 1+int(p.turnSet), 1+c.turnSetCount+int(p.group)
	c.nextTurn[0], c.nextTurn[set], c.nextTurn[group] = p.nextTurn[0], p.nextTurn[1], p.nextTurn[2]
}

// choose finds the builder unit for one more MEP of the draw. The turn set that had the last MEP comes last, and gets
// the next MEP only if no other turn set has an active builder unit: a node that passes over a column looks for a
// destination in another one, and is granted it "only if it resides in a different column than the last one that was
// used" (TagNet-farm §III.B.2, figure III-6).
func (c *chooser) choose() (p pick, worst drawResult) {
	for turnSet, remaining := int(c.nextTurn[0]), c.turnSetCount; remaining > 0; remaining-- {
		if remaining == 1 && worst > noActiveBU {
			break
		}
		after := turnSet + 1
		if after == c.turnSetCount {
			after = 0
		}
		v := c.pickInTurnSet(turnSet, &p)
		if v >= chosen {
			p.turnSet, p.nextTurn[0], p.lostTurnCount = uint16(turnSet), uint32(after), len(c.lostTurns)
			return p, v
		}
		worst, turnSet = max(worst, v), after
	}
	return p, worst
}

// pickInTurnSet finds the builder unit in a turn set by the turn order.
func (c *chooser) pickInTurnSet(turnSet int, p *pick) drawResult {
	switch c.turnOrder {
	case ByRatio:
		return c.pickByRatio(turnSet, p)
	case ByDemand:
		return c.pickByDemand(turnSet, p)
	}
	return c.pickRoundRobin(turnSet, p)
}

// pickRoundRobin takes turns over the groups of a turn set.
func (c *chooser) pickRoundRobin(turnSet int, p *pick) (worst drawResult) {
	order := c.turnsBySet[turnSet]
	for at, remaining := int(c.nextTurn[1+turnSet]), len(order); remaining > 0; remaining-- {
		group := order[at]
		if at++; at == len(order) {
			at = 0
		}
		v := c.checkGroup(group)
		if v == chosen {
			v = c.pickMember(group, p)
		}
		if v >= chosen {
			p.group, p.nextTurn[1] = group, uint32(at)
			return v
		}
		worst = max(worst, v)
	}
	return worst
}

// checkGroup tells whether the group that has the turn may have an event.
func (c *chooser) checkGroup(group uint16) drawResult {
	switch {
	case c.groups.groupOf == nil:
		return chosen
	case c.lastDrawOfGroup[group] == c.drawNumber:
		return alreadyInCycle
	case !c.groups.isBusy(group):
		return chosen
	case c.busyGroupPolicy == Wait:
		return waitsForGroup
	}
	c.lostTurns = append(c.lostTurns, lostTurn{index: group, isGroup: true})
	return noIdleGroup
}

// pickMember takes turns over the builder units of a group.
func (c *chooser) pickMember(group uint16, p *pick) (worst drawResult) {
	members := c.groupMembers[group]
	for at, remaining := int(c.nextTurn[1+c.turnSetCount+int(group)]), len(members); remaining > 0; remaining-- {
		bu := members[at]
		if at++; at == len(members) {
			at = 0
		}
		v := c.checkSlot(bu)
		if v >= chosen {
			p.bu, p.nextTurn[2] = bu, uint32(at)
			return v
		}
		worst = max(worst, v)
	}
	return worst
}

// checkSlot tells whether the builder unit that has the turn may have an event.
func (c *chooser) checkSlot(bu uint16) drawResult {
	b := &c.bus[bu]
	switch {
	case b.excluded:
		return noActiveBU
	case c.lastDrawOfBU[bu] == c.drawNumber:
		return alreadyInCycle
	case b.freeSlots.len() > 0:
		return chosen
	case c.noSlotPolicy == Wait && !b.leftBehind:
		return waitsForSlot
	}
	c.lostTurns = append(c.lostTurns, lostTurn{index: bu})
	return noFreeSlot
}

// pickByRatio takes turns over the builder units of a turn set, in the order that spreadTurns laid out.
func (c *chooser) pickByRatio(turnSet int, p *pick) (worst drawResult) {
	order := c.turnsBySet[turnSet]
	for at, remaining := int(c.nextTurn[1+turnSet]), len(order); remaining > 0; remaining-- {
		bu := order[at]
		if at++; at == len(order) {
			at = 0
		}
		v := c.checkGroup(c.groupOf[bu])
		if v == chosen {
			v = c.checkSlot(bu)
		}
		if v >= chosen {
			p.bu, p.group, p.nextTurn[1], p.nextTurn[2] = bu, c.groupOf[bu], uint32(at), 0
			return v
		}
		worst = max(worst, v)
	}
	return worst
}

// pickByDemand finds the group of a turn set with the largest share of free slots, and in it the builder unit with the
// most; among equals, the first in turn. If it went by the number of free slots alone, a small group would never be
// chosen.
func (c *chooser) pickByDemand(turnSet int, p *pick) drawResult {
	order, most, ofActive, worst := c.turnsBySet[turnSet], 0, 1, noActiveBU
	for at, remaining := int(c.nextTurn[1+turnSet]), len(order); remaining > 0; remaining-- {
		group := order[at]
		if at++; at == len(order) {
			at = 0
		}
		free, active := c.groupDemand(group)
		switch {
		case active == 0:
		case c.lastDrawOfGroup[group] == c.drawNumber && c.groups.groupOf != nil || c.groups.isBusy(group):
			worst = max(worst, noIdleGroup)
		case free == 0:
			worst = max(worst, noFreeSlot)
		case free*ofActive > most*active:
			most, ofActive, p.group, p.nextTurn[1] = free, active, group, uint32(at)
		}
	}
	if most == 0 {
		return worst
	}
	members, best := c.groupMembers[p.group], 0
	for at, remaining := int(c.nextTurn[1+c.turnSetCount+int(p.group)]), len(members); remaining > 0; remaining-- {
		bu := members[at]
		if at++; at == len(members) {
			at = 0
		}
		if free := c.freeSlots(bu); free > best {
			best, p.bu, p.nextTurn[2] = free, bu, uint32(at)
		}
	}
	if c.lastDrawOfBU[p.bu] == c.drawNumber {
		return alreadyInCycle
	}
	return chosen
}

// groupDemand is how many free slots and how many active builder units a group has.
func (c *chooser) groupDemand(group uint16) (free, active int) {
	for _, bu := range c.groupMembers[group] {
		if !c.bus[bu].excluded {
			active++
		}
		free += c.freeSlots(bu)
	}
	return free, active
}

// freeSlots is how many free slots a builder unit has, without the one that this draw has used.
func (c *chooser) freeSlots(bu uint16) int {
	b := &c.bus[bu]
	if b.excluded {
		return 0
	}
	n := b.freeSlots.len()
	if c.lastDrawOfBU[bu] == c.drawNumber {
		n--
	}
	return n
}

// groups counts the running events of each group. When an event begins and ends to run depends on the view: without a
// tag ring from its token to its outcome or the exclusion of its builder unit, with a tag ring while its tag is under
// way.
type groups struct {
	// Immutable.
	groupOf []uint16 // group of each builder unit; nil: there are no groups

	// Owned by the Core's goroutine.
	registers []*tagnetv1.GroupRegister
}

// beginEvent notes that an event for the builder unit is running.
func (g *groups) beginEvent(bu int) {
	if g.groupOf == nil {
		return
	}
	n := g.registers[g.groupOf[bu]]
	n.Running++
	n.Most = max(n.Most, n.Running)
	n.Tokens++
}

// endEvent notes that an event for the builder unit has ended.
func (g *groups) endEvent(bu int) {
	if g.groupOf != nil {
		g.registers[g.groupOf[bu]].Running--
	}
}

// isBusy tells that a group has a running event, and so may not have another.
func (g *groups) isBusy(group uint16) bool { return g.groupOf != nil && g.registers[group].Running > 0 }
