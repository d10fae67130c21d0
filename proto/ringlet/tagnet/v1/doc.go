// Package tagnetv1 is the wire form of the scheduler's service, generated from tagnet.proto.
//
// It stands for the two networks around the scheduler of TagNet-farm §III.B: the flow-control network
// that takes tokens to the senders and the feedback path that returns free buffers. Callers do not use it directly:
// package tagnet has the server and the clients, which check what these messages only carry. The words inside the
// packed lists are drawn in docs/format/tagnet.md.
//
// The generated code promises no more than protobuf does: any field may be missing or absurd. Run `make proto` after a
// change of the .proto file; never edit the .pb.go files.
package tagnetv1
