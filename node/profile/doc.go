// Package profile takes profiles of this process and serves them, and those of other processes, over HTTP.
//
// It stands for NIC-crossbar §3.1.4, timers on everything, as the last resort: when the counters do not say what a
// processor is busy with. It is not net/http/pprof, which puts its pages on the default mux of every program that
// imports it.
//
// The caller calls WriteProfile for one profile, and Handler for a page of profiles under /debug/pprof/, which only an
// admin may reach. `go tool pprof` reads the profiles, `go tool trace` a trace.
//
// It does not promise that a profile is free. A cpu profile costs some percent while it is taken, a trace much more;
// only one of each is taken at a time, and a second request gets an error.
package profile
