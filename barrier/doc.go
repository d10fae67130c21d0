// Package barrier keeps the readout units of a view in step: nobody begins
// phase p+1 of the linear shift before everybody has finished phase p.
//
// It stands for LHCb-EB §III.D, "Synchronization Barrier": a two-step procedure in which all
// processes first arrive and are then released. There are four kinds.
//
//   - [None]: nobody waits and nothing is sent.
//
//   - [Central]: everybody arrives at rank 0, which releases the others one
//     after the other; time grows with N.
//
//   - [Tournament]: ranks meet pairwise in a bracket of ⌈log₂N⌉ rounds, the
//     loser of a pair arrives at its winner, and the champion's release runs
//     down the same bracket; time grows with log N.
//
//   - [Dissemination]: in round k of ⌈log₂N⌉ each rank signals the one 2^k ahead
//     of it and waits for the one 2^k behind it; nobody is released. It takes half
//     of the tournament's steps, and N⌈log₂N⌉ messages.
//
// Central and tournament send exactly 2(N−1) messages per epoch, for any N ≥ 1.
//
// # Slack
//
// With [Options].Slack a rank may be so many phases ahead of the slowest: Enter of epoch e waits until all have entered
// e−Slack, and Straggler then speaks of that epoch. It takes no message more: there is one core for each epoch that a
// rank may be in, and they take the epochs in turn (openepochs.go). [Barrier.Finish] waits for those that are open at
// the end.
//
// # Who takes part
//
// Ranks may go and come back while the barrier is in use: [Barrier.ChangeMembers] says from which round of phases on
// who takes part, and [Barrier.BeginRound] that a round begins. For each change there is a barrier of its own, a
// generation (generations.go). When a rank has gone, nobody waits any more in what was begun with it.
//
// # Who held the phase
//
// Each arrival and signal says, of the ranks it speaks for, which one entered
// last, how long after the last but one, and how long after the first. These are
// durations on the sender's clock, so no two clocks need to agree: the receiver
// takes the set to have become complete when the message came, and compares that
// with its own entry and with what came from others. A release carries the root's
// verdict down; in a dissemination every rank comes to its own. [Barrier.LastStraggler] has
// it after every epoch. The time that messages fly is part of all of it: a lead
// shorter than the way of a message through the barrier may be that way, and
// then the rank named is the one farthest from who names it.
//
// # Core and shell
//
// [Core] decides and does nothing else: no I/O, goroutine or clock. It has an algorithm, one of two: bracket for
// the kinds with a tree (bracket.go), or dissemination (dissemination.go). [Barrier]
// is the thin shell around one Core: it blocks the caller of Enter, puts the
// core's messages on the wire through a [Signaler] and keeps the time-out.
//
// # What the caller of a Barrier must do, in order
//
//  1. NewCore(kind, n, rank) with the same kind and n on every rank of the
//     view, then New(core, signaler, options).
//  2. Hand every barrier message that arrives from rank f to Deliver(f, payload),
//     from any goroutine. Signals must be reliable; order and duplicates do
//     not matter.
//  3. Call Enter once per phase, from one goroutine at a time. The epochs are
//     counted by the barrier: consecutive, the same on every rank.
//  4. After an error of Enter, either call Enter again, which goes on waiting
//     in the same epoch, or give the run up. A *sendError stays.
//  5. With slack, Finish after the last Enter, so that nothing comes after Close.
//  6. Close, which wakes a blocked Enter. A new run takes a new barrier over new links, so that
//     no straggling message of the old run can reach it.
//
// The Signaler must not block (it queues or fails), since Deliver sends from
// the transport's receive goroutine, and must not keep the payload.
//
// # Who is missing
//
// A rank that waits knows only its neighbours. When its time-out
// strikes it sends a Query to those it waits for; each answers with a Reply
// saying that it is absent (alive, but has not entered), that it has departed, that it has sent what is waited for,
// or whom it waits for in turn, and passes the Query on to those. So the name of the missing rank reaches everybody
// over the links the barrier uses anyway, and whoever does not answer is missing too. culprits is the rule. In an
// epoch without a time-out none of this is sent.
//
// # What it does not promise
//
// It repairs nothing: a message lost by the transport blocks the epoch until
// the time-out, and then nobody is missing and the error says so. It does not
// authenticate; Deliver trusts the rank the transport gives it. When several
// ranks are missing, each waiting rank names those its own wait leads to; only
// the union over all ranks names all of them.
package barrier
