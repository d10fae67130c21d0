package readoutunit

import (
	"fmt"

	"ringlet/event/placing"
	"ringlet/tagnet"
)

// What follows is how a unit gets the windows that it writes to: pre-granted ones, asked for once, or one for each MEP
// whose sizes it announces.

// prepareWindows sees to it that there will be windows for the tokens of a batch.
func (u *Unit) prepareWindows(b *tagnet.Batch) error {
	if u.order.UsesPreGrants() {
		return u.requestPreGrants()
	}
	for i := range b.Len() {
		if err := u.announceCycle(b, i); err != nil {
			return err
		}
	}
	return nil
}

// requestPreGrants asks every builder unit, once, for its pre-granted windows.
func (u *Unit) requestPreGrants() error {
	if u.preGrantsRequested {
		return nil
	}
	u.preGrantsRequested = true
	for bu, rank := range u.cfg.BURanks {
		if u.isLost(bu) {
			continue
		}
		u.message = placing.AppendWindowRequest(u.message[:0])
		if err := u.cfg.Network.Signal(rank, u.message); err != nil {
			if err = u.tolerateLoss(bu, fmt.Errorf("asking builder unit %d for its windows: %w", bu, err)); err != nil {
				return err
			}
		}
	}
	return nil
}

// announceCycle tells each builder unit of a cycle what this unit has for it, the one that it comes to first at first.
func (u *Unit) announceCycle(b *tagnet.Batch, cycle int) error {
	for _, bu := range u.order.VisitOrder() {
		if bu == Dummy {
			continue
		}
		t, ok := b.Token(cycle, bu)
		if !ok || t.MEP < u.cfg.Rejoin.FirstMEP {
			continue
		}
		if u.isWithdrawn(b.FirstCycle+uint64(cycle), bu) {
			continue
		}
		if err := u.announceTo(bu, &t); err != nil {
			return fmt.Errorf("announcing MEP %d to builder unit %d: %w", t.MEP, bu, err)
		}
	}
	return nil
}

// entriesSize is how many bytes of a part are its entries, before the MFPs.
func (u *Unit) entriesSize() int { return u.cfg.Streams * placing.EntrySize }

// announceTo tells one builder unit the sizes for one token, in as many messages as it takes.
func (u *Unit) announceTo(bu int, t *tagnet.Token) error {
	u.mu.Lock()
	part, err := u.cfg.Retention.lookUp(u.cfg.Retention.heldSpan(), t.MEP)
	u.mu.Unlock()
	if err != nil {
		return err
	}
	n := u.cfg.Streams
	a := &u.announcement
	a.RU, a.StreamCount, a.Slot, a.Attempt, a.MEP = uint16(u.cfg.RU), uint16(n), t.Slot, uint32(t.Attempt), t.MEP
	for first := 0; first < n; first += len(a.Entries) {
		a.FirstStream, a.Entries = uint16(first), a.Entries[:0]
		for i := first; i < min(n, first+placing.MaxEntries); i++ {
			a.Entries = append(a.Entries, placing.ReadEntry(part, i))
		}
		u.message = a.Append(u.message[:0])
		if err := u.cfg.Network.Signal(u.cfg.BURanks[bu], u.message); err != nil {
			return u.tolerateLoss(bu, err)
		}
	}
	return nil
}

// HandleGrant takes a builder unit's signal of kind placing.KindGrant. An error says what was wrong with it; it had no
// effect.
func (u *Unit) HandleGrant(rank int, payload []byte) error {
	return u.countRefusal(u.handleGrant(rank, payload))
}

// countRefusal counts what was refused.
func (u *Unit) countRefusal(err error) error {
	if err != nil {
		u.refusedGrants.Add(1)
	}
	return err
}

func (u *Unit) handleGrant(rank int, payload []byte) error {
	var g placing.Grant
	if err := g.Parse(payload); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	bu, ok := u.buByRank[rank]
	switch {
	case !ok:
		return fmt.Errorf("rank %d granted a window for MEP %d, and holds no builder unit", rank, g.MEP)
	case u.order.UsesPreGrants():
		return fmt.Errorf("a window for MEP %d came from builder unit %d, which has granted its windows for all MEPs",
			g.MEP, bu)
	}
	if err := u.order.ApplyGrant(bu, &g); err != nil {
		return err
	}
	u.changed.Broadcast()
	return nil
}

// HandlePreGrants takes a builder unit's signal of kind placing.KindPreGrants. An error says what was wrong with it; it
// had no effect.
func (u *Unit) HandlePreGrants(rank int, payload []byte) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.countRefusal(u.handlePreGrants(rank, payload))
}

func (u *Unit) handlePreGrants(rank int, payload []byte) error {
	bu, ok := u.buByRank[rank]
	if !ok {
		return fmt.Errorf("rank %d granted windows for all MEPs, and holds no builder unit", rank)
	}
	if err := u.preGrants.Parse(payload); err != nil {
		return err
	}
	if err := u.order.ApplyPreGrants(bu, &u.preGrants); err != nil {
		return err
	}
	u.changed.Broadcast()
	return nil
}
