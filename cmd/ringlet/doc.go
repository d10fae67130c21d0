// Command ringlet is a distributed event builder in one static binary: see README.md for the first minute, `ringlet
// --help` for the rest. It stands for the founding documents' demand that a whole system be started, fed and looked at
// by one person.
//
// This package wires flags to the packages below and decides on exit codes (0 good, 1 a fault or accounts that do not
// balance, 2 usage, 3 bad input); it decides nothing else. What a user must do, and in which order, stands in
// docs/quickstart.md and docs/deploying.md. It promises nothing about text on standard error; the object of --json
// and the codes are for programs.
package main
