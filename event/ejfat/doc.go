// Package ejfat is the wire format of EJFAT (ESnet and JLab FPGA Accelerated Transport), in big-endian byte order.
// Events travel as UDP segments, each with a reassembly header, in front of which a load balancer's header may stand.
// By synchronisation messages a source tells the load balancer how fast its events come.
//
// Source: "E2SAR Headers", wiki of JeffersonLab/E2SAR, and include/e2sarHeaders.hpp there. docs/format/ejfat.md draws
// the headers.
package ejfat
