package predict

import (
	"ringlet/sim"
	"ringlet/tagnet"
)

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
	for len(b.wishes) > 0 && b.asking < w.c.PullWindow {
		x := &b.wishes[0]
		b.asking++
		r := w.rus[(b.index+x.asked)%len(w.rus)]
		at := b.host.cpu.do(ticks(w.costs.Message))
		w.s.At(at+w.flight(), (*asked)(r), w.asks.put(x.Token), 0)
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
	r.serve()
}

// complete has all parts of a MEP in a slot of the builder unit. One that is suspended keeps it.
func (b *bu) complete(t tagnet.Token) {
	f := tagnet.Feedback{
		MEP:     t.MEP,
		Slot:    t.Slot,
		Events:  uint32(b.w.c.Packing),
		Attempt: t.Attempt,
		Outcome: tagnet.Built,
	}
	if b.w.s.Now() < b.until {
		b.kept = append(b.kept, f)
		return
	}
	b.report(f)
}

// report tells the scheduler that a MEP is built.
func (b *bu) report(f tagnet.Feedback) {
	w := b.w
	w.built++
	if w.begun > 0 || w.warm == 0 {
		w.latency.Add(int64(w.s.Now() - w.issued[f.MEP]))
	}
	delete(w.issued, f.MEP)
	w.must(w.tagnet.Feedback(b.index, f))
	if w.c.Rate == 0 && w.read < uint64(w.built+2*w.c.BUs*w.slots) {
		(*reading)(w).Handle(0, 0)
		return
	}
	w.issue()
}

// counts begins and ends what is counted, by parts: MEPs come to their ends by many at once.
func (w *world) counts() {
	switch w.parts++; w.parts {
	case w.warm * len(w.rus):
		w.begun, w.work = w.s.Now(), w.busy()
	case (w.warm + w.count) * len(w.rus):
		w.ended = w.s.Now()
		w.s.Stop()
	}
}

// busy is what all processors have worked.
func (w *world) busy() sim.Time {
	var all sim.Time
	for i, h := range w.hosts {
		if i == 0 || !w.f.Hosts.Shared {
			all += h.cpu.busy
		}
	}
	return all
}

// suspend stops a builder unit at a time, as the product's builderunit.Suspension does: a suspension lasts until a whole
// number of the time between them has passed.
func (w *world) suspend() {
	every, lasts := sim.Of(w.c.SuspendEvery), sim.Of(w.c.SuspendFor)
	for n := range int(w.c.Duration/w.c.SuspendEvery) + 1 {
		b := w.bus[n%len(w.bus)]
		end := sim.Time(n+1) * every
		w.s.At(end-lasts, (*stops)(b), int64(end), 0)
		w.s.At(end, (*goesOn)(b), 0, 0)
	}
}

type stops bu

// Handle: the builder unit is suspended.
func (e *stops) Handle(until, _ int64) { (*bu)(e).until = sim.Time(until) }

type goesOn bu

// Handle: the builder unit takes what it has kept.
func (e *goesOn) Handle(_, _ int64) {
	b := (*bu)(e)
	kept := b.kept
	b.kept = nil
	for _, f := range kept {
		b.report(f)
	}
}

// launch sends the tags that may set out to the first readout unit.
func (w *world) launch() {
	if w.rus[0].ring == nil {
		return
	}
	w.tags = w.tagnet.Launch(w.tags[:0])
	for i := range w.tags {
		w.s.After(w.flight(), (*tagged)(w.rus[0]), w.onRing.put(w.tags[i]), 0)
	}
}

type tagged ru

// Handle: a tag is at the readout unit.
func (e *tagged) Handle(tag, _ int64) {
	r := (*ru)(e)
	t := r.w.onRing.get(tag)
	r.w.must(r.ring.Tag(&t))
	r.serve()
	r.forward()
}

// forward passes on the tags that the readout unit is done with: to the next one, and from the last to the scheduler.
func (r *ru) forward() {
	if r.ring == nil {
		return
	}
	w := r.w
	for t, ok := r.ring.Forward(); ok; t, ok = r.ring.Forward() {
		var next sim.Handler = (*back)(r)
		if r.index+1 < len(w.rus) {
			next = (*tagged)(w.rus[r.index+1])
		}
		at := r.host.cpu.do(ticks(w.costs.Message))
		w.s.At(at+w.flight(), next, w.onRing.put(t), 0)
	}
}

type back ru

// Handle: a tag has come round.
func (e *back) Handle(tag, _ int64) {
	r := (*ru)(e)
	t := r.w.onRing.get(tag)
	r.w.must(r.w.tagnet.Return(r.index, &t))
	r.w.launch()
}
