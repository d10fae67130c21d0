package builder

import (
	"context"
	"fmt"

	"ringlet/barrier"
	"ringlet/sim"
)

// gate is a readout unit's side of the barrier.
type gate struct {
	core    *barrier.Core // nil without a barrier
	acts    barrier.Actions
	entered sim.Time
	alone   bool // there is a barrier and nothing else
}

// meets gives the readout unit its side of a barrier among so many.
func (r *ru) meets(kind barrier.Kind, units int) (err error) {
	if kind != barrier.None {
		r.core, err = barrier.NewCore(kind, units, r.index)
	}
	return err
}

// Meet has so many readout units, each on a host of its own, enter a barrier at time 0. The run ends when all have left
// it.
func Meet(ctx context.Context, s *sim.Sim, c *Config, m Model, l sim.Limits) (*World, error) {
	w := &World{c: *c, s: s, model: m}
	for i, on := range c.RUs {
		r := &ru{w: w, index: i, host: &host{index: on}}
		if err := r.meets(c.Barrier, len(c.RUs)); err != nil {
			return nil, err
		}
		r.alone = true
		w.rus = append(w.rus, r)
	}
	for _, r := range w.rus {
		r.enter()
	}
	s.Run(ctx, l)
	for _, r := range w.rus {
		if r.phases != 1 && w.err == nil && ctx.Err() == nil {
			w.err = fmt.Errorf("node %d did not leave the barrier", r.index)
		}
	}
	return w, w.err
}

// enter is at the end of a phase.
func (r *ru) enter() {
	if r.core == nil {
		r.pass()
		return
	}
	r.entered = r.w.s.Now()
	r.acts.Send, r.acts.Released = r.acts.Send[:0], false
	r.w.must(r.core.Enter(r.micros(), &r.acts))
	r.signal()
}

// micros is the time as the barrier's core knows it.
func (r *ru) micros() int64 { return int64(r.w.s.Now() / sim.Microsecond) }

// signal sends what the barrier asked for, message by message, and leaves it if it is over.
func (r *ru) signal() {
	w := r.w
	for _, m := range r.acts.Send {
		w.Messages++
		w.s.At(w.model.Message(r.host.index, Signal)+w.c.Flight, (*arrived)(w.rus[m.To]), w.letters.put(m), 0)
	}
	if r.acts.Released {
		w.s.At(w.model.Message(r.host.index, Leave), (*released)(r), 0, 0)
	}
}

type arrived ru

// Handle: a message is here, and waits for the processor.
func (e *arrived) Handle(message, _ int64) {
	r := (*ru)(e)
	r.w.s.At(r.w.model.Message(r.host.index, Signal), (*handled)(r), message, 0)
}

type handled ru

// Handle: the processor has the message.
func (e *handled) Handle(message, _ int64) {
	r := (*ru)(e)
	r.acts.Send, r.acts.Released = r.acts.Send[:0], false
	r.w.must(r.core.Receive(r.w.letters.get(message), r.micros(), &r.acts))
	r.signal()
}

type released ru

// Handle: the barrier is over for this readout unit.
func (e *released) Handle(_, _ int64) {
	r := (*ru)(e)
	if r.alone {
		r.phases++
		return
	}
	r.w.Barriers.Add(int64(r.w.s.Now() - r.entered))
	r.pass()
	r.step()
}
