// Package nodev1 is the wire form of the node's service, generated from node.proto.
//
// It stands for LHCb-EB §III.A: components are state machines steered by the ECS, with configuration
// and monitoring in one place. The control sends Command in the order of the state machine of package node/fsm (load,
// configure with the frozen configuration and the view, start, …, stop) and keeps one Watch open per node; a Watch that
// breaks is a hint that the node has died, not a proof. After stop, Report gives the final figures.
//
// The generated code promises no more than protobuf does: any field may be missing or absurd, and package node
// checks them. Run `make proto` after a change of the .proto file; never edit the .pb.go files.
package nodev1
