// Package node is one process of an event builder: a readout unit, a builder unit or both, with what they need around
// them.
//
// It stands for the folded node of LHCb's event builder (LHCb-EB §IV.B) and for its components that are state machines
// steered by the ECS (LHCb-EB §III.A). A node finds the cluster by gossip, serves the node service over mutual TLS, and
// obeys the component state machine of node/fsm: Configure makes slots in shared memory and links to the other nodes,
// Start attaches the units to TagNet, Stop ends the units and completes their output, Reset takes links and memory
// down.
//
// A node can run the scheduler (tagnet.Host), if the control starts it there. The node then also tolerates the loss
// of the control: a lease, a core of its own, says when to drain and when to stop (docs/design/031-losses.md).
// Told to leave in a run it asks to be let go and builds on. Whoever monitors processes asks its Monitor.
//
// What the caller must do: Run with an identity and addresses, and end it by its context; command it over gRPC. Stop
// completes the output; Stop with abandon drops it, and whatever else is under way. Everything a node makes (segments,
// sockets, goroutines) is gone when Run returns.
//
// What it does not promise: to go on when a peer is lost. While running it then goes into Error and names the peer;
// when it is not running it only notes it.
package node
