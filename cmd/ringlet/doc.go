// Command ringlet is a distributed event builder in one static binary: see README.md for the first minute, `ringlet --help` for
// the rest. This package wires flags to the rooms below and decides on exit codes; it decides nothing else.
package main
