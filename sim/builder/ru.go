package builder

import (
	"ringlet/event/placing"
	"ringlet/readoutunit"
	"ringlet/sim"
	"ringlet/sim/part"
	"ringlet/tagnet"
)

// Pipeline of a part, all sequential:
//
//	1 turn      the order says what the readout unit does now
//	2 prepare   its software gets the write ready
//	3 inject    segment by segment into the host's port, as there is room, each with its work
//	4 take      the builder unit's processor has a segment
//	5 done      the last one is acknowledged: the order goes on
//	6 enter     the phase is over: the barrier, if there is one

// ru is a readout unit.
type ru struct {
	w     *World
	index int
	host  *host
	track sim.Track
	order readoutunit.Order
	ring  readoutunit.TagOrder // the order, where it is one
	gate

	// what it does
	doing    doing
	since    sim.Time
	spent    [NumberOfDoings]sim.Time
	sends    uint64 // place that is prepared
	ready    bool   // it is, and waits for a write before it
	underWay int    // writes without an acknowledgement
	phases   int
	cycles   int // of tokens, that are over
	over     int // writes

	flows   []*flow // under way, in turns
	turn    int
	working bool // on a segment of the flow whose turn it is
	stands  bool // in a host's queue for room

	sizes map[uint64]int // of the parts that were read, by MEP
}

// flow is a write under way.
type flow struct {
	place uint64
	to    *bu
	left  int      // bytes that are still to go
	since sim.Time // of the last segment, or of the beginning
	path  []*part.Port
}

// doing is what a readout unit does.
type doing uint8

// What a readout unit may do, and how many things that are.
const (
	idle      doing = iota // waits for tokens or windows
	preparing              // software
	sending                // waits for its write
	Waiting                // inside the barrier
	NumberOfDoings
)

// Doings are their names in results and traces.
var Doings = [NumberOfDoings]string{"idle", "software", "transfer", "barrier"}

// begin changes what the readout unit does.
func (r *ru) begin(d doing) {
	now := r.w.s.Now()
	if now > r.since {
		r.w.c.Trace.Span(r.track, Doings[r.doing], r.since, now, int64(r.phases))
	}
	r.spent[r.doing] += now - r.since
	r.doing, r.since = d, now
}

// step takes turn after turn as the order says, until something has to happen first.
func (r *ru) step() {
	for !r.ready && (r.doing == idle || r.doing == sending) && !r.w.ending && r.w.err == nil {
		turn, place := r.order.NextAction()
		switch turn {
		case readoutunit.Send:
			r.begin(preparing)
			r.sends = place
			r.w.s.At(r.w.model.Prepare(r.index), (*prepared)(r), 0, 0)
		case readoutunit.AdvancePhase:
			r.begin(Waiting)
			r.enter()
		case readoutunit.WaitWrite:
			if r.doing != sending {
				r.begin(sending)
			}
			return
		default:
			if r.doing != idle {
				r.begin(idle)
			}
			return
		}
	}
}

type prepared ru

// Handle: the write is ready.
func (e *prepared) Handle(_, _ int64) {
	r := (*ru)(e)
	r.begin(sending)
	r.ready = true
	r.serve()
}

// serve writes what is prepared, if the unit may have another write under way, and goes on.
func (r *ru) serve() {
	w := r.w
	if r.ready {
		if w.c.Writes > 0 && r.underWay >= w.c.Writes {
			return
		}
		r.ready = false
		w.places = r.order.Serve(r.sends, 1, w.places[:0])
		for _, place := range w.places {
			t := r.order.TransferAt(place)
			r.underWay++
			w.send(r, &flow{
				place: place,
				to:    w.bus[t.BU],
				left:  max(1, r.sizes[t.MEP]),
			})
		}
	}
	r.step()
}

// send begins a write.
func (w *World) send(r *ru, f *flow) {
	f.path = w.path(r.host, f.to.host)
	f.since = w.s.Now()
	w.sent += uint64(f.left)
	r.flows = append(r.flows, f)
	r.inject()
}

// inject gives the host's card what it has room for, a segment of each flow in turn.
func (r *ru) inject() {
	w := r.w
	for !r.working && !r.stands && len(r.flows) > 0 {
		full := r.host.ahead >= ahead
		if full && w.c.Card { // nothing goes by it, and nobody's turn is over
			return
		}
		f := r.next()
		if f == nil || full && f.path != nil {
			return
		}
		data := min(f.left, w.c.Segment)
		r.working = true
		if f.path != nil {
			r.host.ahead++
		}
		if w.c.Room > 0 && f.path != nil {
			f.to.host.room -= int64(w.c.Wire(data))
		}
		if at := w.model.Send(r.index, f.to.index, data); at > w.s.Now() {
			w.s.At(at, (*worked)(r), int64(data), 0)
			return
		}
		r.emit(data)
	}
}

// next is the flow whose turn it is of those that have room at their host. Where none has any, the unit stands in line
// there.
func (r *ru) next() *flow {
	w := r.w
	for range r.flows {
		if r.turn >= len(r.flows) {
			r.turn = 0
		}
		f := r.flows[r.turn]
		if w.c.Room == 0 || f.path == nil || f.to.host.room >= int64(w.c.Wire(min(f.left, w.c.Segment))) {
			return f
		}
		r.turn++
	}
	if r.turn >= len(r.flows) {
		r.turn = 0
	}
	r.stands = true
	to := r.flows[r.turn].to.host
	to.waiting = append(to.waiting, r)
	return nil
}

type worked ru

// Handle: a segment is ready.
func (e *worked) Handle(bytes, _ int64) {
	r := (*ru)(e)
	r.emit(int(bytes))
	r.inject()
}

// emit sends a segment of the flow whose turn it is.
func (r *ru) emit(data int) {
	w := r.w
	f := r.flows[r.turn]
	f.left -= data
	p := w.pool.Get()
	p.Src, p.Dst = int32(r.index), int32(f.to.index)
	p.Size = w.c.Wire(data)
	p.Path, p.To = f.path, f.to
	p.ID, p.Part, p.Last = int64(f.place), int64(data), f.left == 0
	if p.Last {
		r.flows = append(r.flows[:r.turn], r.flows[r.turn+1:]...)
	} else {
		r.turn++
	}
	r.working = false
	if f.path == nil { // no card
		f.to.Take(p)
		return
	}
	if again := w.model.Again(w.s.Now()-f.since, data, p.Size); again > 0 {
		f.to.host.room -= again
		p.Size += int32(again)
	}
	f.since = w.s.Now()
	if !part.Inject(p) {
		panic("builder: a card's port has no limit, and refused a segment")
	}
}

type done ru

// Handle: a write is acknowledged.
func (e *done) Handle(place, _ int64) {
	r := (*ru)(e)
	w := r.w
	r.underWay--
	if r.over++; !w.c.Discipline.Phases && r.over%len(w.bus) == 0 { // there is no round that ends
		r.cycles++
		w.read(r)
	}
	w.must(r.order.Complete([]uint64{uint64(place)}))
	r.serve()
	r.forward()
}

// pass goes on to the next phase.
func (r *ru) pass() {
	r.begin(idle)
	r.phases++
	before := r.order.RoundStart()
	r.order.AdvancePhase(1)
	if r.order.RoundStart() != before {
		r.cycles++
		r.w.read(r)
	}
}

// grant gives a readout unit the window for its part.
func (r *ru) grant(t *tagnet.Token) {
	r.w.must(r.order.ApplyGrant(int(t.BU), &placing.Grant{
		Slot:    t.Slot,
		Attempt: uint32(t.Attempt),
		MEP:     t.MEP,
		Window:  1,
		Gen:     1,
		Length:  uint32(r.sizes[t.MEP]),
	}))
}
