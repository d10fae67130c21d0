package component

import "ringlet/sim"

// A Client takes turns on a Bus.
type Client interface {
	// Offer says whether a transfer could begin now, and how long it would hold the bus.
	Offer() (hold sim.Time, ok bool)
	// Begin: the transfer that Offer spoke of begins.
	Begin()
	// End: it has ended, and the bus looks for the next.
	End()
}

// Bus does one transfer at a time. It asks its clients in turn, beginning behind the one served last; favoured clients
// are asked before all others. The cost of set-up, waits and turn-around is in the time that a client says.
type Bus struct {
	s               *sim.Sim
	priorityClients []Client
	clients         []Client
	next            int
	serving         Client
	ArbitrationTime sim.Time  // arbitration before each transfer: the bus is taken, but moves nothing
	Busy            sim.Level // 1 while it is taken; its mean is the use of the bus
	Transfers       uint64    // transfers
	trace           *sim.Trace
	track           sim.Track
	label           func(Client) string
}

// NewBus makes an idle bus.
func NewBus(s *sim.Sim, grant sim.Time) *Bus { return &Bus{s: s, ArbitrationTime: grant} }

// Attach adds a client.
func (b *Bus) Attach(c Client) { b.clients = append(b.clients, c) }

// attachPriority adds a client that is asked before those of Attach.
func (b *Bus) attachPriority(c Client) { b.priorityClients = append(b.priorityClients, c) }

// TraceTransfers draws the transfers on a line of that name where the simulation is traced. Label names those of a
// client.
func (b *Bus) TraceTransfers(name string, label func(Client) string) {
	if b.trace = b.s.Trace(); b.trace != nil {
		b.track, b.label = b.trace.Track(name), label
	}
}

// Kick begins a transfer if the bus is idle and a client offers one.
func (b *Bus) Kick() {
	if b.serving != nil {
		return
	}
	for _, c := range b.priorityClients {
		if b.tryTransfer(c) {
			return
		}
	}
	for i := range b.clients {
		at := (b.next + i) % len(b.clients)
		if b.tryTransfer(b.clients[at]) {
			b.next = at + 1
			return
		}
	}
}

func (b *Bus) tryTransfer(c Client) bool {
	hold, ok := c.Offer()
	if !ok {
		return false
	}
	b.serving = c
	b.Busy.Set(b.s.Now(), 1)
	c.Begin()
	if b.trace != nil {
		b.trace.Span(b.track, b.label(c), b.s.Now(), b.s.Now()+b.ArbitrationTime+hold, int64(b.Transfers))
	}
	b.s.ScheduleAfter(b.ArbitrationTime+hold, (*busEnd)(b), 0, 0)
	return true
}

type busEnd Bus

func (e *busEnd) Handle(int64, int64) {
	b := (*Bus)(e)
	b.Transfers++
	b.Busy.Set(b.s.Now(), 0)
	b.serving.End() // still taken: what End kicks is looked at below
	b.serving = nil
	b.Kick()
}
