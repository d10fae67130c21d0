// Package ringlet holds the rules of the repository as tests, and nothing that runs: a distributed event builder is
// made of the packages below this folder, and started by cmd/ringlet. See README.md and docs/design/001-packages.md.
//
// It stands for style.md's rule that a convention which a machine can check is a test: every package has its doc.go, no
// file grows past 500 lines, every dependency has its reason on record, the documents link to what exists.
//
// No package imports it. It does not judge code: the linters do (.golangci.yml), and readers.
package ringlet
