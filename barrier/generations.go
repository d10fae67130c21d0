package barrier

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// The members may change while the barrier is in use: a rank is lost, or comes back. Each change starts a new barrier,
// called a generation, among the ranks that are members from then on. Within a generation the members have indices, in
// the order of their ranks, and epochs count from 0. All members know the number of the round of phases in which a
// generation begins, so no rank needs to ask how far the others are.
//
//	ChangeMembers ─► announces the next generation: its members, and its first round
//	                 if a former member is gone, no rank waits in the earlier generations any longer: Enter returns at
//	                 once, without an error
//	BeginRound ────► the first round begins, and with it the generation
//
// Before a rank begins a generation it finishes the one before, unless a member of that one is gone. A message can come
// for a generation that has not begun at this rank: the rank keeps the message until then. It drops messages for
// earlier generations, and counts them as late. The highest 16 bits of the epoch in a message are the number of the
// generation; the other bits are the epoch within the generation.

// generationShift is the position of the generation's number in a message's epoch.
const generationShift = 48

// epochMask selects the epoch's own bits.
const epochMask = 1<<generationShift - 1

// maxGenerations bounds the number of changes.
const maxGenerations = 1 << (64 - generationShift)

// generation is the barrier's members from a round on.
type generation struct {
	number     uint64
	firstRound uint64 // the first round with these members
	members    []int  // the rank at each index, in rising order
	rankGone   bool   // a member of the previous generation is gone
}

// earlyMessage is a message of a generation that has not begun here.
type earlyMessage struct {
	generation uint64
	message    Message // with ranks, not indices
}

var errGenerations = errors.New("the barrier's ranks have changed too often")

// ChangeMembers sets the barrier's members from a round on, ranks in rising order. gone says that one of the former
// members is gone: no rank then waits in the phases before that round, and a blocked Enter returns. Each member must
// learn of all changes, in the same order, and of each before its first round.
func (b *Barrier) ChangeMembers(round uint64, ranks []int, gone bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changeCount++; b.changeCount == maxGenerations {
		return fmt.Errorf("%w: %d times", errGenerations, b.changeCount)
	}
	b.pendingGenerations = append(b.pendingGenerations, generation{
		number:     b.changeCount,
		firstRound: round,
		members:    slices.Clone(ranks),
		rankGone:   gone,
	})
	if gone {
		b.dissolve()
	}
	return nil
}

// dissolve makes this rank wait no longer in this generation. The caller holds mu.
func (b *Barrier) dissolve() {
	b.dissolved, b.awaiting, b.firstSendErr = true, false, nil
	b.signalWake()
}

// BeginRound says that the next phases belong to this round. The goroutine that calls Enter calls it. Its errors are
// those of Enter.
func (b *Barrier) BeginRound(ctx context.Context, round uint64) error {
	b.mu.Lock()
	due := len(b.pendingGenerations) > 0 && b.pendingGenerations[0].firstRound <= round
	dissolved := b.dissolved
	b.mu.Unlock()
	if !due {
		return nil
	}
	if !dissolved {
		if _, err := b.Finish(ctx); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var g generation
	for len(b.pendingGenerations) > 0 && b.pendingGenerations[0].firstRound <= round {
		g, b.pendingGenerations = b.pendingGenerations[0], b.pendingGenerations[1:]
	}
	b.beginGeneration(g)
	b.flush()
	return nil
}

// beginGeneration begins a generation. The caller holds mu.
func (b *Barrier) beginGeneration(g generation) {
	b.addressQueued()
	index, n := slices.Index(g.members, b.rank), len(g.members)
	if index < 0 { // this rank is no member
		return
	}
	counters := b.epochs.cores[0].counters
	core := newCore(b.kind, n, index)
	core.counters = counters
	core.setOffer(b.offered)
	b.epochs = newOpenEpochs(core, len(b.epochs.cores)-1)
	b.epochs.setOffer(b.offered)
	b.generation, b.members, b.awaiting, b.enterGaveUp, b.firstSendErr = g.number, g.members, false, false, nil
	b.dissolved = slices.ContainsFunc(b.pendingGenerations, func(later generation) bool { return later.rankGone })
	early := b.earlyMessages
	b.earlyMessages = nil
	for _, e := range early {
		switch {
		case e.generation > g.number:
			b.earlyMessages = append(b.earlyMessages, e)
		case e.generation < g.number || b.dissolved:
			counters.Late++
		case !b.ranksToIndices(&e.message):
			counters.WrongRank++
		default:
			_ = b.epochs.receive(e.message, b.now(), &b.actions) // a refused message is counted
		}
	}
}

// keepEarly keeps a message of a generation that has not begun here. A rank is at most one epoch ahead of one that has
// not entered, so these are few, except queries. It reports false if there are too many. The caller holds mu.
func (b *Barrier) keepEarly(number uint64, m Message) bool {
	if len(b.earlyMessages) >= 8*b.initialRanks*len(b.epochs.cores) {
		return false
	}
	b.earlyMessages = append(b.earlyMessages, earlyMessage{number, m})
	return true
}

// ranksToIndices replaces the ranks in a message by indices; false if a rank is no member. The caller holds mu.
func (b *Barrier) ranksToIndices(m *Message) bool {
	if b.members == nil {
		return true
	}
	from, fromFound := slices.BinarySearch(b.members, int(m.From))
	to, toFound := slices.BinarySearch(b.members, int(m.To))
	m.From, m.To = uint16(from), uint16(to)
	return fromFound && toFound
}

// addressQueued replaces the indices in newly queued messages by ranks, and adds the generation. The caller holds mu.
func (b *Barrier) addressQueued() {
	if b.generation > 0 {
		for i := b.queuedWithRanks; i < len(b.actions.Send); i++ {
			m := &b.actions.Send[i]
			m.From, m.To = uint16(b.members[m.From]), uint16(b.members[m.To])
			m.Epoch |= b.generation << generationShift
		}
	}
	b.queuedWithRanks = len(b.actions.Send)
}

// rankOf is the rank at an index.
func (b *Barrier) rankOf(index int) int {
	if b.members == nil || index == Nobody {
		return index
	}
	return b.members[index]
}

func (b *Barrier) ranksOf(indices []int) (ranks []int) {
	for _, index := range indices {
		ranks = append(ranks, b.rankOf(index))
	}
	return ranks
}
