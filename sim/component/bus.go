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
	s        *sim.Sim
	favoured []Client
	clients  []Client
	next     int
	serving  Client
	Grant    sim.Time  // arbitration before each transfer: the bus is taken, but moves nothing
	Busy     sim.Level // 1 while it is taken; its mean is the use of the bus
	Served   uint64    // transfers
	trace    *sim.Trace
	track    sim.Track
	label    func(Client) string
}

// NewBus makes an idle bus.
func NewBus(s *sim.Sim, grant sim.Time) *Bus { return &Bus{s: s, Grant: grant} }

// Attach adds a client.
func (b *Bus) Attach(c Client) { b.clients = append(b.clients, c) }

// attachFirst adds a client that is asked before those of Attach.
func (b *Bus) attachFirst(c Client) { b.favoured = append(b.favoured, c) }

// Trace draws the transfers on a line of that name where the simulation is traced. Label names those of a client.
func (b *Bus) Trace(name string, label func(Client) string) {
	if b.trace = b.s.Traced(); b.trace != nil {
		b.track, b.label = b.trace.Track(name), label
	}
}

// Kick begins a transfer if the bus is idle and a client offers one.
func (b *Bus) Kick() {
	if b.serving != nil {
		return
	}
	for _, c := range b.favoured {
		if b.begin(c) {
			return
		}
	}
	for i := range b.clients {
		at := (b.next + i) % len(b.clients)
		if b.begin(b.clients[at]) {
			b.next = at + 1
			return
		}
	}
}

func (b *Bus) begin(c Client) bool {
	hold, ok := c.Offer()
	if !ok {
		return false
	}
	b.serving = c
	b.Busy.Set(b.s.Now(), 1)
	c.Begin()
	if b.trace != nil {
		b.trace.Span(b.track, b.label(c), b.s.Now(), b.s.Now()+b.Grant+hold, int64(b.Served))
	}
	b.s.ScheduleAfter(b.Grant+hold, (*busEnd)(b), 0, 0)
	return true
}

type busEnd Bus

func (e *busEnd) Handle(int64, int64) {
	b := (*Bus)(e)
	b.Served++
	b.Busy.Set(b.s.Now(), 0)
	b.serving.End() // still taken: what End kicks is looked at below
	b.serving = nil
	b.Kick()
}
