package builderunit

import (
	"errors"
	"fmt"
)

// Pipeline of a MEP that the sink has no time for (seed 002, L11):
//
//	1 PlacedMany  (parallel: receivers)     the MEP is whole, and as many as the backlog allows wait for the finisher: it is turned away, under mu
//	2 discard     (sequential: discarder)   grants revoked, the slot is free, the scheduler is told
//
// The discarder never touches the sink, so a sink that is stuck holds up what the backlog allows and nothing more.

// backlog is the pure core of the policy: how many whole MEPs wait for the sink, the one that it has included.
type backlog struct {
	most    int // 0: any number
	waiting int
}

// join reports whether one more may wait.
func (l *backlog) join() bool {
	if l.most > 0 && l.waiting >= l.most {
		return false
	}
	l.waiting++
	return true
}

// leave says that n are done with.
func (l *backlog) leave(n int) { l.waiting -= n }

// discarder gives up MEPs that were turned away, one after the other.
func (b *Builder) discarder() {
	var s finishing
	for {
		select {
		case <-b.ctx.Done():
			return
		case f := <-b.spill:
			if err := b.discard(f, &s); err != nil {
				b.fail(err)
				return
			}
		}
	}
}

// discard closes a slot to the network and gives up the MEP in it.
func (b *Builder) discard(f finished, s *finishing) error {
	b.mu.Lock()
	mep := b.asm.Slot(f.slot)
	s.refs = b.asm.Refs(f.slot, s.refs[:0])
	b.mu.Unlock()
	if err := b.revoke(mep.MEP, s.refs); err != nil {
		return err
	}
	if err := b.cfg.Slots.Abandon(f.slot); err != nil {
		return err
	}
	return b.release(f, mep, Discarded, 0)
}

// turnAway lets those of the slots that are newly whole wait for the finisher that may, and the others not. Its caller holds mu.
func (q *quota) turnAway(l *backlog, first int) {
	keep := first
	for _, slot := range q.batch[first:] {
		if l.join() {
			q.batch[keep] = slot
			keep++
		} else {
			q.spill = append(q.spill, slot)
		}
	}
	q.batch = q.batch[:keep]
	if len(q.spill) > 0 {
		poke(q.wakeSpill)
	}
}

// quotaDiscarder gives up MEPs that were turned away, as many as there are.
func (b *Builder) quotaDiscarder() {
	q := b.quota
	var results []Result
	var spare []uint32
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-q.wakeSpill:
		}
		b.mu.Lock()
		slots, at := q.spill, q.at
		q.spill, spare = spare[:0], slots
		results = results[:0]
		for _, i := range slots {
			mep := q.asm.Slot(int(i))
			results = append(results, Result{Slot: int(i), MEP: mep.MEP, Attempt: mep.Attempt, Outcome: Discarded, Done: at})
		}
		b.mu.Unlock()
		if err := b.discardMany(slots, results); err != nil {
			b.fail(err)
			return
		}
	}
}

// discardMany gives slots back whose MEPs are discarded, and tells the scheduler.
func (b *Builder) discardMany(slots []uint32, results []Result) error {
	for _, i := range slots {
		if err := errors.Join(b.cfg.Slots.Withdraw(int(i)), b.cfg.Slots.Offer(int(i))); err != nil {
			return fmt.Errorf("discarding what is in slot %d: %w", i, err)
		}
	}
	b.telling.Lock()
	defer b.telling.Unlock()
	b.mu.Lock()
	b.quota.asm.Discard(slots)
	b.mu.Unlock()
	return b.cfg.Feedback(results)
}

// poke leaves a mark in a channel of one place.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
