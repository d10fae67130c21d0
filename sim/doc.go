// Package sim is a discrete-event engine: it runs a model of a cluster in integer time, one event after the other, and
// gives the same bytes for the same seed. The components of models (buses, processors, ports of switches, crossbars)
// are in sim/component, SCI rings and tori in sim/documents/sci, the farm of L1-farm in sim/documents/level1, that of
// TagNet-farm in sim/documents/tagfarm.
//
// It is for the simulations of TagNet-farm §V, and for clusters that one does not have yet (LHCb-EB at 320 nodes).
//
// # How to write a model, in one page
//
// A model is a struct with a *Sim. It schedules events, and each event comes back as one call of a [Handler] with two
// integers of the model's choice. There are no goroutines and no closures; a model is a state machine.
//
//	type Server struct {
//		s       *sim.Sim
//		rng     *sim.RandomStream
//		queue   []sim.Time    // when each customer came
//		waiting sim.Level     // how many wait: mean over time
//		wait    sim.Histogram // how long each waited
//	}
//
//	// A handler for each kind of event: the same pointer under another type. It costs no allocation.
//	type arrival Server
//	type service Server
//
//	func (m *arrival) Handle(customer, _ int64) { … m.s.ScheduleAfter(m.rng.Exp(mean), m, customer+1, 0) }
//	func (m *service) Handle(customer, _ int64) { … }
//
//	s := sim.New(seed)
//	m := &Server{s: s, rng: s.RandomStream("server")}
//	s.ScheduleAt(0, (*arrival)(m), 1, 0)
//	end := s.Run(ctx, sim.Limits{Until: sim.Second})
//
// What a caller does, in order:
//
//  1. [New] with a seed; one [Sim.RandomStream] of random numbers for each component, by name. Streams are independent:
//     one more component does not change what the others draw.
//  2. Make the components and connect them. Schedule first events by [Sim.ScheduleAt] or [Sim.ScheduleAfter].
//  3. Optionally [Sim.Watch] levels that a report shows over time, and hand components a [Trace].
//  4. [Sim.Run] until the time, the number of events, the end of all events, [Sim.Stop] or the end of the context. It
//     returns which, and may be called again to go on.
//  5. Read the statistics: [Level] (mean over time), [Histogram] (each value counted), [Series] (a curve).
//
// # Time and order
//
// A [Time] is in picoseconds, so a symbol of 3 ns, a clock of 15 ns and a byte at 200 Gbit/s (40 ps) are exact; int64
// holds 106 days. Events of one time run in the order in which they were scheduled, also those that an event of that
// time schedules. To run something after all events of its kind, schedule it for the same time from the last of them. A
// series samples an instant after all its events.
//
// # Driving a core of the product
//
// Call a core with step functions from a handler. Each action it returns becomes an event (a message: ScheduleAfter its
// time of flight), and each timer an event that checks, when it comes, whether the timer is still set. If a core takes
// times in another unit, convert them ([Time.Micros], [FromDuration]). Its messages wait in a slice of the model, and
// the event carries their index.
//
// # What it does not promise
//
// It is sequential: one Sim on one core; run several seeds or points in several goroutines, each with a Sim of its own.
// Random times go through float64: the same bytes hold on one architecture. A model must not schedule into the past:
// ScheduleAt panics with both times.
package sim
