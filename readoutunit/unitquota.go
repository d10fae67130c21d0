package readoutunit

// Pipeline of a token where placing is by quota. Nothing is done per token but in 1 (the block) and 3 (a piece, 40 bytes):
//
//	1 readMany  (sequential: reader)     source → rooms, an eighth of them at a time; the scheduler learns how far, once for all of them
//	2 serve     (sequential: server)     batch after batch of cycles: what is released makes rooms free
//	3 sort      (sequential: server)     each token's part into the burst of its builder unit
//	4 flush     (sequential: server)     one write of many pieces per burst, straight from the rooms, when it is full or no batch is at hand
//	5 Completed (parallel: receivers)    the burst has its outcome: its rooms may become free
//
// With a barrier that holds, 3 and 4 are done phase by phase, one token at a time. A room's bytes are the source's until the read watermark passes
// it, and the network's until the schedule needs it no more. Nothing is allocated per batch.

import (
	"errors"
	"fmt"
	"io"
	"time"

	"ringlet/event/placing"
	"ringlet/readoutunit/source"
	"ringlet/tagnet"
)

// quota is what a Unit is more, where placing is by quota.
type quota struct {
	// immutable after newQuota
	source source.Many
	order  []int // builder units in the order of the phases of this unit

	// owned by the server
	bursts   []*Burst // being filled, by builder unit; nil for none
	from, to uint64   // MEPs that are held, as known when the batch came
	void     []uint64 // cycles before which tokens are withdrawn, by builder unit; nil if none are
	standing placing.Standing

	core *QuotaSchedule // guarded by Unit.mu, but for Add
}

func newQuota(cfg *Config) *quota {
	bus := len(cfg.BURanks)
	q := &quota{
		source: source.InMany(cfg.Source, cfg.Streams), bursts: make([]*Burst, bus),
		core: NewQuotaSchedule(cfg.RU, cfg.RUs, bus, cfg.Slots),
	}
	phases := Phases(cfg.RUs, bus)
	for p := range phases {
		if at := PlaceOf(cfg.RU, p, phases); at < bus {
			q.order = append(q.order, at)
		}
	}
	return q
}

// readMany fills the rooms and tells the scheduler how far it has come. It waits until an eighth of the rooms is free: what it
// reads at a time is what the scheduler is told at a time, and each telling costs a message.
func (u *Unit) readMany() error {
	rooms, src := u.cfg.Rooms, u.quota.source
	least := max(1, rooms.Len()/8)
	var up tagnet.Update
	for {
		u.forRoom.Start()
		first, strip, sizes, err := rooms.Reserve(u.ctx, least)
		u.forRoom.Stop()
		if err != nil {
			return err
		}
		u.forSource.Start()
		run, ended := src.NextMany(u.ctx, strip, sizes[:min(len(sizes), least)])
		u.forSource.Stop()
		if run.Blocks > 0 {
			if run.MEP != first {
				return fmt.Errorf("the source gave MEP %d where %d follows", run.MEP, first)
			}
			rooms.Commit(run.Blocks)
			u.mfps.Add(uint64(run.Blocks * u.cfg.Streams))
			up.Read, up.Events = run.MEP+uint64(run.Blocks), up.Events+run.Events
		}
		if ended != nil {
			return u.inputOver(up, ended)
		}
		if more, err := u.tell(up); err != nil || !more {
			return err
		}
	}
}

// serve takes tokens until there are no more.
func (u *Unit) serve() error {
	asked := false
	for {
		u.forTokens.Start()
		t, err := u.cfg.Scheduler.Next(u.ctx)
		u.forTokens.Stop()
		if errors.Is(err, io.EOF) {
			u.noMore()
			return nil
		}
		if err != nil {
			return err
		}
		for more := true; more && err == nil; t, more = u.cfg.Scheduler.TryNext() {
			if err = u.take(&t); err != nil || t.Len() == 0 {
				continue
			}
			if !asked {
				asked = true
				err = u.ask()
			}
			if err == nil {
				err = u.serveBatch(&t.Batch)
			}
		}
		if err == nil {
			err = u.flushAll()
		}
		if err != nil {
			return err
		}
	}
}

// take checks a batch and frees what is released.
func (u *Unit) take(t *tagnet.Tokens) error {
	core := u.quota.core
	u.withdrawMany(t.Withdrawn)
	u.cfg.Rooms.PutAside(t.HeldUp)
	u.mu.Lock()
	core.Release(t.Released)
	needed := core.Needed()
	err := core.Cycles(&t.Batch)
	u.mu.Unlock()
	u.cfg.Rooms.Free(needed)
	return err
}

// ask asks every builder unit for its windows and waits for them.
func (u *Unit) ask() error {
	var message [placing.AskSize]byte
	for bu, rank := range u.cfg.BURanks {
		if u.lost(bu) {
			continue
		}
		if err := u.cfg.Network.Signal(rank, placing.AppendAsk(message[:0])); err != nil {
			if err = u.bear(bu, fmt.Errorf("asking builder unit %d for its windows: %w", bu, err)); err != nil {
				return err
			}
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.began = time.Now()
	err := u.wait(u.quota.core.Granted)
	u.grants += time.Since(u.began)
	return err
}

// Standing takes a builder unit's signal of kind placing.KindStanding. An error says what was wrong with it; it had no effect.
func (u *Unit) Standing(rank int, payload []byte) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.count(u.standing(rank, payload))
}

func (u *Unit) standing(rank int, payload []byte) error {
	bu, ok := u.byRank[rank]
	switch {
	case u.quota == nil:
		return fmt.Errorf("rank %d granted windows beforehand, where they are granted by announcement", rank)
	case !ok:
		return fmt.Errorf("rank %d, which is no builder unit, granted windows beforehand", rank)
	}
	m := &u.quota.standing
	if err := m.Parse(payload); err != nil {
		return err
	}
	if err := u.quota.core.Standing(bu, m); err != nil {
		return err
	}
	if u.quota.core.Granted() {
		u.changed.Broadcast()
	}
	return nil
}

// serveBatch takes the parts for all tokens of a batch into bursts or, in phases, writes them.
func (u *Unit) serveBatch(b *tagnet.Batch) error {
	q := u.quota
	q.from, q.to = u.cfg.Rooms.Span()
	u.mu.Lock()
	q.void = append(q.void[:0], q.core.Void()...) // a link may go down meanwhile
	u.mu.Unlock()
	phases := uint64(Phases(u.cfg.RUs, len(u.cfg.BURanks)))
	var err error
	if u.cfg.Free {
		var tokens uint64
		tokens, err = u.sort(b)
		tokens += u.passVoid(b)
		u.tokens.Add(tokens)
		u.phases.Add(uint64(b.Len()) * phases)
		u.dummies.Add(uint64(b.Len())*phases - tokens)
	} else {
		for i := 0; i < b.Len() && err == nil; i++ {
			err = u.inPhases(b, i)
		}
	}
	return err
}

// flushAll sends what is in bursts, in the order of this unit's phases.
func (u *Unit) flushAll() error {
	for _, bu := range u.quota.order {
		if err := u.flush(bu); err != nil {
			return err
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over = time.Now()
	return nil
}

// sort puts each token's part into the burst of its builder unit, and sends the bursts that are full.
func (u *Unit) sort(b *tagnet.Batch) (tokens uint64, err error) {
	q, place := u.quota, 0
	for at, mep := range b.MEPs {
		if mep != tagnet.NoMEP && (len(q.void) == 0 || !q.isVoid(b.First+uint64(at/b.Places), place)) {
			tokens++
			full, err := u.add(place, mep, b.Slots[at])
			if err != nil {
				return tokens, err
			}
			if full {
				if err := u.flush(place); err != nil {
					return tokens, err
				}
			}
		}
		if place++; place == b.Places {
			place = 0
		}
	}
	return tokens, nil
}

// add puts the part for a token into the burst of its builder unit. It reports whether that is full.
func (u *Unit) add(bu int, mep uint64, word uint32) (bool, error) {
	q := u.quota
	var part []byte
	if mep >= q.from && mep < q.to {
		part = u.cfg.Rooms.Part(mep)
	} else if part = u.cfg.Rooms.Aside(mep); part == nil {
		return false, fmt.Errorf("%w: MEP %d, for builder unit %d; those from %d up to %d are", ErrRetention, mep, bu, q.from, q.to)
	}
	burst := q.bursts[bu]
	if burst == nil {
		var err error
		if burst, err = u.open(bu); err != nil {
			return false, err
		}
	}
	return q.core.Add(burst, mep, word, part)
}

// open begins a burst, waiting while too many are under way.
func (u *Unit) open(bu int) (*Burst, error) {
	q := u.quota
	u.mu.Lock()
	defer u.mu.Unlock()
	for {
		if u.ctx.Err() != nil {
			return nil, ErrClosed
		}
		if b := q.core.Open(bu, q.from); b != nil {
			q.bursts[bu] = b
			return b, nil
		}
		u.changed.Wait()
	}
}

// flush writes what is in the burst of a builder unit. No lock is held meanwhile: a carrier may tell the outcome before it returns.
func (u *Unit) flush(bu int) error {
	q := u.quota
	b := q.bursts[bu]
	if b == nil {
		return nil
	}
	q.bursts[bu] = nil
	rank := u.cfg.BURanks[bu]
	u.mu.Lock()
	if q.core.Lost(bu) {
		q.core.Discard(b)
		u.mu.Unlock()
		return nil
	}
	cookie := q.core.Send(b)
	u.mu.Unlock()
	large := len(b.Large)
	if len(b.Pieces) > 0 {
		if err := u.cfg.Network.WriteMany(rank, b.Pieces, cookie); err != nil {
			return u.bear(bu, fmt.Errorf("writing %d parts to builder unit %d: %w", len(b.Pieces), bu, err))
		}
	}
	for i := range large {
		if err := u.cfg.Network.Write(rank, b.Large[i]); err != nil {
			return u.bear(bu, fmt.Errorf("writing MEP %d to builder unit %d: %w", uint32(b.Large[i].Imm>>32), bu, err))
		}
	}
	return nil
}

// burstCompleted takes the outcome of one write of a burst.
func (u *Unit) burstCompleted(rank int, cookie uint64, err error) {
	core := u.quota.core
	u.mu.Lock()
	if bu, ok := u.byRank[rank]; ok && core.Lost(bu) {
		u.mu.Unlock()
		return // it has been given up
	}
	b, wrong := core.Complete(cookie)
	switch {
	case wrong != nil:
		u.failLocked(errors.Join(wrong, err))
	case err != nil && !core.bursts[cookie].left:
		u.failLocked(fmt.Errorf("writing to builder unit %d: %w", core.bursts[cookie].BU, err))
	}
	if b == nil {
		u.mu.Unlock()
		return
	}
	if err == nil {
		u.written.Add(uint64(b.Tokens()))
		u.wrote(b.BU, b.Bytes)
	} else {
		u.leftFailed.Add(uint64(b.Tokens()))
	}
	if b.left {
		u.settle()
	}
	needed := core.Needed()
	u.changed.Broadcast()
	u.mu.Unlock()
	u.cfg.Rooms.Free(needed)
}

// inPhases serves one cycle phase by phase: a write, its outcome, the barrier.
func (u *Unit) inPhases(b *tagnet.Batch, cycle int) error {
	phases := Phases(u.cfg.RUs, len(u.cfg.BURanks))
	for p := range phases {
		at := PlaceOf(u.cfg.RU, p, phases)
		i := cycle*b.Places + at
		switch {
		case at >= b.Places || b.MEPs[i] == tagnet.NoMEP:
			u.dummies.Add(1)
			u.idle()
		case u.passOne(b.First+uint64(cycle), at):
			u.tokens.Add(1)
			u.idle()
		default:
			u.tokens.Add(1)
			if err := u.writeOne(at, b.MEPs[i], b.Slots[i]); err != nil {
				return err
			}
		}
		if err := u.hold(); err != nil {
			return err
		}
		u.mu.Lock()
		u.timeline.released(u.phases.Load())
		u.mu.Unlock()
		u.phases.Add(1)
	}
	return nil
}

// writeOne writes the part for one token and waits for the outcome.
func (u *Unit) writeOne(bu int, mep uint64, word uint32) error {
	if _, err := u.add(bu, mep, word); err != nil {
		return err
	}
	burst := u.quota.bursts[bu]
	u.mu.Lock()
	u.timeline.begin(u.phases.Load(), bu, mep)
	u.mu.Unlock()
	if err := u.flush(bu); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	err := u.wait(func() bool { return !burst.inUse })
	u.timeline.sent(bu, mep)
	return err
}
