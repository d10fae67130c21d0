// Package journal keeps the last events of a partition in memory, and distributes them to subscribers: changes of
// state, faults, commands, alarms, log lines.
//
// It stands for LHCb-EB §III.A, central monitoring. Package ecs/record keeps what must outlive the run control.
//
// The caller
//
//  1. makes a Journal with New. Its numbers follow a given one, so that a reader with a number of an earlier control
//     can go on with this one;
//  2. gives every event to Add, and does not change it from then on. Add never waits for a reader;
//  3. wraps the handler of its logger with Handler, so that log lines become events;
//  4. reads with EventsSince, or with Subscribe, whose goroutine ends with the context. Readers share the events and
//     must not change them.
//
// It does not promise that a reader gets all events: it forgets the oldest when there are more than its size. A slow
// reader gets an event of kind "gap" in place of those that it missed, with their number.
package journal
