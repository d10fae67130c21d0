package predict

import (
	"math"

	"ringlet/barrier"
	"ringlet/readoutunit"
	"ringlet/sim"
	"ringlet/sim/part"
	"ringlet/tagnet"
)

// Pipeline of a part, all sequential:
//
//	1 turn      the order says what the readout unit does now
//	2 prepare   its processor makes the write
//	3 inject    segment by segment into the host's port, as there is room, each with its work
//	4 take      the builder unit's processor has a segment
//	5 done      the last one is acknowledged: the order goes on
//	6 enter     the phase is over: the barrier, if there is one

// ru is a readout unit.
type ru struct {
	w     *world
	index int
	part  int
	host  *host
	order readoutunit.Order
	ring  readoutunit.Ring // nil without tags
	gate  *barrier.Core    // nil without a barrier

	inside  bool // the barrier
	since   sim.Time
	acts    barrier.Actions
	flows   []*flow // under way, in turns
	turn    int
	working bool // on a segment
	busy    bool // with making a write
	stands  bool // in a host's queue for room
}

// ahead is how many segments a host has in its card and in work: one leaves while the next is made.
const ahead = 2

// flow is a write under way.
type flow struct {
	place uint64
	to    *bu
	left  int      // bytes that are still to go
	since sim.Time // of the last segment, or of the beginning
	path  []*part.Port
}

// serve takes turn after turn as the order says, until something has to happen first.
func (r *ru) serve() {
	for !r.inside && !r.busy && r.w.err == nil {
		switch turn, place := r.order.Turn(); turn {
		case readoutunit.Send:
			r.busy = true
			r.w.s.At(r.host.cpu.do(ticks(r.w.costs.Part)), (*prepared)(r), int64(place), 0)
		case readoutunit.Pass:
			r.enter()
		default:
			r.forward()
			return
		}
	}
}

type prepared ru

// Handle: the write is made.
func (e *prepared) Handle(place, _ int64) {
	r := (*ru)(e)
	w := r.w
	r.busy = false
	w.places = r.order.Serve(uint64(place), 1, w.places[:0])
	for _, place := range w.places {
		t := r.order.At(place)
		f := &flow{
			place: place,
			to:    w.bus[t.BU],
			since: w.s.Now(),
			left:  max(1, r.size(t.MEP)),
		}
		w.sent += uint64(f.left)
		if f.to.host != r.host { // else within the host's memory
			f.path = w.tree.path(r.host, f.to.host)
		}
		r.flows = append(r.flows, f)
	}
	r.inject()
	r.serve()
}

// inject works on the next segment of a flow that has room, and takes its place.
func (r *ru) inject() {
	w := r.w
	if r.working || r.stands || len(r.flows) == 0 || r.host.ahead >= ahead {
		return
	}
	for range r.flows {
		r.turn = (r.turn + 1) % len(r.flows)
		f := r.flows[r.turn]
		data := min(f.left, w.segment)
		if size := int64(w.wire(data)); f.path == nil || w.f.Hosts.Lossless || f.to.host.room >= size {
			r.working = true
			r.host.ahead++
			if f.path != nil {
				f.to.host.room -= size
			}
			cost := float64(w.packets(data))*w.costs.Packet + float64(data)*w.costs.Byte
			w.s.At(r.host.cpu.do(ticks(cost)), (*worked)(r), int64(data), 0)
			return
		}
	}
	r.stands = true
	to := r.flows[r.turn].to.host
	to.waiting = append(to.waiting, r)
}

type worked ru

// Handle: a segment is ready.
func (e *worked) Handle(bytes, _ int64) {
	r := (*ru)(e)
	w := r.w
	f := r.flows[r.turn]
	f.left -= int(bytes)
	p := w.pool.Get()
	p.Src, p.Dst = int32(r.index), int32(f.to.index)
	p.Size = w.wire(int(bytes))
	p.Path, p.To = f.path, f.to
	p.ID, p.Part, p.Last = int64(f.place), bytes, f.left == 0
	if p.Last {
		r.flows = append(r.flows[:r.turn], r.flows[r.turn+1:]...)
	}
	r.working = false
	if f.path != nil {
		again := w.again(f, int(bytes), p.Size)
		f.to.host.room -= again
		p.Size += int32(again)
		f.since = w.s.Now()
		part.Inject(p)
	} else {
		r.host.ahead--
		f.to.Take(p)
	}
	r.inject()
}

// again is how many bytes are sent once more, since packets of a segment have waited for too long: after a time, after
// twice as long, and so on. Packets of several senders to a port take turns, so each of a segment waits for its share of
// the time. Where switches lose nothing, senders wait for them.
func (w *world) again(f *flow, data int, size int32) int64 {
	waited := (w.s.Now() - f.since).Seconds() / float64(w.packets(data))
	if w.f.Hosts.Lossless || waited < w.costs.Patience {
		return 0
	}
	return int64(math.Log2(waited/w.costs.Patience+1)) * int64(size)
}

type left host

// Handle: a segment has left the card, so there is room for one more.
func (e *left) Handle(_, _ int64) {
	h := (*host)(e)
	h.ahead--
	h.turn++
	for i := range h.rus { // in turns, where a host has several
		h.rus[(h.turn+i)%len(h.rus)].inject()
	}
}

// bu is a builder unit.
type bu struct {
	w     *world
	index int
	host  *host
	got   []int // parts of the MEP in a slot

	wishes []wish
	asking int
	until  sim.Time // suspended
	kept   []tagnet.Feedback
}

// Take has a segment at the builder unit's host.
func (b *bu) Take(p *part.Packet) {
	w := b.w
	cost := float64(w.packets(int(p.Part)))*w.costs.Packet + float64(p.Part)*w.costs.Byte
	if p.Last {
		cost += w.costs.Part
	}
	if p.Path != nil {
		b.host.room += int64(p.Size)
		for n := len(b.host.waiting); n > 0 && b.host.room >= int64(w.wire(w.segment)); n-- {
			r := b.host.waiting[0]
			b.host.waiting = b.host.waiting[1:]
			r.stands = false
			r.inject()
		}
	}
	w.placed += uint64(p.Part)
	last := int64(0)
	if p.Last {
		last = 1
	}
	w.s.At(b.host.cpu.do(ticks(cost)), (*taken)(w.rus[p.Src]), p.ID, last)
	w.pool.Put(p)
}

type taken ru

// Handle: the builder unit's processor is done with a segment of this readout unit, maybe the last of a part.
func (e *taken) Handle(place, last int64) {
	r := (*ru)(e)
	if last == 0 {
		return
	}
	w := r.w
	t := r.order.At(uint64(place))
	b := w.bus[t.BU]
	token := t.Token
	b.got[token.Slot]++
	whole := b.got[token.Slot] == len(w.rus)
	w.s.After(w.flight(), (*done)(r), place, 0)
	w.counts()
	if w.c.discipline().Pull {
		b.asking--
		b.ask()
	}
	if whole {
		b.got[token.Slot] = 0
		b.complete(token)
	}
}

type done ru

// Handle: a write is acknowledged.
func (e *done) Handle(place, _ int64) {
	r := (*ru)(e)
	r.w.must(r.order.Complete([]uint64{uint64(place)}))
	r.serve()
}

// enter is at the end of a phase.
func (r *ru) enter() {
	if r.gate == nil {
		r.order.Passed(1)
		return
	}
	r.inside, r.since = true, r.w.s.Now()
	r.acts.Send, r.acts.Released = r.acts.Send[:0], false
	r.w.must(r.gate.Enter(r.micros(), &r.acts))
	r.signal()
}

func (r *ru) micros() int64 { return int64(r.w.s.Now() / sim.Microsecond) }

// signal sends what the barrier asked for, and leaves it if it is over.
func (r *ru) signal() {
	w := r.w
	for _, m := range r.acts.Send {
		at := r.host.cpu.do(ticks(w.costs.Message))
		w.s.At(at+w.flight(), (*arrived)(w.rus[m.To]), w.letters.put(m), 0)
	}
	if r.acts.Released {
		r.inside = false
		w.barriers.Add(int64(w.s.Now() - r.since))
		r.order.Passed(1)
	}
}

type arrived ru

// Handle: a message is here, and waits for the processor.
func (e *arrived) Handle(message, _ int64) {
	r := (*ru)(e)
	r.w.s.At(r.host.cpu.do(ticks(r.w.costs.Message)), (*handled)(r), message, 0)
}

type handled ru

// Handle: the processor has the message.
func (e *handled) Handle(message, _ int64) {
	r := (*ru)(e)
	r.acts.Send, r.acts.Released = r.acts.Send[:0], false
	r.w.must(r.gate.Receive(r.w.letters.get(message), r.micros(), &r.acts))
	r.signal()
	r.serve()
}
