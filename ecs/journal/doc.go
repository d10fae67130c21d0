// Package journal remembers what happened lately in a partition, and tells it to whoever watches: changes of state,
// faults, commands, alarms, log lines.
//
// It stands for LHCb-EB §III.A, central monitoring. What has to outlive the run
// control is the matter of package ecs/record.
//
// The caller
//
//  1. makes a Journal with New. Its numbers go on after the given one, so that a reader who saw numbers of an earlier
//     control goes on with this one;
//  2. gives every event to Add, and does not change it from then on. Add never waits for a reader;
//  3. hangs its logger into it with Handler;
//  4. reads with Since, or with Subscribe, whose goroutine ends with the context. Readers share the events and do not
//     change them.
//
// It does not promise that a reader gets everything: the oldest is forgotten when there is more than the size. A reader
// who is too late gets an event of kind "gap" in the place of what it missed, which says how many these were.
package journal
