// Package barrier keeps the readout units of a view in step: no unit begins
// phase p+1 of the linear shift before all units have finished phase p.
//
// It implements LHCb-EB §III.D, "Synchronization Barrier": a two-step procedure in which all
// processes first arrive and are then released. There are four kinds.
//
//   - [None]: no rank waits, and none sends messages.
//
//   - [Central]: every rank arrives at rank 0, which releases the others one
//     after the other; time grows with N.
//
//   - [Tournament]: ranks meet pairwise in a bracket of ⌈log₂N⌉ rounds, the
//     loser of a pair arrives at its winner, and the champion's release runs
//     down the same bracket; time grows with log N.
//
//   - [Dissemination]: in round k of ⌈log₂N⌉ each rank signals the one 2^k ahead
//     of it and waits for the one 2^k behind it; there are no releases. It takes half
//     of the tournament's steps, and N⌈log₂N⌉ messages.
//
// Central and tournament send exactly 2(N−1) messages per epoch, for any N ≥ 1.
//
// # Slack
//
// With [Options].Slack a rank may be that many phases ahead of the slowest one: Enter of epoch e waits until all ranks
// have entered e−Slack, and LastStraggler then describes that epoch. This needs no further messages: there is one core
// for each epoch that a rank may be in, and the cores take turns (openepochs.go). [Barrier.Finish] waits for the epochs
// that are open at the end.
//
// # Who takes part
//
// Ranks may leave and come back while the barrier is in use: [Barrier.ChangeMembers] sets the members from a round of
// phases on, and [Barrier.BeginRound] begins a round. Each change makes a barrier of its own, a generation
// (generations.go). When a member is gone, no rank waits any longer in the generations that it belongs to.
//
// # Who held the phase
//
// Each arrival and signal says which of the ranks it speaks for entered last, how long after the last but one, and how
// long after the first. These are durations on the sender's clock, so clocks need not agree: the receiver takes the
// message's arrival for the time when the set became complete, and compares it with its own entry and with other
// messages. A release carries the root's verdict down; in a dissemination every rank reaches its own.
// [Barrier.LastStraggler] returns it after every epoch. All these times include the flight of messages: a lead that is
// shorter than a message's way through the barrier may be that way, and the rank named is then the farthest one.
//
// # Core and shell
//
// [Core] decides, without I/O, goroutine or clock. It has one of two algorithms: bracket for the kinds with a tree
// (bracket.go), or dissemination (dissemination.go). [Barrier] is the shell around the cores: it blocks the caller of
// Enter, sends the cores' messages through a [Signaler], and keeps the time-out.
//
// # What the caller of a Barrier must do, in order
//
//  1. NewCore(kind, n, rank) with the same kind and n on every rank of the
//     view, then New(core, signaler, options).
//  2. Pass every barrier message that arrives from rank f to Deliver(f, payload),
//     from any goroutine. Signals must be reliable; order and duplicates do
//     not matter.
//  3. Call Enter once per phase, from one goroutine at a time. The barrier counts
//     the epochs: consecutive, the same on every rank.
//  4. After an error of Enter, either call Enter again, which goes on waiting
//     in the same epoch, or give the run up. A *sendError comes again.
//  5. With slack, Finish after the last Enter, so that no message comes after Close.
//  6. Close, which wakes a blocked Enter. A new run needs a new barrier over new links, so that
//     no late message of the old run can reach it.
//
// The Signaler must not block (it queues or fails), since Deliver sends from
// the transport's receive goroutine, and must not keep the payload.
//
// # Who is missing
//
// A rank that waits knows only its neighbours. After its time-out it sends a Query to the neighbours that it waits for.
// Each answers with a Reply: that it is absent (alive, but has not entered), that it has left the epoch, that it has
// sent its signal, or which ranks it waits for itself; to these it passes the Query on. So the name of the missing rank
// reaches every waiting rank over the barrier's own links, and a rank that does not answer counts as missing, too.
// culprits is the rule. An epoch without a time-out has no such messages.
//
// # What it does not promise
//
// The barrier repairs nothing: a message lost by the transport blocks the epoch until the time-out, and the error then
// says that no rank is missing. It does not authenticate: Deliver trusts the rank that the transport gives it. If
// several ranks are missing, each waiting rank names those that its own wait leads to; only together they name all.
package barrier
