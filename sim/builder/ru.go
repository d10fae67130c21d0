package builder

import (
	"ringlet/event/placing"
	"ringlet/readoutunit"
	"ringlet/sim"
	"ringlet/sim/component"
	"ringlet/tagnet/core"
)

// Pipeline of a part, all sequential:
//
//	1 step                the order has the readout unit's next action
//	2 writePrepared       the software has prepared the write
//	3 fillCard            segments go into the host's port as there is room, each with its processor time
//	4 bu.Receive          the builder unit's processor handles a segment
//	5 writeAcked          the last segment is acknowledged: the order goes on
//	6 enterBarrier        the phase is over: enter the barrier, if there is one

// ru is a readout unit.
type ru struct {
	w       *World
	index   int
	host    *host
	track   sim.Track
	order   *readoutunit.Transfers
	tagRing readoutunit.TagOrder // the same order, if the discipline has tags
	barrierState

	// current activity
	activity      activity
	activitySince sim.Time
	timeSpent     [NumActivities]sim.Time
	preparedPlace uint64 // place of the prepared write
	writeReady    bool   // a write is prepared, and waits for writes before it
	unackedWrites int
	phasesDone    int
	cyclesDone    int // cycles of tokens that are over
	writesDone    int

	flows           []*flow // writes under way, in turn
	flowTurn        int
	makingSegment   bool // a segment of the flow whose turn it is
	waitingForSpace bool // in the queue of a host for its budget

	sizes map[uint64]int // bytes of the parts that were read, by MEP

	mepsRead uint64     // MEPs below are read; used with push
	credits  []*credits // with push: cycles whose MEPs are not all read, in order
}

// flow is a write under way.
type flow struct {
	place         uint64
	destination   *bu
	bytesLeft     int      // bytes that have not been sent
	lastSegmentAt sim.Time // when the last segment was sent, or the write began
	path          []*component.Port
}

// activity is the current activity of a readout unit.
type activity uint8

// Activities of a readout unit, and their number.
const (
	idle      activity = iota // waits for tokens or windows
	preparing                 // its software prepares a write
	sending                   // waits for the end of its write
	InBarrier                 // inside the barrier
	NumActivities
)

// ActivityNames are the names of activities in results and traces.
var ActivityNames = [NumActivities]string{"idle", "software", "transfer", "barrier"}

// setActivity ends the current activity, and begins another.
func (r *ru) setActivity(d activity) {
	now := r.w.s.Now()
	if now > r.activitySince {
		r.w.c.Trace.Span(r.track, ActivityNames[r.activity], r.activitySince, now, int64(r.phasesDone))
	}
	r.timeSpent[r.activity] += now - r.activitySince
	r.activity, r.activitySince = d, now
}

// step carries out the order's actions until one has to wait.
func (r *ru) step() {
	for !r.writeReady && (r.activity == idle || r.activity == sending) && !r.w.draining && r.w.err == nil {
		turn, place := r.order.Next()
		switch turn {
		case readoutunit.Send:
			r.setActivity(preparing)
			r.preparedPlace = place
			r.w.s.ScheduleAt(r.w.model.PrepareDoneAt(r.index), (*writePrepared)(r), 0, 0)
		case readoutunit.AdvancePhase:
			r.setActivity(InBarrier)
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

// Handle: a write is prepared.
func (e *writePrepared) Handle(_, _ int64) {
	r := (*ru)(e)
	r.setActivity(sending)
	r.writeReady = true
	r.startPreparedWrite()
}

// startPreparedWrite starts the prepared write if the unit may have another one under way, and goes on.
func (r *ru) startPreparedWrite() {
	w := r.w
	if r.writeReady {
		if w.c.MaxUnackedWrites > 0 && r.unackedWrites >= w.c.MaxUnackedWrites {
			return
		}
		r.writeReady = false
		w.places = r.order.Serve(r.preparedPlace, 1, w.places[:0])
		for _, place := range w.places {
			t := r.order.TransferAt(place)
			r.unackedWrites++
			w.send(r, &flow{
				place:       place,
				destination: w.bus[t.BU],
				bytesLeft:   max(1, r.sizes[t.MEP]),
			})
		}
	}
	r.step()
}

// send begins a write.
func (w *World) send(r *ru, f *flow) {
	f.path = w.path(r.host, f.destination.host)
	f.lastSegmentAt = w.s.Now()
	w.sentBytes += uint64(f.bytesLeft)
	r.flows = append(r.flows, f)
	r.fillCard()
}

// fillCard hands the host's card segments as there is room, one of each flow in turn.
func (r *ru) fillCard() {
	w := r.w
	for !r.makingSegment && !r.waitingForSpace && len(r.flows) > 0 {
		full := r.host.queuedSegments >= maxQueued
		if full && w.c.SelfThroughCard { // every segment goes through the card
			return
		}
		f := r.nextFlow()
		if f == nil || full && f.path != nil {
			return
		}
		data := min(f.bytesLeft, w.c.SegmentBytes)
		r.makingSegment = true
		if f.path != nil {
			r.host.queuedSegments++
		}
		if w.c.InFlightLimit > 0 && f.path != nil {
			f.destination.host.inFlightBudget -= int64(w.c.WireBytes(data))
		}
		if at := w.model.SendDoneAt(r.index, f.destination.index, data); at > w.s.Now() {
			w.s.ScheduleAt(at, (*segmentReady)(r), int64(data), 0)
			return
		}
		r.sendSegment(data)
	}
}

// nextFlow is the next flow in turn whose destination has budget for a segment. If there is none, the unit queues for
// the budget.
func (r *ru) nextFlow() *flow {
	w := r.w
	for range r.flows {
		if r.flowTurn >= len(r.flows) {
			r.flowTurn = 0
		}
		f := r.flows[r.flowTurn]
		if w.c.InFlightLimit == 0 || f.path == nil ||
			f.destination.host.inFlightBudget >= int64(w.c.WireBytes(min(f.bytesLeft,
				w.c.SegmentBytes))) {
			return f
		}
		r.flowTurn++
	}
	if r.flowTurn >= len(r.flows) {
		r.flowTurn = 0
	}
	r.waitingForSpace = true
	to := r.flows[r.flowTurn].destination.host
	to.waitingRUs = append(to.waitingRUs, r)
	return nil
}

type segmentReady ru

// Handle: a segment has been made.
func (e *segmentReady) Handle(bytes, _ int64) {
	r := (*ru)(e)
	r.sendSegment(int(bytes))
	r.fillCard()
}

// sendSegment sends a segment of the flow whose turn it is.
func (r *ru) sendSegment(data int) {
	w := r.w
	f := r.flows[r.flowTurn]
	f.bytesLeft -= data
	p := w.pool.Get()
	p.Src, p.Dst = int32(r.index), int32(f.destination.index)
	p.Size = w.c.WireBytes(data)
	p.Path, p.Receiver = f.path, f.destination
	p.ID, p.Chunk, p.LastOfMessage = int64(f.place), int64(data), f.bytesLeft == 0
	if p.LastOfMessage {
		r.flows = append(r.flows[:r.flowTurn], r.flows[r.flowTurn+1:]...)
	} else {
		r.flowTurn++
	}
	r.makingSegment = false
	if f.path == nil { // no card
		f.destination.Receive(p)
		return
	}
	if again := w.model.ResentBytes(w.s.Now()-f.lastSegmentAt, data, p.Size); again > 0 {
		f.destination.host.inFlightBudget -= again
		p.Size += int32(again)
	}
	f.lastSegmentAt = w.s.Now()
	if !component.Inject(p) {
		panic("builder: a card's port has no limit, and refused a segment")
	}
}

type writeAcked ru

// Handle: a write is acknowledged.
func (e *writeAcked) Handle(place, _ int64) {
	r := (*ru)(e)
	w := r.w
	r.unackedWrites--
	if r.writesDone++; !w.c.Discipline.Phases && r.writesDone%len(w.bus) == 0 { // no round ends: count here
		r.cyclesDone++
		w.reportRUProgress(r)
	}
	w.recordError(r.order.Complete([]uint64{uint64(place)}))
	r.startPreparedWrite()
	r.forward()
}

// nextPhase begins the next phase.
func (r *ru) nextPhase() {
	r.setActivity(idle)
	r.phasesDone++
	before := r.order.RoundStart()
	r.order.AdvancePhase(1)
	if r.order.RoundStart() != before {
		r.cyclesDone++
		r.w.reportRUProgress(r)
	}
}

// grant grants a readout unit the window for its part.
func (r *ru) grant(t *core.Token) {
	r.w.recordError(r.order.ApplyGrant(int(t.BU), &placing.Grant{
		Slot:    t.Slot,
		Attempt: uint32(t.Attempt),
		MEP:     t.MEP,
		Window:  1,
		Gen:     1,
		Length:  uint32(r.sizes[t.MEP]),
	}))
}
