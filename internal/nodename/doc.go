// Package nodename has the rule by which the nodes of one process are named: those of the process n0 are n0, n0.1, n0.2
// and so on.
//
// A process has one certificate, with the name of its first node, and that certificate counts for all of them. A
// certificate's name never has a dot (certs.CheckName), so no certificate can be had for a node of another process.
package nodename
