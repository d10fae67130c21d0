// Package ecsv1 is generated: the messages and the service RunControl by which people and programs steer a partition,
// watch it and look its runs up. Package ecs/api serves it, over gRPC and over HTTP.
//
// It stands for LHCb-EB §III.A, central configuration and monitoring, and for TagNet-farm §VII.C and §III.B.4, the
// registers that an operator reads and the exclusion of a node while running.
//
// A caller takes control, gives commands, and watches. It promises nothing by itself: see ecs.proto for each call, and
// docs/api.md.
package ecsv1
