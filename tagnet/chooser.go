package tagnet

// The choice of builder units for a cycle, as Rules say. Sequential, owned by the Core's goroutine, no allocation once
// warm:
//
//  1. draw    puts together the next cycle on paper: choose after choose until it says no, or a unit would stand twice.
//     1.1 choose      takes the partition whose turn it is, passing over those that can take nothing, but never the one
//     that had the last MEP while another is active
//     1.2 inPartition takes the group and in it the builder unit, by turns, by ratio or by demand
//  2. Core    compares with the MEPs there are (plan) and decides how many of the cycle go: all, the first n, or none.
//  3. settle  makes that many of the choices true: positions move on, what was passed over is counted.
//
// A draw that is not settled has changed nothing, so it does not matter how often Issue looks.

// A chooser takes turns over partitions, groups and builder units. It looks at the builder units and groups of its
// Core.
type chooser struct {
	// Immutable after newChooser, but for the tables by ratio, which membership lays out anew.

	next        Next
	empty, busy Policy // towards a builder unit without free slot, and a group that has its event
	ratio       []int
	partitionOf []uint16
	partitions  int
	turns       [][]uint16 // of each partition: groups; builder units by ratio. In the order in which their turns come
	members     [][]uint16 // of each group
	groupOf     []uint16   // as in groups.of; without groups each builder unit is one

	bus    []buState
	groups *groups

	// Owned by the Core's goroutine.

	at []uint32 // whose turn is next: of the partitions, of each partition's turns, of each group's members

	// Scratch of a draw.

	kept    []uint32
	stands  []uint64 // number of the draw in which the builder unit was picked last
	entered []uint64 // and of the group
	number  uint64
	picks   []pick
	passed  []pass
}

// pick is a chosen builder unit, and the turns after it.
type pick struct {
	bu, partition, group uint16
	at                   [3]uint32 // next turns: partition, in the partition, in the group
	passed               int       // passes up to this pick
}

// pass is a turn that was lost.
type pass struct {
	index uint16 // of the group or the builder unit
	group bool   // the group was busy; otherwise the builder unit had no free slot
}

// verdict is what became of a choice.
type verdict uint8

// The verdicts. The first three let the next one have the turn.
const (
	nobody    verdict = iota // no active builder unit
	noSlot                   // all that could be chosen have no free slot
	noGroup                  // all that could be chosen are in busy groups
	chosen                   // here it is
	again                    // whose turn it is stands in the cycle already: the cycle ends
	heldSlot                 // waits for the free slot of a builder unit
	heldGroup                // waits for a group
)

// why is the verdict in the words of the registers.
func (v verdict) why() Waiting {
	if v == noGroup || v == heldGroup {
		return ForGroup
	}
	return ForSlots
}

func newChooser(cfg *Config, bus []buState, g *groups) *chooser {
	r := &cfg.Rules
	n := len(bus)
	c := &chooser{
		next:       r.Next,
		empty:      cfg.Policy,
		busy:       r.BusyGroup,
		ratio:      r.Ratio,
		partitions: max(1, len(r.Partitions)),
		bus:        bus,
		groups:     g,
		groupOf:    g.of,
		stands:     make([]uint64, n),
		picks:      make([]pick, 0, n),
		passed:     make([]pass, 0, n),
	}
	c.partitionOf, _ = membersOf("partition", r.Partitions, n) // checked with the Config
	for _, list := range r.Groups {
		members := make([]uint16, len(list))
		for i, bu := range list {
			members[i] = uint16(bu)
		}
		c.members = append(c.members, members)
	}
	if c.groupOf == nil {
		for bu := range uint16(n) {
			c.groupOf = append(c.groupOf, bu)
			c.members = append(c.members, []uint16{bu})
		}
	}
	c.turns = make([][]uint16, c.partitions)
	for group, members := range c.members {
		partition := c.partitionOf[members[0]]
		c.turns[partition] = append(c.turns[partition], uint16(group))
	}
	c.entered = make([]uint64, len(c.members))
	c.at = make([]uint32, 1+c.partitions+len(c.members))
	c.kept = make([]uint32, len(c.at))
	c.membership()
	return c
}

// membership lays out the turns by ratio among those that are not excluded. Other turns pass over the excluded, so that
// the others keep their places in the round.
func (c *chooser) membership() {
	if c.next != ByRatio {
		return
	}
	for partition := range c.turns {
		var bus []uint16
		var weights []int
		for bu := range c.bus {
			if int(c.partitionOf[bu]) == partition && !c.bus[bu].excluded {
				bus, weights = append(bus, uint16(bu)), append(weights, c.ratio[bu])
			}
		}
		c.turns[partition], c.at[1+partition] = spread(bus, weights), 0
	}
}

// draw chooses the next cycle, in which each builder unit stands at most once. It returns how many there are, and why
// not more.
func (c *chooser) draw() (int, verdict) {
	copy(c.kept, c.at)
	c.picks, c.passed = c.picks[:0], c.passed[:0]
	c.number++
	why := again
	for len(c.picks) < len(c.bus) {
		p, v := c.choose()
		if v != chosen {
			why = v
			break
		}
		c.move(&p)
		c.stands[p.bu], c.entered[p.group] = c.number, c.number
		c.picks = append(c.picks, p)
	}
	copy(c.at, c.kept)
	return len(c.picks), why
}

// settle makes the first n choices of the last draw true, n at least 1.
func (c *chooser) settle(n int, total *Counters) []pick {
	for i := range c.picks[:n] {
		c.move(&c.picks[i])
	}
	for _, p := range c.passed[:c.picks[n-1].passed] {
		if p.group {
			c.groups.running[p.index].Skips++
			total.GroupSkips++
			continue
		}
		c.bus[p.index].count.Skips++
		total.Skips++
	}
	return c.picks[:n]
}

// move gives the turns to those after the pick.
func (c *chooser) move(p *pick) {
	c.at[0], c.at[1+int(p.partition)], c.at[1+c.partitions+int(p.group)] = p.at[0], p.at[1], p.at[2]
}

// choose finds the builder unit for one more MEP of the draw. The turns end with the partition that had the last MEP:
// it has the next one only where no other has an active builder unit. Whoever passes over a column looks for a
// destination in another one, and is granted it "only if it resides in a different column than the last one that was
// used" (TagNet-farm §III.B.2, figure III-6).
func (c *chooser) choose() (p pick, worst verdict) {
	for partition, left := int(c.at[0]), c.partitions; left > 0; left-- {
		if left == 1 && worst > nobody {
			break
		}
		after := partition + 1
		if after == c.partitions {
			after = 0
		}
		v := c.inPartition(partition, &p)
		if v >= chosen {
			p.partition, p.at[0], p.passed = uint16(partition), uint32(after), len(c.passed)
			return p, v
		}
		worst, partition = max(worst, v), after
	}
	return p, worst
}

// inPartition finds the builder unit in a partition.
func (c *chooser) inPartition(partition int, p *pick) verdict {
	switch c.next {
	case ByRatio:
		return c.byRatio(partition, p)
	case ByDemand:
		return c.byDemand(partition, p)
	}
	return c.byTurns(partition, p)
}

// byTurns gives the turn to the groups of a partition one after the other.
func (c *chooser) byTurns(partition int, p *pick) (worst verdict) {
	order := c.turns[partition]
	for at, left := int(c.at[1+partition]), len(order); left > 0; left-- {
		group := order[at]
		if at++; at == len(order) {
			at = 0
		}
		v := c.enter(group)
		if v == chosen {
			v = c.member(group, p)
		}
		if v >= chosen {
			p.group, p.at[1] = group, uint32(at)
			return v
		}
		worst = max(worst, v)
	}
	return worst
}

// enter tells whether a group whose turn it is may take an event.
func (c *chooser) enter(group uint16) verdict {
	switch {
	case c.groups.of == nil:
		return chosen
	case c.entered[group] == c.number:
		return again
	case !c.groups.busy(group):
		return chosen
	case c.busy == Wait:
		return heldGroup
	}
	c.passed = append(c.passed, pass{index: group, group: true})
	return noGroup
}

// member gives the turn to the builder units of a group one after the other.
func (c *chooser) member(group uint16, p *pick) (worst verdict) {
	members := c.members[group]
	for at, left := int(c.at[1+c.partitions+int(group)]), len(members); left > 0; left-- {
		bu := members[at]
		if at++; at == len(members) {
			at = 0
		}
		v := c.slot(bu)
		if v >= chosen {
			p.bu, p.at[2] = bu, uint32(at)
			return v
		}
		worst = max(worst, v)
	}
	return worst
}

// slot tells whether a builder unit whose turn it is may take an event.
func (c *chooser) slot(bu uint16) verdict {
	b := &c.bus[bu]
	switch {
	case b.excluded:
		return nobody
	case c.stands[bu] == c.number:
		return again
	case b.free.len() > 0:
		return chosen
	case c.empty == Wait:
		return heldSlot
	}
	c.passed = append(c.passed, pass{index: bu})
	return noSlot
}

// byRatio gives the turn to the builder units of a partition as their table has it.
func (c *chooser) byRatio(partition int, p *pick) (worst verdict) {
	order := c.turns[partition]
	for at, left := int(c.at[1+partition]), len(order); left > 0; left-- {
		bu := order[at]
		if at++; at == len(order) {
			at = 0
		}
		v := c.enter(c.groupOf[bu])
		if v == chosen {
			v = c.slot(bu)
		}
		if v >= chosen {
			p.bu, p.group, p.at[1], p.at[2] = bu, c.groupOf[bu], uint32(at), 0
			return v
		}
		worst = max(worst, v)
	}
	return worst
}

// byDemand takes the group of a partition with the largest share of its slots free, and in it the builder unit with
// most; of equals the first in turn. By number alone a small group would be forgotten.
func (c *chooser) byDemand(partition int, p *pick) verdict {
	order, most, of, worst := c.turns[partition], 0, 1, nobody
	for at, left := int(c.at[1+partition]), len(order); left > 0; left-- {
		group := order[at]
		if at++; at == len(order) {
			at = 0
		}
		free, active := c.demand(group)
		switch {
		case active == 0:
		case c.entered[group] == c.number && c.groups.of != nil || c.groups.busy(group):
			worst = max(worst, noGroup)
		case free == 0:
			worst = max(worst, noSlot)
		case free*of > most*active:
			most, of, p.group, p.at[1] = free, active, group, uint32(at)
		}
	}
	if most == 0 {
		return worst
	}
	members, best := c.members[p.group], 0
	for at, left := int(c.at[1+c.partitions+int(p.group)]), len(members); left > 0; left-- {
		bu := members[at]
		if at++; at == len(members) {
			at = 0
		}
		if free := c.free(bu); free > best {
			best, p.bu, p.at[2] = free, bu, uint32(at)
		}
	}
	if c.stands[p.bu] == c.number {
		return again
	}
	return chosen
}

// demand is how many free slots a group has, and how many active builder units.
func (c *chooser) demand(group uint16) (free, active int) {
	for _, bu := range c.members[group] {
		if !c.bus[bu].excluded {
			active++
		}
		free += c.free(bu)
	}
	return free, active
}

// free is how many free slots a builder unit has beside the one it was given in this draw.
func (c *chooser) free(bu uint16) int {
	b := &c.bus[bu]
	if b.excluded {
		return 0
	}
	n := b.free.len()
	if c.stands[bu] == c.number {
		n--
	}
	return n
}
