// Package stages follows one remote write from the call to the answer: it names the stages that a write passes
// (SCI-bridge §IV: the bridge's own table of them), and notes when the write under way has passed each.
//
// A Tracer belongs to one process, or to several that share its clock. Its caller gives Follow to the endpoint
// (transport.Config.Trace), calls Begin before each write and looks at Passed. It promises nothing where several writes
// are under way: who traces makes them one at a time.
package stages
