package level1

import (
	"context"
	"slices"

	"ringlet/sim"
	"ringlet/sim/documents/sci"
	"ringlet/sim/study"
)

// stoppedProcess simulates the prototype three times: whole, with the process of one computing node stopped halfway,
// and with the process of the decision unit stopped halfway. Cards write without a process, so they go on.
var stoppedProcess = study.Model{
	Name: "level1-stopped",
	Help: "The prototype while the process of a computing node, or of the decision unit, is stopped: what goes on.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		t := torus{
			cfg:         ReadNetwork(p),
			dma:         readDMA(p),
			columns:     p.Int("columns", 2, 100),
			rows:        p.Int("rows", 2, 100),
			extraClocks: p.Int("tag-clocks", 0, 1000),
			period:      p.Time("period"),
		}
		t.clockDrift = 0
		h := hosts{
			torus:          &t,
			buffersPerNode: p.Int("buffers", 1, 64),
			softwareTime:   p.Time("software"),
			flushTimeout:   p.Time("flush"),
			message:        p.Size("message", 8, 128),
			block:          p.Size("block", 8, 128),
			until:          readDuration(p),
		}
		node := p.Int("stopped-node", 1, t.columns*t.rows-2)
		if t.period <= 0 || node%t.columns == 0 {
			p.AddError("stopped-node", "is a readout unit, or the period is not positive")
		}
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		g := &modelRun{env: env}
		baseline, err := h.play(ctx, g, -1, node)
		if err != nil {
			return g.out, err
		}
		baseline.addResults(g, "whole", baseline)
		for _, c := range []struct {
			name string
			node int
		}{{"node-stopped", node}, {"unit-stopped", h.decisionNode()}} {
			after, err := h.play(ctx, g, c.node, node)
			if err != nil {
				return g.out, err
			}
			after.addResults(g, c.name, baseline)
		}
		return g.out, nil
	},
}

// hosts is the prototype with the processes behind its cards.
type hosts struct {
	*torus
	buffersPerNode int      // of each computing node
	softwareTime   sim.Time // from the last fragment to the result's write
	flushTimeout   sim.Time // how long a stream that is not full waits for more data
	message        int
	block          int
	until          sim.Time
}

// decisionNode is the node of the decision unit.
func (h *hosts) decisionNode() int { return h.columns*h.rows - 1 }

// secondHalf has the counts of the second half of a run.
type secondHalf struct {
	rate                         float64 // of the last unit's transfers
	lost, retries, echoes        uint64
	writtenFragments             uint64  // fragments in the memory of the watched node
	watchedResults, otherResults uint64  // results sent by the watched node, and by all others
	placedMessages               uint64  // results in the memory of the decision unit
	decisions                    uint64  // decisions that the unit's process made from results
	mismatches                   uint64  // buffers that were overwritten before their check
	latency                      float64 // from an event's last fragment to its result in memory, mean of the other nodes
}

// addResults adds the counts, and their ratios to those of the whole prototype.
func (a *secondHalf) addResults(g *modelRun, name string, baseline *secondHalf) {
	g.addResult(a.rate, study.Rate, "rate-%s", name)
	g.addResult(float64(a.lost), study.Count, "lost-tags-%s", name)
	g.addResult(float64(a.retries+a.echoes), study.Count, "retries-%s", name)
	g.addResult(float64(a.mismatches), study.Count, "mismatches-%s", name)
	g.addResult(float64(a.watchedResults), study.Count, "results-of-the-node-%s", name)
	g.addResult(float64(a.decisions), study.Count, "decisions-%s", name)
	g.addResult(a.latency, study.Time, "latency-of-others-%s", name)
	for _, of := range []struct {
		what          string
		now, baseline uint64
	}{
		{"written-to-the-node", a.writtenFragments, baseline.writtenFragments},
		{"results-of-others", a.otherResults, baseline.otherResults},
		{"messages-written", a.placedMessages, baseline.placedMessages},
	} {
		g.out.Add(of.what+"-"+name, study.Share(float64(of.now)/float64(max(1, of.baseline))))
	}
}

// hostRun is a simulation of hosts.
type hostRun struct {
	*hosts
	s              *sim.Sim
	net            *sci.Net
	stopped        int // node whose process is stopped; -1: none
	watched        int
	memory         [][]int64          // by node and buffer: the event of each unit's fragment
	lastFragmentAt map[int64]sim.Time // by event: when its last fragment was there
	delay          sim.Histogram
	secondHalf
}

func (h *hosts) play(ctx context.Context, g *modelRun, stopped, watched int) (*secondHalf, error) {
	l := &hostRun{
		hosts:          h,
		s:              g.env.Sim(),
		stopped:        stopped,
		watched:        watched,
		lastFragmentAt: map[int64]sim.Time{},
	}
	l.net = sci.New(l.s, h.cfg, h.columns, h.rows)
	l.s.AddHistogram("from an event being whole until its result is at the decision unit", &l.delay)
	for i := range h.columns * h.rows {
		l.net.Node(i).Receiver = l
		l.memory = append(l.memory, make([]int64, h.buffersPerNode*h.rows))
		for j := range l.memory[i] {
			l.memory[i][j] = -1
		}
	}
	c := h.chain(l.s, l.net, h.block, h.firstNodes(), h.target)
	before := int64(0)
	l.s.ScheduleAt(h.until/2, sim.Func(func(int64, int64) {
		before = c.units[h.rows-1].blocks
		l.secondHalf, l.delay = secondHalf{}, sim.Histogram{}
	}), 0, 0)
	if err := g.play(ctx, l.s, h.until); err != nil {
		return nil, err
	}
	l.rate = sim.PerSecond(uint64(c.units[h.rows-1].blocks-before), h.until-h.until/2)
	l.lost, l.retries, l.echoes = uint64(c.lostTags), c.retries(), l.net.Retried()
	l.latency = l.delay.Mean() * sim.Picosecond.Seconds()
	return &l.secondHalf, nil
}

// processRuns says whether the process of a node runs.
func (l *hostRun) processRuns(node int) bool { return node != l.stopped || l.s.Now() < l.until/2 }

// Receive handles a packet in the memory of a node, whether or not the node's process runs.
func (l *hostRun) Receive(p *sci.Packet) {
	if p.Piece == 1 {
		l.placedMessages++
		if l.processRuns(l.decisionNode()) {
			l.decisions++
		}
		if p.Src != l.watched {
			l.delay.Add(int64(l.s.Now() - l.lastFragmentAt[p.ID]))
		}
		delete(l.lastFragmentAt, p.ID)
		return
	}
	if p.Dst == l.watched {
		l.writtenFragments++
	}
	slots := l.slots(p.Dst, p.ID)
	slots[p.Src/l.columns] = p.ID
	if l.processRuns(p.Dst) && allEqual(slots, p.ID) {
		l.lastFragmentAt[p.ID] = l.s.Now()
		l.s.ScheduleAfter(l.softwareTime, (*bufferChecked)(l), int64(p.Dst), p.ID)
	}
}

// slots are the places of the units' fragments in the buffer that the descriptor of event n names: a node's buffers are
// written in turn.
func (l *hostRun) slots(node int, n int64) []int64 {
	buffer := int(n/int64(l.columns*l.rows-l.rows-1)) % l.buffersPerNode
	return l.memory[node][buffer*l.rows : (buffer+1)*l.rows]
}

// allEqual reports whether all fragments are of event n.
func allEqual(slots []int64, n int64) bool {
	return !slices.ContainsFunc(slots, func(id int64) bool { return id != n })
}

type bufferChecked hostRun

// Handle: a process has compared the tags of a buffer, and writes the result.
func (e *bufferChecked) Handle(node, n int64) {
	l := (*hostRun)(e)
	if !l.processRuns(int(node)) {
		return
	}
	if !allEqual(l.slots(int(node), n), n) {
		l.mismatches++
		return
	}
	l.s.ScheduleAfter(l.flushTimeout, (*resultSent)(l), node, n)
	if int(node) == l.watched {
		l.watchedResults++
	} else {
		l.otherResults++
	}
}

type resultSent hostRun

// Handle: the card sends the result, or refuses it and the process tries again.
func (e *resultSent) Handle(node, n int64) {
	if !e.net.Node(int(node)).Send(e.decisionNode(), e.message, n, 1) {
		e.s.ScheduleAfter(e.cfg.PCIClock, e, node, n)
	}
}
