package component

import "ringlet/sim"

// A Client takes turns on a Bus.
type Client interface {
	// Offer says whether a transfer could begin now, and how long it would hold the bus.
	Offer() (hold sim.Time, ok bool)
	// Begin begins the transfer that Offer announced.
	Begin()
	// End ends it; the bus then looks for the next one.
	End()
}

// Bus does one transfer at a time. It asks its clients in turn, first the one behind the client served last; it asks
// priority clients before all others. The time of an offer includes set-up, wait states and turn-around.
type Bus struct {
	s               *sim.Sim
	priorityClients []Client
	clients         []Client
	next            int
	serving         Client
	ArbitrationTime sim.Time  // before each transfer: the bus is taken, but moves nothing
	Busy            sim.Level // 1 while the bus is taken; its mean is the utilization
	Transfers       uint64
	trace           *sim.Trace
	track           sim.Track
	label           func(Client) string
}

// NewBus makes an idle bus.
func NewBus(s *sim.Sim, grant sim.Time) *Bus { return &Bus{s: s, ArbitrationTime: grant} }

// Attach adds a client.
func (b *Bus) Attach(c Client) { b.clients = append(b.clients, c) }

// attachPriority adds a client that the bus asks before those of Attach.
func (b *Bus) attachPriority(c Client) { b.priorityClients = append(b.priorityClients, c) }

// TraceTransfers draws the transfers on a line of that name if the simulation is traced. label names a client's
// transfers.
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
	b.serving.End() // still busy, so that End's kicks wait for the one below
	b.serving = nil
	b.Kick()
}
