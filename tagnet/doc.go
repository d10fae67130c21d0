// Package tagnet is the scheduler as a network service: builder units report free slots, readout units report
// watermarks, and the scheduler sends tokens to the readout units.
//
// It stands for the traffic management of TagNet-farm §III.B (and §III.E and §VII.C): builders return free buffers by
// feedback, and the scheduler queues them and gives every event a destination before the senders need one, in an order
// in which no two senders meet at one receiver. The tag generator of L1-farm §7.2.2 is its other parent: a token is a
// tag. Here a MEP takes the place of the event, and a cycle, in which each active builder unit has one place at most,
// the place of the round over the torus columns.
//
// # The core
//
// Package core takes the decisions: it has the view, the sessions of its units and the stream of notices. This package
// carries messages to the core and does what core.Ready says (shells_test.go, at the root, checks that it calls nothing
// else).
//
// # The service
//
// Host is the service, with space for one Server. A Server serves one core.Core, which is one view of one run; it
// issues tokens once every unit has attached. The control calls BeginScheduler, and NewRemote as often as it likes: a
// Remote gets all notices from the beginning. EndScheduler closes the Server; a drained Server gives way to the next.
// This is the only way to a scheduler, whether the Host is on a node, where it outlives the control, or in the
// control's own process.
//
// The Server reports units that are missing, lost or misbehaving to the control, and decides nothing: the run control
// excludes the unit or abandons the view. Close ends the streams, at any time; Registers stay readable.
//
// A readout unit makes an RUClient with DialRU, calls Update whenever it holds more, and Next in a loop until io.EOF. A
// builder unit makes a BUClient with DialBU, calls SendFeedback with every outcome (QueueFeedback if the outcome can
// wait for the next one), Flush when it ends, and Close. Both name their run, view and unit. The Server refuses and
// counts units of another run or view; their client returns a *RemoteError.
//
// The client resumes a stream that breaks, within DefaultResumeTimeout or what SetResumeTimeout says: it keeps outcomes
// and tags, which have sequence numbers, until the scheduler acknowledges them, and the scheduler sends the notices
// again from the unit's position. The caller sees a pause, or the end of the session if the time was not enough.
//
// # Who may call
//
// Access compares the name in a scope with the caller's certificate, and checks that the caller has the role which a
// call needs. Of two controls with the same certificate the Fence obeys the one with the higher Term.
//
// # What it does not promise
//
// A unit that was lost cannot attach again in the same view, unless the control excludes and includes it.
package tagnet
