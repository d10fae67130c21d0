// Package nodes has the control's side of the nodes of a partition: NodeSet connects to them, watches and commands
// them; Run takes them through one run, from making its scheduler to its closed accounts.
//
// It stands for the part of the ECS (LHCb-EB §III.A) that talks to nodes. Package partition is its caller, with the
// state machine of the partition, the API and the records. Package fault judges faults.
//
// What the caller of a NodeSet must do, in this order: NewNodeSet; Connect, or Rejoin the nodes of an earlier control;
// Load; Configure; NewRun and Begin, as often as wanted; Clear; Dismiss, or CloseConnections to leave the nodes as they
// are. With a Run: Step with each input, and do the actions of its machine (package run): Begin, Pause, Resume, Drain,
// End or Drop or Collect; MakeReport in every case; Shutdown or Close. After a fault: Clear.
//
// What it promises: after the first command there is a Report with a typed cause of the end, whatever happens to the
// nodes, and the nodes are at rest after Dismiss. If the loss policies tolerate the loss of a unit, the scheduler takes
// that unit out and the run goes on; any other loss ends the run and names the node.
package nodes

import "ringlet/node"

// ControlName is the name of the control in the cluster and in its certificate.
const ControlName = node.ControlName
