// Command cicheck reads the JSON object of `ringlet run --json` on standard input and says whether the run's accounts
// hold.
//
// It stands for the invariants (docs/report.md): every event that was triggered has exactly
// one outcome, and none was lost. .ci/run pipes a real run through it:
//
//	bin/ringlet run --duration 3s --json | go run ./internal/cicheck
//
// Exit code 0: the accounts hold. 1: they do not, each reason on a line of standard error. 2: the input is not such an
// object.
//
// It does not judge speed: a slow machine that keeps its accounts passes.
package main
