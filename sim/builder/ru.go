package builder

import (
	"ringlet/event/placing"
	"ringlet/readoutunit"
	"ringlet/sim"
	"ringlet/sim/component"
	"ringlet/tagnet"
)

// Pipeline of a part, all sequential:
//
//	1 step      the order says what the readout unit does now
//	2 prepare   its software gets the write ready
//	3 inject    segment by segment into the host's port, as there is room, each with its work
//	4 receive   the builder unit's processor has a segment
//	5 done      the last one is acknowledged: the order goes on
//	6 enter     the phase is over: the barrier, if there is one

// ru is a readout unit.
type ru struct {
	w       *World
	index   int
	host    *host
	track   sim.Track
	order   readoutunit.Order
	tagRing readoutunit.TagOrder // the order, where it is one
	barrierState

	// what it does
	activity   activity
	since      sim.Time
	spent      [NumActivities]sim.Time
	sendPlace  uint64 // place that is prepared
	ready      bool   // it is, and waits for a write before it
	unacked    int    // writes without an acknowledgement
	phases     int
	cycles     int // of tokens, that are over
	writesDone int // writes

	flows           []*flow // under way, in turns
	turn            int
	working         bool // on a segment of the flow whose turn it is
	waitingForSpace bool // in a host's queue for room

	sizes map[uint64]int // of the parts that were read, by MEP
}

// flow is a write under way.
type flow struct {
	place     uint64
	to        *bu
	remaining int      // bytes that are still to go
	since     sim.Time // of the last segment, or of the beginning
	path      []*component.Port
}

// activity is what a readout unit does.
type activity uint8

// What a readout unit may do, and how many things that are.
const (
	idle      activity = iota // waits for tokens or windows
	preparing                 // software
	sending                   // waits for its write
	Waiting                   // inside the barrier
	NumActivities
)

// ActivityNames are their names in results and traces.
var ActivityNames = [NumActivities]string{"idle", "software", "transfer", "barrier"}

// setActivity changes what the readout unit does.
func (r *ru) setActivity(d activity) {
	now := r.w.s.Now()
	if now > r.since {
		r.w.c.Trace.Span(r.track, ActivityNames[r.activity], r.since, now, int64(r.phases))
	}
	r.spent[r.activity] += now - r.since
	r.activity, r.since = d, now
}

// step takes action after action as the order says, until something has to happen first.
func (r *ru) step() {
	for !r.ready && (r.activity == idle || r.activity == sending) && !r.w.ending && r.w.err == nil {
		turn, place := r.order.NextAction()
		switch turn {
		case readoutunit.Send:
			r.setActivity(preparing)
			r.sendPlace = place
			r.w.s.ScheduleAt(r.w.model.Prepare(r.index), (*writePrepared)(r), 0, 0)
		case readoutunit.AdvancePhase:
			r.setActivity(Waiting)
			r.enterBarrier()
		case readoutunit.WaitWrite:
			if r.activity != sending {
				r.setActivity(sending)
			}
			return
		default:
			if r.activity != idle {
				r.setActivity(idle)
			}
			return
		}
	}
}

type writePrepared ru

// Handle: the write is ready.
func (e *writePrepared) Handle(_, _ int64) {
	r := (*ru)(e)
	r.setActivity(sending)
	r.ready = true
	r.serve()
}

// serve writes what is prepared, if the unit may have another write under way, and goes on.
func (r *ru) serve() {
	w := r.w
	if r.ready {
		if w.c.Writes > 0 && r.unacked >= w.c.Writes {
			return
		}
		r.ready = false
		w.places = r.order.Serve(r.sendPlace, 1, w.places[:0])
		for _, place := range w.places {
			t := r.order.TransferAt(place)
			r.unacked++
			w.send(r, &flow{
				place:     place,
				to:        w.bus[t.BU],
				remaining: max(1, r.sizes[t.MEP]),
			})
		}
	}
	r.step()
}

// send begins a write.
func (w *World) send(r *ru, f *flow) {
	f.path = w.path(r.host, f.to.host)
	f.since = w.s.Now()
	w.sent += uint64(f.remaining)
	r.flows = append(r.flows, f)
	r.inject()
}

// inject gives the host's card what it has room for, a segment of each flow in turn.
func (r *ru) inject() {
	w := r.w
	for !r.working && !r.waitingForSpace && len(r.flows) > 0 {
		full := r.host.queued >= maxQueued
		if full && w.c.Card { // nothing goes by it, and nobody's turn is over
			return
		}
		f := r.nextFlow()
		if f == nil || full && f.path != nil {
			return
		}
		data := min(f.remaining, w.c.Segment)
		r.working = true
		if f.path != nil {
			r.host.queued++
		}
		if w.c.InFlightLimit > 0 && f.path != nil {
			f.to.host.inFlightBudget -= int64(w.c.Wire(data))
		}
		if at := w.model.Send(r.index, f.to.index, data); at > w.s.Now() {
			w.s.ScheduleAt(at, (*segmentReady)(r), int64(data), 0)
			return
		}
		r.emit(data)
	}
}

// nextFlow is the flow whose turn it is of those that have room at their host. Where none has any, the unit stands in
// line there.
func (r *ru) nextFlow() *flow {
	w := r.w
	for range r.flows {
		if r.turn >= len(r.flows) {
			r.turn = 0
		}
		f := r.flows[r.turn]
		if w.c.InFlightLimit == 0 || f.path == nil || f.to.host.inFlightBudget >= int64(w.c.Wire(min(f.remaining,
			w.c.Segment))) {
			return f
		}
		r.turn++
	}
	if r.turn >= len(r.flows) {
		r.turn = 0
	}
	r.waitingForSpace = true
	to := r.flows[r.turn].to.host
	to.waiting = append(to.waiting, r)
	return nil
}

type segmentReady ru

// Handle: a segment is ready.
func (e *segmentReady) Handle(bytes, _ int64) {
	r := (*ru)(e)
	r.emit(int(bytes))
	r.inject()
}

// emit sends a segment of the flow whose turn it is.
func (r *ru) emit(data int) {
	w := r.w
	f := r.flows[r.turn]
	f.remaining -= data
	p := w.pool.Get()
	p.Src, p.Dst = int32(r.index), int32(f.to.index)
	p.Size = w.c.Wire(data)
	p.Path, p.To = f.path, f.to
	p.ID, p.Chunk, p.Last = int64(f.place), int64(data), f.remaining == 0
	if p.Last {
		r.flows = append(r.flows[:r.turn], r.flows[r.turn+1:]...)
	} else {
		r.turn++
	}
	r.working = false
	if f.path == nil { // no card
		f.to.Receive(p)
		return
	}
	if again := w.model.ResentBytes(w.s.Now()-f.since, data, p.Size); again > 0 {
		f.to.host.inFlightBudget -= again
		p.Size += int32(again)
	}
	f.since = w.s.Now()
	if !component.Inject(p) {
		panic("builder: a card's port has no limit, and refused a segment")
	}
}

type writeAcked ru

// Handle: a write is acknowledged.
func (e *writeAcked) Handle(place, _ int64) {
	r := (*ru)(e)
	w := r.w
	r.unacked--
	if r.writesDone++; !w.c.Discipline.Phases && r.writesDone%len(w.bus) == 0 { // there is no round that ends
		r.cycles++
		w.reportRead(r)
	}
	w.recordError(r.order.Complete([]uint64{uint64(place)}))
	r.serve()
	r.forward()
}

// nextPhase goes on to the next phase.
func (r *ru) nextPhase() {
	r.setActivity(idle)
	r.phases++
	before := r.order.RoundStart()
	r.order.AdvancePhase(1)
	if r.order.RoundStart() != before {
		r.cycles++
		r.w.reportRead(r)
	}
}

// grant gives a readout unit the window for its part.
func (r *ru) grant(t *tagnet.Token) {
	r.w.recordError(r.order.ApplyGrant(int(t.BU), &placing.Grant{
		Slot:    t.Slot,
		Attempt: uint32(t.Attempt),
		MEP:     t.MEP,
		Window:  1,
		Gen:     1,
		Length:  uint32(r.sizes[t.MEP]),
	}))
}
