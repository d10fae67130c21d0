// Package testbed makes a network of many hosts on one machine that loses packets as a real one does: network
// namespaces on a bridge, each behind a port with a limited rate and queue, so that packets from several hosts to one
// are dropped once its queue is full.
//
// It is the cheap switch of the founding documents, on which traffic has to be shaped (TagNet-farm §II.F), and shows
// what shaping gains.
//
// What the caller must do, in this order: ask CheckPossible first; complete a Spec; make the bed with New, or find with
// Attach a bed that another process holds with Hold; take a cluster through one run with Run, by the commands node and
// control that a user would give on the hosts; Close the bed.
//
// A bed has no name in the file system and no process of its own: it is some open files. The kernel removes it when the
// last process that has them ends, however it ends, so nothing is left behind.
//
// It promises no speed: all hosts share this machine's processors. Nor is time as fine as on a wire: a port sends at
// once what it could have sent in the last few milliseconds (docs/design/016-measuring.md). It works on Linux, for
// root, with iproute2.
package testbed
