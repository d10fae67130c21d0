// Package ejfat is the wire format of EJFAT (ESnet and JLab FPGA Accelerated Transport): events as UDP segments, each
// with a reassembly header, before which a load balancer's header may stand, and the synchronisation messages that tell
// a load balancer how fast events come. All of it is big-endian.
//
// Source: "E2SAR Headers", wiki of JeffersonLab/E2SAR, and include/e2sarHeaders.hpp there. docs/format/ejfat.md draws
// the headers.
package ejfat
