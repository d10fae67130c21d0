// Package profile takes profiles of this process and serves them, those of other processes too, to whoever may see
// them.
//
// It stands for NIC-crossbar §3.1.4, timers on everything, at the last resort: where the counters do not
// say what a processor is busy with. It is not net/http/pprof, which puts its pages on the default mux of every program
// that imports it.
//
// What the caller must do: Take with a writer, for one profile; Handler for a page of them under /debug/pprof/, which
// the caller lets nobody but an admin reach. `go tool pprof` reads what both write, `go tool trace` a trace.
//
// What it does not promise: that a profile is free. A cpu profile costs a percent or so while it is taken, a trace much
// more; one of each is taken at a time, and whoever comes second is told.
package profile
