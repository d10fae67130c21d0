// Package core is the scheduler without its network: free slots of builder units and watermarks of readout units go in,
// tokens go out. It stands for the scheduler node of TagNet-farm §III.B, §III.D and §VII.C.
//
// # The core
//
// Core serves one view. It is a step machine without I/O, goroutines or clock. Its caller
//
//  1. makes it with New;
//  2. gives it by Step what comes in: streams of units that attach and end, what they report, commands of the control,
//     the ends of times; each has an Answer for whoever gave it;
//  3. calls Ready after each batch of these, and does what that says: it keeps the new notices and sends them, ends
//     streams, sets timers;
//  4. is finished when a notice says Drained. Registers has the figures at any time.
//
// All that the scheduler tells is one stream of notices with one sequence number: cycles of tokens, exclusions,
// absences, cuts, tags, the released watermark, states and incidents. A unit that resumes its session says a Position;
// whether it can be continued is one comparison.
//
// # The decisions
//
// Allocator has them, and can be driven alone, as the simulator does: Start, ApplyUpdate, ApplyFeedback, Issue,
// LaunchTags and ReturnTag. Every input is checked against what was issued (as TagNet-farm §III.D has it); what does
// not match is refused with an error that matches its Reason, counted, and changes nothing. Every issued MEP gets
// exactly one outcome, whatever happens:
//
//	Issued = Built + Discarded + Rejected + Abandoned + in flight
//
// Which builder unit a MEP goes to is decided by Rules: groups that never have two running events, turns by round
// robin, by ratio or by demand, turn sets that alternate (Rules.TurnSets, TagNet-farm §III.B.2). The chooser keeps
// them; with the plain rules a cursor does. A cycle is full, unless the view is Loose: then no phases depend on it, and
// whatever can go goes at once.
//
// With Config.TagRing the right to send passes from readout unit to readout unit as tags (TagNet-farm §III.D), and
// tokens only announce. A returned tag is checked against what was launched, and the view is drained only when none is
// under way.
//
// # What it does not promise
//
// The records are the scheduler's: an excluded builder unit may have built a MEP whose feedback did not arrive, and
// another builds it again. Only the attempt in the record counts. Order among the MEPs of one builder unit is not
// promised after an exclusion. Nothing here knows of phases, sizes or transports: those are the readout units'
// business.
package core
