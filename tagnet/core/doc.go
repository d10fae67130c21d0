// Package core is the scheduler without its network: the caller passes in free slots of builder units and watermarks of
// readout units, and gets tokens out. It stands for the scheduler node of TagNet-farm §III.B, §III.D and §VII.C.
//
// # The core
//
// Core serves one view. It is a step machine without I/O, goroutines or clock. Its caller
//
//  1. makes it with New;
//  2. passes each input to Step: streams that begin and end, reports of units, commands of the control, time-outs.
//     Step returns an Answer for the sender of the input;
//  3. calls Ready after each batch of inputs and carries it out: it stores and sends new notices, ends streams, sets
//     timers;
//  4. has finished when a notice says Drained. Registers has the figures at any time.
//
// The scheduler sends one stream of notices with one sequence number: cycles of tokens, exclusions, absences, cuts,
// tags, the released watermark, states and incidents. A unit that resumes its session names its Position in the stream;
// one comparison tells whether the scheduler can continue from there.
//
// # The decisions
//
// The Allocator takes them. It can be driven alone, as the simulator does: Start, ApplyUpdate, ApplyFeedback, Issue,
// LaunchTags and ReturnTag. It checks every input against what it has issued (TagNet-farm §III.D). It refuses an input
// that does not match with an error that matches its Reason under errors.Is, counts it, and changes nothing. Every
// issued MEP gets exactly one outcome, whatever happens:
//
//	Issued = Built + Discarded + Rejected + Abandoned + in flight
//
// Rules decide which builder unit a MEP goes to: groups that never have two running events, turns by round robin, by
// ratio or by demand, turn sets that alternate (Rules.TurnSets, TagNet-farm §III.B.2). The chooser applies them; for
// the plain rules a cursor is enough. A cycle is full, unless the view is Loose: there no phases depend on cycles, so
// the Allocator issues at once every token that it can.
//
// With Config.TagRing, tags carry the right to send from readout unit to readout unit (TagNet-farm §III.D), and tokens
// only announce what will be sent. The scheduler checks a returned tag against the tag that it launched, and the view
// is drained only when no tag is under way.
//
// # What it does not promise
//
// The records are the scheduler's own view: an excluded builder unit may have built a MEP whose feedback did not
// arrive, and another builder unit builds the MEP again. Only the attempt in the record counts. After an exclusion the
// MEPs of one builder unit may come out of order. The core knows nothing of phases, sizes or transports: those are the
// readout units' business.
package core
