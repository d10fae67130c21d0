// Package decision is the decision unit: it puts the verdicts on events back in order, and gives each event exactly one
// decision.
//
// It stands for the Level-1 decision unit of the founding documents (L1-farm §6.4: a buffer addressed by event number,
// a read pointer, a time-out message past the maximum latency; TagNet-farm §II: the result node). Builder units
// judge events in any order; what comes after them (a readout supervisor, front-end buffers) wants decisions in the
// order of the events.
//
// # The parts
//
//   - Result is the message of 16 bytes: what a builder unit says of an event, and what a subscriber is told.
//   - core is the pure core: results and times in, decisions out.
//   - outbox is the pure core of the other side: verdicts of a builder unit in, remote writes out.
//   - Unit and Sender are their shells, and BufferOutlet and Server hand decisions out: in shared memory, and by TCP.
//   - A deliveryQueue is the pure core of what one readout unit is told, and Reader that of who hears it;
//     DecisionMessage is the message between them. The publisher is the shell, an outlet of the Unit.
//   - Open, Credit, Triggered and others are the messages between a decision unit and the others.
//
// # What the caller of a core must do, in order
//
//  1. Tell triggered how far events are triggered, as soon as that is known, and accept each result as it comes.
//  2. Call step when something came, and when due says so. What it appends is decided, and comes once.
//  3. At the end, when no result will come any more, call Finish and step until nothing is left.
//
// # What it does not promise
//
// That a decision is the builder unit's: after the time-out it is TimedOut. That an event has a decision if the
// decision unit was not there when it was due: a unit that comes back begins with the event that is triggered next.
package decision
