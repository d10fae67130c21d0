// Package tagnet is the scheduler: free slots of builder units and watermarks of readout units go in, tokens go out.
//
// It stands for the traffic management of TagNet-farm §III.B (and §III.E and §VII.C): builders return free buffers by
// feedback, the scheduler queues them and gives every event a destination before the senders need one, in an order in
// which no two senders meet at one receiver. The tag generator of L1-farm §7.2.2 is its other parent: a token is a tag.
// A MEP takes the place of the event, and a cycle, in which each active builder unit stands at most once, the place of
// the round over the torus columns.
//
// # The core
//
// Package core decides: it has the view, the sessions of its units and the stream of notices. This package carries
// messages to it and carries out what it says (shell_test.go holds that it asks no more).
//
// # The service
//
// Host is the service, with space for one Server: that serves one core.Core, that is one view of one run, and tokens
// flow once every unit has attached. The control calls Begin, and takes the scheduler up with NewRemote, as often as it
// likes: a Remote is told everything from the beginning. End takes the Server away; a drained one gives way to the
// next. This is the one way to a scheduler, whether the Host is on a node, where it outlives the control, or in the
// process of the control itself.
//
// The Server reports units that are missing, lost or wrong to the control and decides nothing: run control excludes the
// unit or abandons the view. After Drained is closed, or at any time, Close ends the streams; Registers stay
// readable.
//
// A readout unit makes an RUClient with DialRU, calls Update whenever it holds more, and Next in a loop until io.EOF.
// A builder unit makes a BUClient with DialBU, calls SendFeedback with every outcome, or QueueFeedback with one that
// can wait for the next, Flush when it ends, and Close. Both name their run, view and unit; another run's or view's
// units are refused with a *RemoteError and counted.
//
// A stream that breaks is resumed by the client, within DefaultResumeTimeout: outcomes and tags have sequence numbers
// and are kept until they are acknowledged, and notices are replayed from where the unit was. The caller notices a
// pause, or the end if that time was not enough.
//
// # Who may speak
//
// Access holds the name in a scope against the certificate of the caller, and asks for the role that a call needs. Of
// two controls with the same certificate the Fence obeys the one with the higher Term.
//
// # What it does not promise
//
// A unit that was lost cannot attach again in the same view, except for a unit that has been excluded and included.
package tagnet
