package barrier

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Who takes part may change while the barrier is in use: a rank has gone, or is back. What follows is a chain of
// barriers, one for each change, the generations. Each is a barrier of its own among the ranks that take part in it,
// which have seats there in the order of their ranks; its epochs begin at 0 anew. A generation begins where its ranks
// begin a round of phases that all of them know, so nobody need be asked how far the others are.
//
//	Change ─► it is known from which round on others take part
//	          a rank has gone: nobody waits in the generations before any more, Enter returns at once
//	Round  ─► the round begins: its generation takes over
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
	number uint64
	round  uint64 // the first that it is for
	seats  []int  // the rank at each seat, in rising order
	gone   bool   // a rank of the one before has gone
}

// earlyMessage is one of a generation that has not begun here.
type earlyMessage struct {
	generation uint64
	message    Message // with ranks
}

var errGenerations = errors.New("the barrier's ranks have changed too often")

// Change says that from a round on the given ranks take part, in rising order. gone says that one of those before has
// gone, so that the phases up to there are held by nobody: whoever is in Enter leaves it. Every rank that takes part
// must be told all changes, in the same order, and none later than the first round that it concerns.
func (b *Barrier) Change(round uint64, ranks []int, gone bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changes++; b.changes == maxGenerations {
		return fmt.Errorf("%w: %d times", errGenerations, b.changes)
	}
	b.coming = append(b.coming, generation{
		number: b.changes,
		round:  round,
		seats:  slices.Clone(ranks),
		gone:   gone,
	})
	if gone {
		b.dissolve()
	}
	return nil
}

// dissolve has nobody wait in this generation any more. mu is held.
func (b *Barrier) dissolve() {
	b.dissolved, b.open, b.broken = true, false, nil
	b.rouse()
}

// Round says that the next phases are of a round of that number, and later ones. It is called by who calls Enter. Its
// errors are those of Enter.
func (b *Barrier) Round(ctx context.Context, round uint64) error {
	b.mu.Lock()
	due := len(b.coming) > 0 && b.coming[0].round <= round
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
	for len(b.coming) > 0 && b.coming[0].round <= round {
		g, b.coming = b.coming[0], b.coming[1:]
	}
	b.renew(g)
	b.flush()
	return nil
}

// renew begins a generation. mu is held.
func (b *Barrier) renew(g generation) {
	b.address()
	seat, n := slices.Index(g.seats, b.rank), len(g.seats)
	if seat < 0 { // it takes no part, and is told nothing any more
		return
	}
	counters := b.turns.cores[0].counters
	core := newCore(b.kind, n, seat)
	core.counters = counters
	core.setOffer(b.offered)
	b.turns = newTurns(core, len(b.turns.cores)-1)
	b.turns.offer(b.offered)
	b.generation, b.seats, b.open, b.unmet, b.broken = g.number, g.seats, false, false, nil
	b.dissolved = slices.ContainsFunc(b.coming, func(later generation) bool { return later.gone })
	early := b.early
	b.early = nil
	for _, e := range early {
		switch {
		case e.generation > g.number:
			b.early = append(b.early, e)
		case e.generation < g.number || b.dissolved:
			counters.Late++
		case !b.seat(&e.message):
			counters.WrongRank++
		default:
			_ = b.turns.receive(e.message, b.now(), &b.acts) // what is wrong with it is counted
		}
	}
}

// keep keeps a message of a generation that has not begun here. A rank is never more than an epoch ahead of one that
// has not entered, so that there are few, but for questions. It reports false where there are too many. mu is held.
func (b *Barrier) keep(number uint64, m Message) bool {
	if len(b.early) >= 8*b.ranks*len(b.turns.cores) {
		return false
	}
	b.early = append(b.early, earlyMessage{number, m})
	return true
}

// seat puts seats in place of the ranks of a message; false if they have none. mu is held.
func (b *Barrier) seat(m *Message) bool {
	if b.seats == nil {
		return true
	}
	from, is := slices.BinarySearch(b.seats, int(m.From))
	to, too := slices.BinarySearch(b.seats, int(m.To))
	m.From, m.To = uint16(from), uint16(to)
	return is && too
}

// address puts ranks in place of the seats of the messages in the queue that have come since, and names the generation.
// mu is held.
func (b *Barrier) address() {
	if b.generation > 0 {
		for i := b.addressed; i < len(b.acts.Send); i++ {
			m := &b.acts.Send[i]
			m.From, m.To = uint16(b.seats[m.From]), uint16(b.seats[m.To])
			m.Epoch |= b.generation << generationShift
		}
	}
	b.addressed = len(b.acts.Send)
}

// rankOf is the rank at a seat.
func (b *Barrier) rankOf(seat int) int {
	if b.seats == nil || seat == Nobody {
		return seat
	}
	return b.seats[seat]
}

func (b *Barrier) ranksOf(seats []int) (ranks []int) {
	for _, seat := range seats {
		ranks = append(ranks, b.rankOf(seat))
	}
	return ranks
}
