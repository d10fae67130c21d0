package builder

import (
	"context"
	"fmt"

	"ringlet/barrier"
	"ringlet/sim"
)

// barrierState is the barrier of one readout unit.
type barrierState struct {
	core        *barrier.Core // nil without a barrier
	actions     barrier.Actions
	enteredAt   sim.Time
	barrierOnly bool // the run is a barrier without an event builder
}

// joinBarrier makes the core of this readout unit for a barrier among units readout units.
func (r *ru) joinBarrier(kind barrier.Kind, units int) (err error) {
	if kind != barrier.None {
		r.core, err = barrier.NewCore(kind, units, r.index)
	}
	return err
}

// RunBarrier has readout units, each on a host of its own, enter a barrier at time 0. The run ends when all have left
// it.
func RunBarrier(ctx context.Context, s *sim.Sim, c *Config, m HostModel, l sim.Limits) (*World, error) {
	w := &World{c: *c, s: s, model: m}
	for i, on := range c.RUs {
		r := &ru{w: w, index: i, host: &host{index: on}}
		if err := r.joinBarrier(c.Barrier, len(c.RUs)); err != nil {
			return nil, err
		}
		r.barrierOnly = true
		w.rus = append(w.rus, r)
	}
	for _, r := range w.rus {
		r.enterBarrier()
	}
	s.Run(ctx, l)
	for _, r := range w.rus {
		if r.phasesDone != 1 && w.err == nil && ctx.Err() == nil {
			w.err = fmt.Errorf("readout unit %d of %d is still in the barrier at %v, the end of the simulation",
				r.index, len(w.rus), s.Now())
		}
	}
	return w, w.err
}

// enterBarrier ends a phase.
func (r *ru) enterBarrier() {
	if r.core == nil {
		r.nextPhase()
		return
	}
	r.enteredAt = r.w.s.Now()
	r.actions.Send, r.actions.Released = r.actions.Send[:0], false
	r.w.recordError(r.core.Enter(r.nowMicros(), &r.actions))
	r.sendSignals()
}

// nowMicros is the time for the barrier's core, in µs.
func (r *ru) nowMicros() int64 { return int64(r.w.s.Now() / sim.Microsecond) }

// sendSignals sends the signals that the core returned, and leaves the barrier if the core released it.
func (r *ru) sendSignals() {
	w := r.w
	for _, m := range r.actions.Send {
		w.BarrierMessageCount++
		w.s.ScheduleAt(w.model.MessageDoneAt(r.host.index, BarrierSignal)+w.c.MessageDelay, (*messageArrived)(w.rus[m.To]),
			w.barrierMessages.store(m), 0)
	}
	if r.actions.Released {
		w.s.ScheduleAt(w.model.MessageDoneAt(r.host.index, LeaveBarrier), (*barrierReleased)(r), 0, 0)
	}
}

type messageArrived ru

// Handle queues a message that has arrived for the processor.
func (e *messageArrived) Handle(message, _ int64) {
	r := (*ru)(e)
	r.w.s.ScheduleAt(r.w.model.MessageDoneAt(r.host.index, BarrierSignal), (*messageHandled)(r), message, 0)
}

type messageHandled ru

// Handle hands a message to the core when the processor is done with it.
func (e *messageHandled) Handle(message, _ int64) {
	r := (*ru)(e)
	r.actions.Send, r.actions.Released = r.actions.Send[:0], false
	r.w.recordError(r.core.Receive(r.w.barrierMessages.remove(message), r.nowMicros(), &r.actions))
	r.sendSignals()
}

type barrierReleased ru

// Handle ends the barrier for this readout unit.
func (e *barrierReleased) Handle(_, _ int64) {
	r := (*ru)(e)
	if r.barrierOnly {
		r.phasesDone++
		return
	}
	r.w.BarrierTimes.Add(int64(r.w.s.Now() - r.enteredAt))
	r.nextPhase()
	r.step()
}
