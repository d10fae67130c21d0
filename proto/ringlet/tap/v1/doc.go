// Package tapv1 is the wire form of the sample of built events that viewers see, generated from tap.proto: the services
// of nodes and of the run control carry it.
//
// It stands for nothing in the founding documents; docs/tap.md describes it. Callers convert it to and from package
// event/selection, which checks what these messages only carry.
//
// The generated code promises no more than protobuf does: any field may be missing or absurd. Run `make proto` after a
// change of the .proto file; never edit the .pb.go files.
package tapv1
