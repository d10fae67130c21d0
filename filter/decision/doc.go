// Package decision is the decision unit: it puts the verdicts on events back in order, and gives each event exactly
// one decision.
//
// It stands for the Level-1 decision unit of the founding documents (L1-farm §6.4: a buffer addressed by event number,
// a read pointer, a time-out message past the maximum latency; TagNet-farm §II: the result node). Builder units judge
// events in any order; the consumers of decisions (a readout supervisor, front-end buffers) want them in the order of
// events.
//
// # The parts
//
//   - Result is the message of 16 bytes: a builder unit's verdict on an event, and the decision that a subscriber gets.
//   - core is the pure core: results and times in, decisions out.
//   - outbox is the pure core of the sending side: verdicts of a builder unit in, remote writes out.
//   - Unit and Sender are the shells of these cores. BufferOutlet and Server pass decisions on: in shared memory, and
//     by TCP.
//   - A deliveryQueue is the pure core of the decisions on their way to one readout unit, and Reader that of the
//     readout unit; DecisionMessage is the message between them. The publisher is the shell, an outlet of the Unit.
//   - Open, Credit, Triggered and other Messages go between a decision unit and the other units.
//
// # What the caller of a core must do, in order
//
//  1. Call markTriggered as soon as more events are known to be triggered, and accept for each result.
//  2. Call step after each of these, and at nextTimeout. It appends each decision once.
//  3. At the end, when no result will come any more, call endResults, and step until it appends nothing.
//
// # What it does not promise
//
// A decision need not be the builder unit's: after the time-out it is TimedOut. An event has no decision if there was
// no decision unit when it was due: a unit that rejoins begins with the next event triggered.
package decision
