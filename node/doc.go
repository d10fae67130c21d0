// Package node is one process of an event builder, with one node or several: each a readout unit, a builder unit or
// both, with the services around them.
//
// It stands for the folded node of LHCb's event builder (LHCb-EB §IV.B) and for its components, which are state
// machines under the ECS (LHCb-EB §III.A). A node finds the cluster by gossip, serves the node service over mutual TLS,
// and obeys the component state machine of node/fsm: Configure makes slots in shared memory and links to the other
// nodes, Start attaches the units to TagNet, Stop ends the units and completes their output, Reset removes links and
// memory.
//
// A node can run the scheduler (tagnet.Host), if the control starts it there. The node then also tolerates the loss of
// the control: a lease, a core of its own, says when to drain and when to stop (docs/design/031-losses.md). A
// node that is told to leave during a run asks the control for its withdrawal, and builds on meanwhile. Process
// monitors query its Monitor.
//
// The caller must Run the node with an identity and addresses, and end it by its context; the control commands it over
// gRPC. Stop completes the output; Stop with abandon drops the output and everything else under way. When Run returns,
// everything that the node made (segments, sockets, goroutines) is gone.
//
// The package does not promise that a node goes on when a peer is lost. While running, the node then goes into Error
// and names the peer; otherwise it only notes the loss.
package node
