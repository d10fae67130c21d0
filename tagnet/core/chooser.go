package core

import tagnetv1 "ringlet/proto/ringlet/tagnet/v1"

// The choice of builder units for a cycle, as Rules say. Sequential, owned by the Core's goroutine, no allocation once
// warm:
//
//  1. drawCycle puts together the next cycle on paper: choose after choose until it says no, or a unit would stand
//     twice. 1.1 choose      takes the turn set whose turn it is, passing over those that can take nothing, but never
//     the one that had the last MEP while another is active
//     1.2 pickInTurnSet takes the group and in it the builder unit, by turns, by ratio or by demand
//  2. Core    compares with the MEPs there are (plan) and decides how many of the cycle go: all, the first n, or none.
//  3. commitPicks makes that many of the choices true: positions move on, what was passed over is counted.
//
// A draw that is not committed has changed nothing, so it does not matter how often Issue looks.

// A chooser takes turns over turn sets, groups and builder units. It looks at the builder units and groups of its
// Core.
type chooser struct {
	// Immutable after newChooser, but for the tables by ratio, which rebuildTurns lays out anew.

	turnOrder                     TurnOrder
	noSlotPolicy, busyGroupPolicy Policy // towards a builder unit without free slot, and a group that has its event
	ratio                         []int
	turnSetOf                     []uint16
	turnSetCount                  int
	// of each turn set: groups; builder units by ratio. In the order in which their turns come
	turnsBySet   [][]uint16
	groupMembers [][]uint16 // of each group
	groupOf      []uint16   // as in groups.groupOf; without groups each builder unit is one

	bus    []buState
	groups *groups

	// Owned by the Core's goroutine.

	nextTurn []uint32 // whose turn is next: of the turn sets, of each one's turns, of each group's members

	// Scratch of a draw.

	savedTurns      []uint32
	lastDrawOfBU    []uint64 // number of the draw in which the builder unit was picked last
	lastDrawOfGroup []uint64 // and of the group
	drawNumber      uint64
	picks           []pick
	lostTurns       []lostTurn
}

// pick is a chosen builder unit, and the turns after it.
type pick struct {
	bu, turnSet, group uint16
	nextTurn           [3]uint32 // next turns: turn set, in the turn set, in the group
	lostTurnCount      int       // passes up to this pick
}

// lostTurn is a turn that was lost.
type lostTurn struct {
	index   uint16 // of the group or the builder unit
	isGroup bool   // the group was busy; otherwise the builder unit had no free slot
}

// drawResult is what became of a choice.
type drawResult uint8

// The verdicts. The first three let the next one have the turn.
const (
	noActiveBU     drawResult = iota // no active builder unit
	noFreeSlot                       // all that could be chosen have no free slot
	noIdleGroup                      // all that could be chosen are in busy groups
	chosen                           // here it is
	alreadyInCycle                   // whose turn it is stands in the cycle already: the cycle ends
	waitsForSlot                     // waits for the free slot of a builder unit
	waitsForGroup                    // waits for a group
)

// waitReason is the verdict in the words of the registers.
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

// rebuildTurns lays out the turns by ratio among those that are not excluded. Other turns pass over the excluded, so
// that the others keep their places in the round.
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

// drawCycle chooses the next cycle, in which each builder unit stands at most once. It returns how many there are, and
// why not more.
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

// commitPicks makes the first n choices of the last draw true, n at least 1.
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

// advanceTurns gives the turns to those after the pick.
func (c *chooser) advanceTurns(p *pick) {
	set, group := 1+int(p.turnSet), 1+c.turnSetCount+int(p.group)
	c.nextTurn[0], c.nextTurn[set], c.nextTurn[group] = p.nextTurn[0], p.nextTurn[1], p.nextTurn[2]
}

// choose finds the builder unit for one more MEP of the draw. The turns end with the turn set that had the last MEP:
// it has the next one only where no other has an active builder unit. Whoever passes over a column looks for a
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

// pickInTurnSet finds the builder unit in a turn set.
func (c *chooser) pickInTurnSet(turnSet int, p *pick) drawResult {
	switch c.turnOrder {
	case ByRatio:
		return c.pickByRatio(turnSet, p)
	case ByDemand:
		return c.pickByDemand(turnSet, p)
	}
	return c.pickRoundRobin(turnSet, p)
}

// pickRoundRobin gives the turn to the groups of a turn set one after the other.
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

// checkGroup tells whether a group whose turn it is may take an event.
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

// pickMember gives the turn to the builder units of a group one after the other.
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

// checkSlot tells whether a builder unit whose turn it is may take an event.
func (c *chooser) checkSlot(bu uint16) drawResult {
	b := &c.bus[bu]
	switch {
	case b.excluded:
		return noActiveBU
	case c.lastDrawOfBU[bu] == c.drawNumber:
		return alreadyInCycle
	case b.freeSlots.len() > 0:
		return chosen
	case c.noSlotPolicy == Wait:
		return waitsForSlot
	}
	c.lostTurns = append(c.lostTurns, lostTurn{index: bu})
	return noFreeSlot
}

// pickByRatio gives the turn to the builder units of a turn set as their table has it.
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

// pickByDemand takes the group of a turn set with the largest share of its slots free, and in it the builder unit with
// most; of equals the first in turn. By number alone a small group would be forgotten.
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

// groupDemand is how many free slots a group has, and how many active builder units.
func (c *chooser) groupDemand(group uint16) (free, active int) {
	for _, bu := range c.groupMembers[group] {
		if !c.bus[bu].excluded {
			active++
		}
		free += c.freeSlots(bu)
	}
	return free, active
}

// freeSlots is how many free slots a builder unit has beside the one it was given in this draw.
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

// groups counts the running events of each group. Who owns the meaning of running calls begin and end: here an event
// runs from its token to its outcome, or until its builder unit is excluded.
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

// endEvent notes that it no longer is.
func (g *groups) endEvent(bu int) {
	if g.groupOf != nil {
		g.registers[g.groupOf[bu]].Running--
	}
}

// isBusy tells that a group may have no further event now.
func (g *groups) isBusy(group uint16) bool { return g.groupOf != nil && g.registers[group].Running > 0 }
