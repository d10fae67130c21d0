package simnet

import (
	"container/heap"
	"time"
)

// A Machine is one end of a link as a pure state machine; link.Core is one.
type Machine interface {
	Next(now int64, buf []byte) int
	Receive(now int64, d []byte) error
	EndBatch()
	Deadline() int64
	Tick(now int64)
}

// A Pair joins two machines by two faulty wires and runs them in virtual time, without goroutines: the same seed gives
// the same run to the byte.
type Pair struct {
	Ends [2]Machine
	// OnChange, if set, is called whenever an end has changed, so that the owner can read its events. Data in the received
	// datagram is valid only until OnChange returns.
	OnChange func(end int)
	// Sent, Lost, Delivered and Reordered (delivered after a later one) count datagrams by the sending end.
	Sent, Lost, Delivered, Reordered [2]int

	// ShouldLose, if set, decides in addition to the Faults which datagrams are lost.
	ShouldLose func(from int, d []byte) bool
	// EmptySends counts how often an end reported datagrams due for maxSends calls, and sent none.
	EmptySends [2]int

	now             int64
	wires           [2]*wire
	drivers         [2]endDriver
	queue           flights
	order           uint64
	newestDelivered [2]uint64 // order of the newest datagram delivered, by sending end
	buf             []byte
	delays          []time.Duration
	freeBufs        [][]byte // buffers of delivered datagrams
}

// NewPair joins a and b. Each direction has a random sequence of its own.
func NewPair(a, b Machine, maxDatagram int, f Faults, seed uint64) *Pair {
	return &Pair{
		Ends:  [2]Machine{a, b},
		wires: [2]*wire{newWire(f, 2*seed), newWire(f, 2*seed+1)},
		buf:   make([]byte, maxDatagram),
		now:   int64(time.Second),
	}
}

// SetSendModes sets how the owners of both ends send. Unless the mode is Eager, call Wake after each request to the
// machine.
func (p *Pair) SetSendModes(a, b SendMode) { p.drivers[0].mode, p.drivers[1].mode = a, b }

// Now is the virtual time, ns.
func (p *Pair) Now() int64 { return p.now }

// Run goes on until done reports true, no more events can come, or the limit of virtual time is reached. It returns
// what done returned last.
func (p *Pair) Run(limit time.Duration, done func() bool) bool {
	end := p.now + int64(limit)
	for {
		p.drain()
		if done() {
			return true
		}
		t, ok := p.next()
		if !ok || t > end {
			return false
		}
		p.now = max(p.now, t)
		p.arrive()
		p.runPumps()
		for e := range p.Ends {
			if d := p.Ends[e].Deadline(); p.drivers[e].mode == Eager && d != 0 && d <= p.now {
				p.Ends[e].Tick(p.now)
				p.changed(e)
			}
		}
	}
}

// drain lets both ends send all that they may.
func (p *Pair) drain() {
	for e := range p.Ends {
		if p.drivers[e].mode != Eager {
			continue
		}
		for n := p.Ends[e].Next(p.now, p.buf); n > 0; n = p.Ends[e].Next(p.now, p.buf) {
			p.send(e, p.buf[:n])
		}
		p.changed(e)
	}
}

func (p *Pair) send(from int, d []byte) {
	p.Sent[from]++
	if p.ShouldLose != nil && p.ShouldLose(from, d) {
		p.Lost[from]++
		return
	}
	p.delays = p.wires[from].drawDelays(p.delays[:0])
	if len(p.delays) == 0 {
		p.Lost[from]++
		return
	}
	for _, delay := range p.delays {
		var data []byte
		if n := len(p.freeBufs); n > 0 {
			data, p.freeBufs = p.freeBufs[n-1][:0], p.freeBufs[:n-1]
		}
		p.order++
		heap.Push(&p.queue, flight{
			at:    p.now + int64(delay),
			order: p.order,
			to:    1 - from,
			data:  append(data, d...),
		})
	}
}

// next is when the next datagram or deadline is due.
func (p *Pair) next() (int64, bool) {
	t, ok := int64(0), false
	if len(p.queue) > 0 {
		t, ok = p.queue[0].at, true
	}
	for e, m := range p.Ends {
		d := m.Deadline()
		if p.drivers[e].mode != Eager {
			d = p.drivers[e].wakeAt
		}
		if d != 0 && (!ok || d < t) {
			t, ok = d, true
		}
	}
	return t, ok
}

// arrive delivers all datagrams that are due.
func (p *Pair) arrive() {
	var got [2]bool
	for len(p.queue) > 0 && p.queue[0].at <= p.now {
		f := heap.Pop(&p.queue).(flight)
		from := 1 - f.to
		p.Delivered[from]++
		if f.order < p.newestDelivered[from] {
			p.Reordered[from]++
		}
		p.newestDelivered[from] = max(p.newestDelivered[from], f.order)
		// The machine counts a datagram that does not parse; the caller checks the counters.
		_ = p.Ends[f.to].Receive(p.now, f.data)
		got[f.to] = true
		p.changed(f.to)
		p.freeBufs = append(p.freeBufs, f.data)
	}
	for e, g := range got {
		if !g {
			continue
		}
		if p.drivers[e].mode != Eager {
			p.finishRead(e)
		}
		p.Ends[e].EndBatch()
		if p.drivers[e].mode != Eager {
			p.finishRead(e)
		}
	}
}

func (p *Pair) changed(e int) {
	if p.OnChange != nil {
		p.OnChange(e)
	}
}

// flight is a datagram on the wire.
type flight struct {
	at    int64
	order uint64
	to    int
	data  []byte
}

type flights []flight

func (f flights) Len() int { return len(f) }
func (f flights) Less(i, j int) bool {
	return f[i].at < f[j].at || f[i].at == f[j].at && f[i].order < f[j].order
}
func (f flights) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *flights) Push(x any)   { *f = append(*f, x.(flight)) }
func (f *flights) Pop() any {
	old := *f
	x := old[len(old)-1]
	*f = old[:len(old)-1]
	return x
}
