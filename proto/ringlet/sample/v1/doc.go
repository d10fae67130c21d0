// Package samplev1 is the wire form of counters that are read many times a second, generated from sample.proto: the
// services of nodes and of the run control carry it.
//
// It stands for NIC-crossbar §3.1.4, counters that are sampled at an interval; docs/ctl.md describes what
// `ringlet ctl sample` makes of it. The node checks a question, which these messages only carry.
//
// The generated code promises no more than protobuf does: any field may be missing or absurd. Run `make proto` after a
// change of the .proto file; never edit the .pb.go files.
package samplev1
