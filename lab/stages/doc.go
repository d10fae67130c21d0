// Package stages follows one remote write from the call to the answer: it names the stages that a write passes
// (SCI-bridge §IV: the bridge's own table of them), and notes when the write under way has passed each.
//
// A Tracer belongs to one process, or to several that share its clock. The caller gives Follow to the endpoint
// (transport.Config.Trace), calls Begin before each write and reads Passed. It is right only if one write is under way
// at a time.
package stages
