// Command ringlet is a distributed event builder in one static binary: see README.md for the first minute, `ringlet
// --help` for the rest. It stands for the founding documents' demand that one person can start, feed and watch a whole
// system.
//
// This package wires flags to the packages below and decides on exit codes (0 good, 1 a fault or accounts that do not
// balance, 2 usage, 3 bad input; ringlet ctl has more); it decides nothing else. docs/quickstart.md and
// docs/deploying.md say what a user must do, in order. It promises nothing about text on standard error; programs read
// the object of --json and the exit codes.
package main
