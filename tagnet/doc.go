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
// Core is a step machine without I/O, goroutines or clock. Its caller
//
//  1. makes it with NewCore and calls Start when the units are there;
//  2. hands in what it hears: ApplyUpdate (a readout unit holds more MEPs), ApplyFeedback (a builder unit is done with
//     one), and the decisions of run control: ExcludeBU, IncludeBU, excludeRU, loseBU, Pause, Resume, Drain, abandon;
//  3. after each batch of these calls Issue once and sends the cycles to every readout unit, in order, completely;
//  4. tells the readout units Released, below which they may free MFPs, but for those of the MEPs in HeldUp;
//  5. is finished when State is Drained.
//
// Every input is checked against what was issued (as TagNet-farm §III.D has it); what does not match is refused with an
// *inputError, counted by Reason, and changes nothing. Every issued MEP gets exactly one outcome, whatever happens:
//
//	Issued = Built + Incomplete + Discarded + Rejected + Abandoned + in flight
//
// # The rules
//
// Which builder unit a MEP goes to is decided by Rules: groups that never have two running events, turns by round
// robin, by ratio or by demand, turn sets that alternate (Rules.TurnSets, TagNet-farm §III.B.2). The chooser keeps
// them; with the plain rules a cursor does. A cycle is full, unless the view is Loose: then no phases depend on it, and
// whatever can go goes at once.
//
// # The tag ring
//
// With Config.TagRing the right to send passes from readout unit to readout unit as tags (TagNet-farm §III.D), and
// tokens only announce. After Issue the caller calls LaunchTags and sends those tags to the first readout unit, sends
// Withdrawn to all, and hands what the last one gives back to ReturnTag, which checks it against what was launched. The
// core is Drained only when none is under way.
//
// # The service
//
// Host is the service, with space for one Server: that serves one Core, that is one view of one run, and tokens flow
// once every unit has attached. The control calls Begin, and takes the scheduler up with NewRemote, as often as it
// likes: a Remote is told everything from the beginning. End takes the Server away; a drained one gives way to the
// next. This is the one way to a scheduler, whether the Host is on a node, where it outlives the control, or in the
// process of the control itself.
//
// The Server reports units that are missing, lost or wrong by notices and decides nothing: run control excludes the
// unit or abandons the view. After Drained is closed, or at any time, Close ends the streams; Registers stay
// readable.
//
// A readout unit makes an RUClient with DialRU, calls Update whenever it holds more, and Next in a loop until io.EOF.
// A builder unit makes a BUClient with DialBU, calls SendFeedback with every outcome, or QueueFeedback with one that
// can wait for the next, Flush when it ends, and Close. Both name their run, view and unit; another run's or view's
// units are refused with a *RemoteError and counted.
//
// A stream that breaks is resumed by the client, within DefaultResumeTimeout: outcomes and tags have sequence numbers
// and are kept until they are acknowledged, tokens are replayed from where the unit was. The caller notices a pause, or
// the end if that time was not enough.
//
// # Who may speak
//
// Access holds the name in a scope against the certificate of the caller, and asks for the role that a call needs. Of
// two controls with the same certificate the Fence obeys the one with the higher Term.
//
// # What it does not promise
//
// The records are the scheduler's: an excluded builder unit may have built a MEP whose feedback did not arrive, and
// another builds it again. Only the attempt in the record counts. A unit that was lost cannot attach again in the
// same view, except for a builder unit that has been excluded and included. Order among the MEPs of one builder unit
// is not promised after an exclusion. Nothing here knows of phases, sizes or transports: those are the readout units'
// business.
package tagnet
