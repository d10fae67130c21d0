package component

import "ringlet/sim"

// Packet is a piece of data on its way. Models set the fields, and return packets to a Pool.
type Packet struct {
	Src, Dst      int32
	Size          int32    // bytes on the wire
	PortsPassed   int32    // number of ports that it has left
	Path          []*Port  // all ports of the route, shared by its packets; PortsPassed is the index of the current one
	Receiver      Receiver // receives it at the end of the path
	ReadyAt       sim.Time // when its first byte was ready
	ID            int64    // the model's: an event, a message
	Chunk         int64    // the model's: a chunk of it
	LastOfMessage bool     // the model's: the last of a message
}

// A Receiver receives packets.
type Receiver interface{ Receive(p *Packet) }

// Pool keeps packets for reuse, so that a steady model allocates none.
type Pool struct{ free []*Packet }

// Get returns an empty packet.
func (p *Pool) Get() *Packet {
	if n := len(p.free); n > 0 {
		packet := p.free[n-1]
		p.free = p.free[:n-1]
		*packet = Packet{}
		return packet
	}
	return new(Packet)
}

// Put takes back a packet that is no longer used.
func (p *Pool) Put(packet *Packet) { p.free = append(p.free, packet) }

// PortConfig describes a port.
type PortConfig struct {
	PerByte     sim.Time // picoseconds a byte: 40 at 200 Gbit/s
	Latency     sim.Time // from the end of a packet on this side to its end on the other: cable and switch
	BufferBytes int64    // bytes waiting and being sent; 0: no limit
	CutThrough  bool     // a packet may go on when its first byte has come (the next port must not be faster); else when
	//                     its last has
	DropWhenFull bool // a packet that finds the next port's buffer full is dropped; else it waits here
}

// Port is an output: a queue in a finite buffer, and the wire behind it. A packet that leaves it goes to the next port
// of its path, or to its receiver. Unless it drops, a port sends only what the next port has space for: the packet at
// the head waits, and all behind it with it (head-of-line blocking). So congestion spreads in lossless networks.
type Port struct {
	s                *sim.Sim
	cfg              PortConfig
	queue            *Queue[*Packet]
	inFlight         *Queue[*Packet] // sent, not yet arrived
	blockedPorts     *Queue[*Port]   // ports that wait for space here, in the order of asking
	sending          bool
	waitsForNextPort bool // this port is in the next one's blockedPorts
	blockedTime      sim.Time
	since            sim.Time

	HeldBytes      sim.Level // bytes in the buffer
	Busy           sim.Level // 1 while it sends
	DroppedPackets uint64
	OnFreed        sim.Handler   // called when a packet has left the buffer: a source injects its next; may be nil
	OnDropped      func(*Packet) // called with dropped packets; may be nil
}

// NewPort makes an idle port.
func NewPort(s *sim.Sim, cfg PortConfig) *Port {
	return &Port{
		s:            s,
		cfg:          cfg,
		queue:        NewQueue[*Packet](s, 0),
		inFlight:     NewQueue[*Packet](s, 0),
		blockedPorts: NewQueue[*Port](s, 0),
	}
}

// fits reports whether a packet of that size fits into the buffer now. An empty buffer takes any packet.
func (p *Port) fits(size int32) bool {
	return p.cfg.BufferBytes == 0 || p.HeldBytes.Value() == 0 || p.HeldBytes.Value()+int64(size) <= p.cfg.BufferBytes
}

// Inject starts a packet at the first port of its path, and reports whether the port had space.
func Inject(packet *Packet) bool {
	first := packet.Path[0]
	if !first.fits(packet.Size) {
		return false
	}
	first.reserveSpace(packet)
	first.Receive(packet)
	return true
}

// Receive queues a packet for which reserveSpace was called.
func (p *Port) Receive(packet *Packet) {
	p.queue.Put(packet)
	p.kick()
}

func (p *Port) reserveSpace(packet *Packet) { p.HeldBytes.Add(p.s.Now(), int64(packet.Size)) }

// kick sends the first packet, if the wire is idle and the next port has space.
func (p *Port) kick() {
	if p.sending || p.waitsForNextPort || p.queue.Len() == 0 {
		return
	}
	packet := p.queue.First()
	next := packet.next()
	if next != nil && !p.cfg.DropWhenFull {
		if !next.fits(packet.Size) {
			p.waitsForNextPort, p.since = true, p.s.Now()
			next.blockedPorts.Put(p)
			return
		}
		next.reserveSpace(packet)
	}
	p.queue.Get()
	p.sending = true
	p.Busy.Set(p.s.Now(), 1)
	p.inFlight.Put(packet)
	time := sim.Time(packet.Size) * p.cfg.PerByte
	p.s.ScheduleAfter(time, (*portSent)(p), int64(packet.Size), 0)
	if p.cfg.CutThrough && next != nil {
		time = 0
	}
	p.s.ScheduleAfter(time+p.cfg.Latency, (*portArrived)(p), 0, 0)
}

// next is the next port on the packet's path; nil if the receiver is next.
func (packet *Packet) next() *Port {
	if int(packet.PortsPassed)+1 < len(packet.Path) {
		return packet.Path[packet.PortsPassed+1]
	}
	return nil
}

type portSent Port

// Handle: the last byte is out, so its space in the buffer is free.
func (e *portSent) Handle(size, _ int64) {
	p := (*Port)(e)
	p.sending = false
	p.Busy.Set(p.s.Now(), 0)
	p.HeldBytes.Add(p.s.Now(), -size)
	for p.blockedPorts.Len() > 0 && p.fits(p.blockedPorts.First().queue.First().Size) {
		waiting := p.blockedPorts.Get()
		waiting.waitsForNextPort = false
		waiting.blockedTime += p.s.Now() - waiting.since
		waiting.kick()
	}
	p.kick()
	if p.OnFreed != nil {
		p.OnFreed.Handle(size, 0)
	}
}

type portArrived Port

func (e *portArrived) Handle(int64, int64) {
	p := (*Port)(e)
	packet := p.inFlight.Get()
	next := packet.next()
	packet.PortsPassed++
	switch {
	case next == nil:
		packet.Receiver.Receive(packet)
	case !p.cfg.DropWhenFull:
		next.Receive(packet)
	case next.fits(packet.Size):
		next.reserveSpace(packet)
		next.Receive(packet)
	default:
		next.DroppedPackets++
		if next.OnDropped != nil {
			next.OnDropped(packet)
		}
	}
}
