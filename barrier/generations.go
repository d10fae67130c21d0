package barrier

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Who takes part may change while the barrier is in use: a rank has gone, or is back. What follows is a chain of
// barriers, one for each change, the generations. Each is a barrier of its own among the ranks that take part in it,
// which have indices there in the order of their ranks; its epochs begin at 0 anew. A generation begins where its ranks
// begin a round of phases that all of them know, so nobody need be asked how far the others are.
//
//	ChangeMembers ─► it is known from which round on others take part
//	                 a rank has gone: nobody waits in the generations before any more, Enter returns at once
//	BeginRound ────► the round begins: its generation takes over
//
// The generation before is finished first, unless a rank of it has gone. Messages of a generation that has not begun
// here are kept until it has, those of one that is over are late. A message names its generation in the highest 16 bits
// of its epoch.

// generationShift is where the number of the generation stands in the epoch of a message.
const generationShift = 48

// epochMask is the rest of it.
const epochMask = 1<<generationShift - 1

// maxGenerations is how many changes there can be.
const maxGenerations = 1 << (64 - generationShift)

// generation is who takes part, from a round on.
type generation struct {
	number     uint64
	firstRound uint64 // the first that it is for
	members    []int  // the rank at each index, in rising order
	rankGone   bool   // a rank of the one before has gone
}

// earlyMessage is one of a generation that has not begun here.
type earlyMessage struct {
	generation uint64
	message    Message // with ranks
}

var errGenerations = errors.New("the barrier's ranks have changed too often")

// ChangeMembers says that from a round on the given ranks take part, in rising order. gone says that one of those
// before has gone, so that the phases up to there are held by nobody: whoever is in Enter leaves it. Every rank that
// takes part must be told all changes, in the same order, and none later than the first round that it concerns.
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

// dissolve has nobody wait in this generation any more. mu is held.
func (b *Barrier) dissolve() {
	b.dissolved, b.awaiting, b.firstSendErr = true, false, nil
	b.signalWake()
}

// BeginRound says that the next phases are of a round of that number, and later ones. It is called by who calls Enter.
// Its errors are those of Enter.
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

// beginGeneration begins a generation. mu is held.
func (b *Barrier) beginGeneration(g generation) {
	b.addressQueued()
	index, n := slices.Index(g.members, b.rank), len(g.members)
	if index < 0 { // it takes no part, and is told nothing any more
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
			_ = b.epochs.receive(e.message, b.now(), &b.actions) // what is wrong with it is counted
		}
	}
}

// keepEarly keeps a message of a generation that has not begun here. A rank is never more than an epoch ahead of one
// that has not entered, so that there are few, but for questions. It reports false where there are too many. mu is
// held.
func (b *Barrier) keepEarly(number uint64, m Message) bool {
	if len(b.earlyMessages) >= 8*b.initialRanks*len(b.epochs.cores) {
		return false
	}
	b.earlyMessages = append(b.earlyMessages, earlyMessage{number, m})
	return true
}

// ranksToIndices puts indices in place of the ranks of a message; false if they have none. mu is held.
func (b *Barrier) ranksToIndices(m *Message) bool {
	if b.members == nil {
		return true
	}
	from, fromFound := slices.BinarySearch(b.members, int(m.From))
	to, toFound := slices.BinarySearch(b.members, int(m.To))
	m.From, m.To = uint16(from), uint16(to)
	return fromFound && toFound
}

// addressQueued puts ranks in place of the indices of the messages in the queue that have come since, and names the
// generation. mu is held.
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
