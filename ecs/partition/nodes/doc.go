// Package nodes is the nodes of a partition as its control knows them: connected, watched, commanded; and one run of
// them, from its scheduler to its closed accounts.
//
// It stands for what of the ECS (LHCb-EB §III.A) speaks with nodes. The state machine of a partition, its API
// and its records come on top of it: package partition. What breaks is judged by package fault.
//
// What the caller of a NodeSet must do, in this order: NewNodeSet; Connect, or Rejoin the nodes of an earlier control;
// Load; Configure; NewRun and Begin, as often as wanted; Clear; Dismiss, or CloseConnections to leave the nodes as they
// are. With a Run: Step with what happens to it, and do what its machine says (package run): Begin, Pause, Resume,
// Drain, End or Drop or Collect, and MakeReport, in every case; Shutdown or Close. After a fault: Clear.
//
// What it promises: from the moment it speaks to nodes there is a Report with a typed cause of the end, whatever
// happens to them, and the nodes are at rest after Dismiss. A lost builder unit that the policy of the configuration
// tolerates is taken out of the schedule, and the run goes on; any other loss ends the run, naming who was lost.
package nodes

import "ringlet/node"

// ControlName of the control in the cluster and in its certificate.
const ControlName = node.ControlName
