package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ringlet/event"
	"ringlet/event/placing"
	"ringlet/source"
)

// Memory is the memory of one node, in bytes.
type Memory struct {
	Slots     int64 // of its builder unit, in shared memory
	Output    int64 // buffers of its builder unit's output and filter, in shared memory
	Retention int64 // buffers of its readout unit
	Input     int64 // fragments of its live sources that are in no buffer yet
	Process   int64 // of the process itself, whatever units it has
}

// Shared is the memory in /dev/shm.
func (m Memory) Shared() int64 { return m.Slots + m.Output }

// Total is the sum.
func (m Memory) Total() int64 { return m.Shared() + m.Retention + m.Input + m.Process }

// add adds the memory of two nodes of one machine.
func (m Memory) add(o Memory) Memory {
	return Memory{
		Slots:     m.Slots + o.Slots,
		Output:    m.Output + o.Output,
		Retention: m.Retention + o.Retention,
		Input:     m.Input + o.Input,
		Process:   m.Process + o.Process,
	}
}

// String lists the parts that are not 0.
func (m Memory) String() string {
	var terms []string
	add := func(n int64, what string) {
		if n > 0 {
			terms = append(terms, approxBytes(n)+" of "+what)
		}
	}
	add(m.Slots, "slots")
	add(m.Output, "output buffer")
	add(m.Retention, "retention buffers")
	add(m.Input, "fragments that wait for a buffer")
	add(m.Process, "the program itself")
	return strings.Join(terms, ", ")
}

// BufferMEPs is how many MEPs a shared-memory output holds before the builder unit waits for its readers.
const BufferMEPs = 4

// Lower bounds for a process that is connected with its peers, so that no run is refused that would fit. Measured was
// the peak of the private memory of all processes together, with the smallest slots and buffers: 68 MiB of 2 nodes, 564
// of 16, 933 of 24, and 256 of a readout unit with 23 builder units, which are not connected with each other (`ringlet
// run --rate 100 --packing 8 --debug-look-ahead 1 --slots 2 --fragment-size 64`, 2 cores, 2026-11-21). The bounds count
// 18, 368, 744 and 238.
const (
	processBaseBytes    = 8 << 20
	processBytesPerPeer = 1 << 20
	minProcessTasks     = 7 // the process and its threads: the fewest seen
)

// MemoryNeeds is the memory of a node with that role. It needs a completed configuration. The sizes of recorded data
// are not known here: for a file, slots count only if their size is given, and retention buffers do not count.
func (c Config) MemoryNeeds(r Role) (Memory, error) {
	peers := c.Nodes - 1
	if r.RU == NoUnit {
		peers = c.RUs
	}
	m := Memory{Process: processBaseBytes + int64(max(peers, 0))*processBytesPerPeer}
	blocks := []int(nil)
	if c.GeneratesData() {
		var err error
		if blocks, err = c.maxBlocks(); err != nil {
			return m, err
		}
		if err := c.FitSlot(); err != nil {
			return m, err
		}
	}
	if c.HasLiveSources() {
		var err error
		var waiting []int
		if blocks, waiting, err = c.liveBlocks(); err != nil {
			return m, err
		}
		if r.RU != NoUnit {
			m.Input = int64(waiting[r.RU])
		}
	}
	if r.BU != NoUnit {
		m.Slots = int64(c.Slots) * padTo(int64(c.SlotSize), slotAlign)
		for _, one := range c.outputs() {
			if one.SinkKind().Shared {
				m.Output += BufferMEPs * int64(c.SlotSize)
			}
		}
		if choice, ok := c.FilterChoice(); ok {
			m.Output += choice.SharedMemory(int64(c.SlotSize))
		}
	}
	if r.RU != NoUnit && blocks != nil {
		size, n := c.RetentionBuffers(r.RU, blocks[r.RU])
		m.Retention = int64(size) * int64(n)
	}
	return m, nil
}

// liveBlocks has the largest block of each readout unit with live sources, and what fragments wait there before they
// are in a block, in bytes. It sets the slot size that they need, if none is given.
func (c *Config) liveBlocks() (blocks, waiting []int, err error) {
	settings, err := c.SourceSettings(0)
	if err != nil {
		return nil, nil, err
	}
	division, blocks, waiting, err := source.LiveBlocks(settings)
	if err == nil && c.SlotSize == 0 {
		c.SlotSize = Bytes(event.MEPHeaderSize(division.Sources()))
		for _, block := range blocks {
			c.SlotSize += Bytes(block)
		}
	}
	return blocks, waiting, err
}

// RetentionBuffers returns the size and number of the retention buffers of a readout unit whose blocks have at most
// block bytes: a look-ahead of cycles, one more that is being read, and at least 64 small ones. For small MEPs there
// are twice as many as may be in flight, so that an eighth can be read at a time without making a sender wait. For
// prepared blocks the number is a multiple of theirs: each buffer keeps one block, and the choice of a MEP's block must
// not depend on the readout unit. It needs a completed configuration.
func (c Config) RetentionBuffers(ru, block int) (size, n int) {
	const small, leastBuffers = 1 << 20, 64
	size = placing.PartSize(c.Division().SourceCount(ru), block)
	ahead := min(c.Debug.LookAhead, c.Slots) * c.BUs
	if n = ahead + c.BUs + 2; c.PreGrantedLayout() != nil {
		n = max(2*ahead, leastBuffers)
	}
	n = max(n, min(small/size, 4096))
	if p := c.Prepared; p > 0 {
		n = (n + p - 1) / p * p
	}
	return size, n
}

// NodeFacts describes a node that could take part. A size of zero is not known, and refuses nothing.
type NodeFacts struct {
	Name        string
	MachineID   string // nodes with the same id share the machine's memory; "" is a machine of its own
	MemoryBytes int64  // of its machine, or of its container
	ShmBytes    int64  // of /dev/shm there
	MaxTasks    int64  // processes and threads that are allowed there
}

// CheckNodes checks a completed configuration against the available nodes, in the order in which they rank: that its
// members are among them, that there are enough, and that they have the memory. Without facts only node-memory bounds
// the memory. The error is an *InvalidError; it depends only on configuration and nodes, so every caller gets the same
// one.
func (c Completed) CheckNodes(facts []NodeFacts) error {
	d := draft{Config: &c.Config}
	facts = d.selectNodes(facts)
	if len(d.problems) == 0 {
		d.checkClashes(func(rank int) string {
			if m := facts[rank].MachineID; m != "" {
				return m
			}
			return strconv.Itoa(rank)
		})
		d.checkMemory(facts)
	}
	return d.err()
}

// selectNodes returns the facts of the nodes that would take part, by rank; without facts, only their names.
func (c *draft) selectNodes(facts []NodeFacts) []NodeFacts {
	names := c.MemberNames()
	if facts == nil {
		out := make([]NodeFacts, c.Nodes)
		for i, r := range c.Roles() {
			if out[i].Name = r.Name; names != nil {
				out[i].Name = names[i]
			}
		}
		return out
	}
	joined := make([]string, len(facts))
	for i, f := range facts {
		if joined[i] = f.Name; slices.Contains(joined[:i], f.Name) {
			c.add("members", "two nodes are called %s", f.Name)
		}
	}
	if names == nil {
		if len(facts) < c.Nodes {
			c.add("nodes", "the shape has %d nodes, and %s", c.Nodes, joinedText(joined))
			return nil
		}
		if c.TagnetNode != "" && !slices.Contains(joined[:c.Nodes], c.TagnetNode) {
			c.add("tagnet-node", "there is no node called %s: members are %s", c.TagnetNode,
				strings.Join(joined[:c.Nodes], ", "))
		}
		c.checkDecisionNode(joined[:c.Nodes])
		return facts[:c.Nodes]
	}
	out := make([]NodeFacts, 0, len(names))
	for _, name := range names {
		at := slices.Index(joined, name)
		if at < 0 {
			c.add("members", "%s is unknown: %s", name, joinedText(joined))
			continue
		}
		out = append(out, facts[at])
	}
	return out
}

// joinedText lists the nodes that have joined.
func joinedText(names []string) string {
	switch len(names) {
	case 0:
		return "no node has joined"
	case 1:
		return "only " + names[0] + " has joined"
	}
	return fmt.Sprintf("%d have joined: %s", len(names), strings.Join(names, ", "))
}

// Advice if there is too little memory.
const (
	adviceSmaller    = "make slots, look-ahead, packing, fragment-size or the number of sources smaller"
	adviceFewerNodes = "take fewer nodes"
)

// machine is the sum of the needs of all nodes on one machine.
type machine struct {
	NodeFacts
	nodeNames    []string
	neededMemory Memory
}

// checkMemory compares the nodes' needs with node-memory, and with their machines. Facts are by rank.
func (c *draft) checkMemory(facts []NodeFacts) {
	var machines []*machine
	at := map[string]*machine{}
	for i, role := range c.Roles() {
		need, err := c.MemoryNeeds(role)
		if err != nil {
			c.add("slots", "the memory that the nodes need is not known: %v", err)
			return
		}
		f := facts[i]
		units := need
		units.Process = 0
		if most := int64(c.NodeMemory); most > 0 && units.Total() > most {
			c.add("node-memory", "%s needs %s (%v), more than the %s it may take: %s", f.Name, approxBytes(units.Total()), units,
				c.NodeMemory, adviceSmaller)
		}
		m := at[f.MachineID]
		if m == nil || f.MachineID == "" {
			m = &machine{NodeFacts: f}
			at[f.MachineID] = m
			machines = append(machines, m)
		}
		m.nodeNames, m.neededMemory = append(m.nodeNames, f.Name), m.neededMemory.add(need)
	}
	for _, m := range machines {
		m.check(&c.problems)
	}
}

// check compares the needs with the machine.
func (m *machine) check(p *problems) {
	key, do := "slots", adviceSmaller
	switch {
	case len(m.nodeNames) == 1:
	case m.neededMemory.Process > m.MemoryBytes:
		key, do = "nodes", adviceFewerNodes
	default:
		do += ", or " + adviceFewerNodes
	}
	if m.MemoryBytes > 0 && m.neededMemory.Total() > m.MemoryBytes {
		p.add(key, "%s %s (%v), more than the %s of memory there: %s", m.subject(), approxBytes(m.neededMemory.Total()),
			m.neededMemory, approxBytes(m.MemoryBytes), do)
	}
	if m.ShmBytes > 0 && m.neededMemory.Shared() > m.ShmBytes {
		p.add("slots", "%s %s of shared memory, more than the %s of /dev/shm there: make /dev/shm larger, or %s", m.subject(),
			approxBytes(m.neededMemory.Shared()), approxBytes(m.ShmBytes), adviceSmaller)
	}
	if tasks := int64(len(m.nodeNames)) * minProcessTasks; m.MaxTasks > 0 && tasks > m.MaxTasks {
		p.add("nodes", "%s at least %d processes and threads, more than the %d that may be there: %s", m.subject(), tasks,
			m.MaxTasks, adviceFewerNodes)
	}
}

// subject begins a sentence about the machine's nodes.
func (m *machine) subject() string {
	const named = 16
	switch n := len(m.nodeNames); {
	case n == 1:
		return m.nodeNames[0] + " needs"
	case n > named:
		return fmt.Sprintf("the %d nodes from %s to %s need together", n, m.nodeNames[0], m.nodeNames[n-1])
	}
	return strings.Join(m.nodeNames, ", ") + " need together"
}
