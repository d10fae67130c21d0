package linked

import (
	"fmt"

	"ringlet/shmem"
	"ringlet/sim"
	"ringlet/transport/link"
)

// A path is one direction between the two ends.
type path struct {
	perByte       sim.Time // on the wire; 0: it takes no time
	delay         sim.Time // from the end of a datagram on this side to its end on the other
	drops         func(d []byte) bool
	free          sim.Time // when the wire is free again
	sentDatagrams uint64   // datagrams
	lostDatagrams uint64
}

// An end is a node: a core, and the memory that the other may write.
type end struct {
	core              *link.Core
	memory            []byte
	table             *shmem.Table
	peerMemory        shmem.Ref // of the other's memory
	events            []link.Event
	receivedSinceTurn bool // datagrams since the last turn
}

// A pair is two ends in the simulator. Its shell is eager: whenever anything has happened, all that may be sent is. In
// one instant the order is that of transport/simnet: all that arrives, the ends of the batches, what time asks for,
// what is sent.
type pair struct {
	s        *sim.Sim
	ends     [2]end
	paths    [2]path // by who sends
	onEvents func(e int, events []link.Event)

	buf               []byte
	datagramsInFlight [][]byte    // datagrams on their way, by their number
	unused            []int64     // numbers of flights that are over
	turnScheduled     bool        // a turn comes in this instant
	alarmID           sim.EventID // the alarm that time asks for
	alarmAt           sim.Time
	alarmSet          bool
	coreErr           error // a datagram that a core did not understand
}

// coreTimeBase is the time of the cores at the beginning: to them, 0 is no time.
const coreTimeBase = int64(1e9)

// exportedBytes is what each end exports.
const exportedBytes = 256 * shmem.PageSize

// newPair joins two cores of one configuration; View, Peer and Table are the pair's.
func newPair(s *sim.Sim, cfg link.Config, paths [2]path) (*pair, error) {
	p := &pair{s: s, paths: paths, buf: make([]byte, cfg.MaxDatagram)}
	const peer = shmem.Peer(1)
	for e := range p.ends {
		n := &p.ends[e]
		// Without a generation of its own the table draws one, and no run would be like another.
		n.memory, n.table = make([]byte, exportedBytes), shmem.NewTable(1, shmem.FirstGeneration(1))
		rule := shmem.PageRule{PageCount: exportedBytes / shmem.PageSize, Peer: peer, Access: shmem.AccessNwrite}
		seg, err := n.table.Export(n.memory, rule)
		if err != nil {
			return nil, err
		}
		if p.ends[1-e].peerMemory, err = n.table.Grant(peer, seg, 0, exportedBytes, shmem.AccessNwrite); err != nil {
			return nil, err
		}
		cfg.View, cfg.Peer, cfg.Table = 1, peer, n.table
		n.core = link.New(cfg)
	}
	return p, nil
}

// now is the time of the cores, ns.
func (p *pair) now() int64 { return coreTimeBase + int64(p.s.Now()/sim.Nanosecond) }

// Handlers of the events, one type each.
type (
	arrival pair
	alarm   pair
	turn    pair
)

// Handle is of the time that a core has asked for: behind what arrives in the same instant.
func (a *alarm) Handle(_, _ int64) {
	a.alarmSet = false
	(*pair)(a).scheduleTurn()
}

// Handle receives a flight at an end.
func (a *arrival) Handle(number, to int64) {
	p := (*pair)(a)
	n := &p.ends[to]
	if err := n.core.Receive(p.now(), p.datagramsInFlight[number]); err != nil && p.coreErr == nil {
		p.coreErr = fmt.Errorf("at %v: %w", p.s.Now(), err)
		p.s.Stop()
	}
	n.receivedSinceTurn = true
	p.readEvents(int(to))
	p.unused = append(p.unused, number)
	p.scheduleTurn()
}

// scheduleTurn has a turn come in this instant, behind all that arrives in it.
func (p *pair) scheduleTurn() {
	if !p.turnScheduled {
		p.turnScheduled = true
		p.s.ScheduleAfter(0, (*turn)(p), 0, 0)
	}
}

// Handle ends the batches, ticks whose time has come, and sends what may be sent.
func (t *turn) Handle(_, _ int64) {
	p := (*pair)(t)
	p.turnScheduled = false
	for e := range p.ends {
		if n := &p.ends[e]; n.receivedSinceTurn {
			n.core.EndBatch()
			n.receivedSinceTurn = false
		}
	}
	for e := range p.ends {
		if d := p.ends[e].core.Deadline(); d != 0 && d <= p.now() {
			p.ends[e].core.Tick(p.now())
			p.readEvents(e)
		}
	}
	for e := range p.ends {
		for size := p.ends[e].core.Next(p.now(), p.buf); size > 0; size = p.ends[e].core.Next(p.now(), p.buf) {
			p.launch(e, p.buf[:size])
		}
		p.readEvents(e)
	}
	p.scheduleAlarm()
}

// scheduleAlarm has the next turn come when a core's time comes, if nothing happens before.
func (p *pair) scheduleAlarm() {
	first := int64(0)
	for e := range p.ends {
		if d := p.ends[e].core.Deadline(); d != 0 && (first == 0 || d < first) {
			first = d
		}
	}
	at := max(p.s.Now(), sim.Time(first-coreTimeBase)*sim.Nanosecond)
	if p.alarmSet && (first == 0 || at != p.alarmAt) {
		p.s.Cancel(p.alarmID)
		p.alarmSet = false
	}
	if first != 0 && !p.alarmSet {
		p.alarmID, p.alarmAt, p.alarmSet = p.s.ScheduleAt(at, (*alarm)(p), 0, 0), at, true
	}
}

// readEvents reads what has happened at an end.
func (p *pair) readEvents(e int) {
	n := &p.ends[e]
	n.events = n.core.Events(n.events)
	if p.onEvents != nil && len(n.events) > 0 {
		p.onEvents(e, n.events)
	}
}

// launch sends a datagram on its way.
func (p *pair) launch(from int, d []byte) {
	out := &p.paths[from]
	out.sentDatagrams++
	out.free = max(out.free, p.s.Now()) + sim.Time(len(d))*out.perByte
	if out.drops != nil && out.drops(d) {
		out.lostDatagrams++
		return
	}
	number := int64(len(p.datagramsInFlight))
	if n := len(p.unused); n > 0 {
		number, p.unused = p.unused[n-1], p.unused[:n-1]
	} else {
		p.datagramsInFlight = append(p.datagramsInFlight, nil)
	}
	p.datagramsInFlight[number] = append(p.datagramsInFlight[number][:0], d...)
	p.s.ScheduleAt(out.free+out.delay, (*arrival)(p), number, int64(1-from))
}
