package builder

import (
	"ringlet/sim/component"
	"ringlet/tagnet/core"
)

// bu is a builder unit.
type bu struct {
	w             *World
	index         int
	host          *host
	partsReceived []int // by slot: parts of its MEP

	requestQueue   []pendingMEP // MEPs whose parts it still has to request
	requestedParts int          // requested parts that have not come
}

// Receive is called when a segment arrives at the builder unit's host.
func (b *bu) Receive(p *component.Packet) {
	w := b.w
	if w.c.InFlightLimit > 0 && p.Path != nil {
		b.host.releaseBudget(int64(p.Size), int64(w.c.WireBytes(w.c.SegmentBytes)))
	}
	w.placedBytes += uint64(p.Chunk)
	from, place, bytes, last := w.rus[p.Src], p.ID, int(p.Chunk), p.LastOfMessage
	w.pool.Put(p)
	at := w.model.ReceiveDoneAt(from.index, b.index, bytes, last)
	switch {
	case !last:
	case at > w.s.Now():
		w.s.ScheduleAt(at, (*partProcessed)(b), int64(from.index), place)
	default:
		(*partProcessed)(b).Handle(int64(from.index), place)
	}
}

// releaseBudget returns bytes to the host's budget, and lets waiting readout units go on while it suffices for a
// segment.
func (h *host) releaseBudget(bytes, enough int64) {
	h.inFlightBudget += bytes
	for n := len(h.waitingRUs); n > 0 && h.inFlightBudget >= enough; n-- {
		r := h.waitingRUs[0]
		h.waitingRUs = h.waitingRUs[1:]
		r.waitingForSpace = false
		r.fillCard()
	}
}

type partProcessed bu

// Handle ends a part when the processor has handled its last segment.
func (e *partProcessed) Handle(from, place int64) {
	b := (*bu)(e)
	b.w.placedParts++
	b.w.onPartPlaced(b.w.rus[from], place, b)
}

// completePart counts a complete part, and reports the MEP as built with its last part.
func (w *World) completePart(from *ru, place int64, b *bu) {
	t := from.order.TransferAt(uint64(place))
	delete(from.sizes, t.MEP)
	if b.partsReceived[t.Slot]++; b.partsReceived[t.Slot] == len(w.rus) {
		b.partsReceived[t.Slot] = 0
		w.model.Built(b.index, core.Feedback{
			MEP:     t.MEP,
			Slot:    t.Slot,
			Events:  uint32(w.c.Packing),
			Attempt: t.Attempt,
			Outcome: core.Built,
		})
	}
	w.s.ScheduleAfter(w.c.AckDelay, (*writeAcked)(from), place, 0)
	if w.c.Discipline.Pull {
		b.requestedParts--
		b.requestParts()
	}
	w.countPart()
}

// pendingMEP is a MEP of which a builder unit has requested some parts.
type pendingMEP struct {
	core.Token
	requestedRUs int // the number of readout units asked; the first has the builder unit's own index
}

// addRequest has a builder unit request the parts of one more MEP.
func (b *bu) addRequest(t core.Token) {
	b.requestQueue = append(b.requestQueue, pendingMEP{Token: t})
	b.requestParts()
}

// requestParts requests parts of the oldest MEP in turn, at most PullWindow at a time.
func (b *bu) requestParts() {
	w := b.w
	for len(b.requestQueue) > 0 && b.requestedParts < w.c.PullWindow {
		x := &b.requestQueue[0]
		b.requestedParts++
		r := w.rus[(b.index+x.requestedRUs)%len(w.rus)]
		w.s.ScheduleAt(w.model.MessageDoneAt(b.host.index, PartRequest)+w.c.MessageDelay, (*requestArrived)(r),
			w.requests.store(x.Token), 0)
		if x.requestedRUs++; x.requestedRUs == len(w.rus) {
			b.requestQueue = b.requestQueue[1:]
		}
	}
}

type requestArrived ru

// Handle grants a builder unit's request for a part.
func (e *requestArrived) Handle(token, _ int64) {
	r := (*ru)(e)
	t := r.w.requests.remove(token)
	r.grant(&t)
	r.step()
}

// launchTags sends the tags that the scheduler launches to the first readout unit.
func (w *World) launchTags() {
	w.tags = w.tagnet.LaunchTags(w.tags[:0])
	for i := range w.tags {
		w.s.ScheduleAfter(w.c.MessageDelay, (*tagArrived)(w.rus[0]), w.tagsInRing.store(w.tags[i]), 0)
	}
}

type tagArrived ru

// Handle adds a tag to the readout unit's order.
func (e *tagArrived) Handle(tag, _ int64) {
	r := (*ru)(e)
	t := r.w.tagsInRing.remove(tag)
	r.w.recordError(r.tagRing.AddTag(&t))
	r.startPreparedWrite()
	r.forward()
}

// forward passes on the tags that the readout unit has served: to the next unit, or from the last one to the scheduler.
func (r *ru) forward() {
	if r.tagRing == nil {
		return
	}
	w := r.w
	for t, ok := r.tagRing.NextForward(); ok; t, ok = r.tagRing.NextForward() {
		if r.index+1 < len(w.rus) {
			w.s.ScheduleAt(w.model.MessageDoneAt(r.host.index, PartRequest)+w.c.MessageDelay, (*tagArrived)(w.rus[r.index+1]),
				w.tagsInRing.store(t), 0)
		} else {
			w.s.ScheduleAt(w.model.MessageDoneAt(r.host.index, PartRequest)+w.c.MessageDelay, (*tagReturned)(r),
				w.tagsInRing.store(t), 0)
		}
	}
}

type tagReturned ru

// Handle returns a tag to the scheduler.
func (e *tagReturned) Handle(tag, _ int64) {
	r := (*ru)(e)
	t := r.w.tagsInRing.remove(tag)
	r.w.recordError(r.w.tagnet.ReturnTag(r.index, &t))
	r.w.launchTags()
}
