// Command cicheck reads the JSON object of `ringlet run --json` on standard input and says whether the run's accounts
// hold.
//
// It checks the invariant (docs/design/001-packages.md) that every triggered event has exactly one outcome, and that
// none is lost. .ci/run pipes a real run through it:
//
//	bin/ringlet run --duration 3s --json | go run ./internal/cicheck
//
// Exit code 0: the accounts hold. 1: they do not; each reason is a line on standard error. 2: the input is not such an
// object. It does not judge speed.
package main
