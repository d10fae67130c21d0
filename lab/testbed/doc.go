// Package testbed makes a network of many hosts on one machine that hurts as a real one does: network namespaces on a
// bridge, each behind a port of its own that is limited in rate and in queue, so that what several send to one at a
// time is dropped once its queue is full.
//
// It stands for the cheap switch of the founding documents, on which traffic has to be shaped (TagNet-farm §II.F),
// and for the demand to show what shaping is worth.
//
// What the caller must do, in this order: ask CheckPossible first; complete a Spec; New makes the bed, or Attach finds
// the one that Hold keeps for others; Run takes a cluster through one run in it, by the commands node and control that
// a user would give on its hosts; Close it.
//
// A bed has no name in the file system and no process of its own: it is a handful of open files, and the kernel takes
// it down when the last process that has them ends, however that ends. Nothing can be left behind.
//
// It promises no speed: all hosts share this machine's processors. Nor does it promise that time is as fine as on a
// wire: a port sends at once what it could have sent in the last few milliseconds (docs/design/016-measuring.md). It
// works on Linux, for root, with iproute2.
package testbed
