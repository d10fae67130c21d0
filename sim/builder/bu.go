package builder

import (
	"ringlet/sim/part"
	"ringlet/tagnet"
)

// bu is a builder unit.
type bu struct {
	w     *World
	index int
	host  *host
	got   []int // parts of the MEP in a slot

	wishes []wish // MEPs that it asks parts of
	asking int    // parts that were asked for
}

// Take has a segment at the builder unit's host.
func (b *bu) Take(p *part.Packet) {
	w := b.w
	if w.c.Room > 0 && p.Path != nil {
		b.host.freed(int64(p.Size), int64(w.c.Wire(w.c.Segment)))
	}
	w.placed += uint64(p.Part)
	from, place, bytes, last := w.rus[p.Src], p.ID, int(p.Part), p.Last
	w.pool.Put(p)
	at := w.model.Take(from.index, b.index, bytes, last)
	switch {
	case !last:
	case at > w.s.Now():
		w.s.At(at, (*taken)(b), int64(from.index), place)
	default:
		(*taken)(b).Handle(int64(from.index), place)
	}
}

// freed lets those go on who wait for room at the host, as long as there is enough for any segment.
func (h *host) freed(bytes, enough int64) {
	h.room += bytes
	for n := len(h.waiting); n > 0 && h.room >= enough; n-- {
		r := h.waiting[0]
		h.waiting = h.waiting[1:]
		r.stands = false
		r.inject()
	}
}

type taken bu

// Handle: the builder unit's processor is done with the last segment of a part.
func (e *taken) Handle(from, place int64) {
	b := (*bu)(e)
	b.w.parts++
	b.w.landed(b.w.rus[from], place, b)
}

// whole has a whole part at its builder unit.
func (w *World) whole(from *ru, place int64, b *bu) {
	t := from.order.TransferAt(uint64(place))
	delete(from.sizes, t.MEP)
	if b.got[t.Slot]++; b.got[t.Slot] == len(w.rus) {
		b.got[t.Slot] = 0
		w.model.Built(b.index, tagnet.Feedback{
			MEP:     t.MEP,
			Slot:    t.Slot,
			Events:  uint32(w.c.Packing),
			Attempt: t.Attempt,
			Outcome: tagnet.Built,
		})
	}
	w.s.After(w.c.Ack, (*done)(from), place, 0)
	if w.c.Discipline.Pull {
		b.asking--
		b.ask()
	}
	w.count()
}

// wish is a MEP of which a builder unit has asked for some parts.
type wish struct {
	tagnet.Token
	asked int // readout units, the one with its own index first
}

// wants has a builder unit ask for the parts of one more MEP.
func (b *bu) wants(t tagnet.Token) {
	b.wishes = append(b.wishes, wish{Token: t})
	b.ask()
}

// ask asks for parts of the oldest MEP, one after the other and as many at a time as its window says.
func (b *bu) ask() {
	w := b.w
	for len(b.wishes) > 0 && b.asking < w.c.Window {
		x := &b.wishes[0]
		b.asking++
		r := w.rus[(b.index+x.asked)%len(w.rus)]
		w.s.At(w.model.Message(b.host.index, Ask)+w.c.Flight, (*asked)(r), w.asks.put(x.Token), 0)
		if x.asked++; x.asked == len(w.rus) {
			b.wishes = b.wishes[1:]
		}
	}
}

type asked ru

// Handle: a builder unit asks this readout unit for a part.
func (e *asked) Handle(token, _ int64) {
	r := (*ru)(e)
	t := r.w.asks.get(token)
	r.grant(&t)
	r.step()
}

// launch sends the tags that may set out to the first readout unit.
func (w *World) launch() {
	w.tags = w.tagnet.LaunchTags(w.tags[:0])
	for i := range w.tags {
		w.s.After(w.c.Flight, (*tagged)(w.rus[0]), w.onRing.put(w.tags[i]), 0)
	}
}

type tagged ru

// Handle: a tag is at the readout unit.
func (e *tagged) Handle(tag, _ int64) {
	r := (*ru)(e)
	t := r.w.onRing.get(tag)
	r.w.must(r.ring.AddTag(&t))
	r.serve()
	r.forward()
}

// forward passes on the tags that the readout unit is done with: to the next one, and from the last to the scheduler.
func (r *ru) forward() {
	if r.ring == nil {
		return
	}
	w := r.w
	for t, ok := r.ring.NextForward(); ok; t, ok = r.ring.NextForward() {
		if r.index+1 < len(w.rus) {
			w.s.At(w.model.Message(r.host.index, Ask)+w.c.Flight, (*tagged)(w.rus[r.index+1]), w.onRing.put(t), 0)
		} else {
			w.s.At(w.model.Message(r.host.index, Ask)+w.c.Flight, (*back)(r), w.onRing.put(t), 0)
		}
	}
}

type back ru

// Handle: a tag has come round.
func (e *back) Handle(tag, _ int64) {
	r := (*ru)(e)
	t := r.w.onRing.get(tag)
	r.w.must(r.w.tagnet.ReturnTag(r.index, &t))
	r.w.launch()
}
