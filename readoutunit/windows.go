package readoutunit

import (
	"fmt"

	"ringlet/event/placing"
	"ringlet/tagnet"
)

// What follows is how a unit gets the windows that it writes to: standing ones, asked for once, or one for each MEP
// whose sizes it announces.

// prepare sees to it that there will be windows for the tokens of a batch.
func (u *Unit) prepare(b *tagnet.Batch) error {
	if u.order.Stands() {
		return u.ask()
	}
	for i := range b.Len() {
		if err := u.announce(b, i); err != nil {
			return err
		}
	}
	return nil
}

// ask asks every builder unit, once, for its standing windows.
func (u *Unit) ask() error {
	if u.asked {
		return nil
	}
	u.asked = true
	for bu, rank := range u.cfg.BURanks {
		if u.lost(bu) {
			continue
		}
		u.message = placing.AppendWindowRequest(u.message[:0])
		if err := u.cfg.Network.Signal(rank, u.message); err != nil {
			if err = u.bear(bu, fmt.Errorf("asking builder unit %d for its windows: %w", bu, err)); err != nil {
				return err
			}
		}
	}
	return nil
}

// announce tells each builder unit of a cycle what this unit has for it, the one that it comes to first at first.
func (u *Unit) announce(b *tagnet.Batch, cycle int) error {
	for _, at := range u.order.Visits() {
		if at == Dummy {
			continue
		}
		t, ok := b.Token(cycle, at)
		if !ok || t.MEP < u.cfg.Back.MEP {
			continue
		}
		if u.void(b.First+uint64(cycle), at) {
			continue
		}
		if err := u.announceTo(at, &t); err != nil {
			return fmt.Errorf("announcing MEP %d to builder unit %d: %w", t.MEP, at, err)
		}
	}
	return nil
}

// lead is how many bytes of a part are its entries, before the MFPs.
func (u *Unit) lead() int { return u.cfg.Streams * placing.EntrySize }

// announceTo tells one builder unit the sizes for one token, in as many messages as it takes.
func (u *Unit) announceTo(bu int, t *tagnet.Token) error {
	u.mu.Lock()
	part, err := u.cfg.Retention.lookUp(u.cfg.Retention.span(), t.MEP)
	u.mu.Unlock()
	if err != nil {
		return err
	}
	n := u.cfg.Streams
	a := &u.announcement
	a.RU, a.Streams, a.Slot, a.Attempt, a.MEP = uint16(u.cfg.RU), uint16(n), t.Slot, uint32(t.Attempt), t.MEP
	for first := 0; first < n; first += len(a.Entries) {
		a.First, a.Entries = uint16(first), a.Entries[:0]
		for i := first; i < min(n, first+placing.MaxEntries); i++ {
			a.Entries = append(a.Entries, placing.ReadEntry(part, i))
		}
		u.message = a.Append(u.message[:0])
		if err := u.cfg.Network.Signal(u.cfg.BURanks[bu], u.message); err != nil {
			return u.bear(bu, err)
		}
	}
	return nil
}

// Grant takes a builder unit's signal of kind placing.KindGrant. An error says what was wrong with it; it had no
// effect.
func (u *Unit) Grant(rank int, payload []byte) error { return u.count(u.grant(rank, payload)) }

// count counts what was refused.
func (u *Unit) count(err error) error {
	if err != nil {
		u.refused.Add(1)
	}
	return err
}

func (u *Unit) grant(rank int, payload []byte) error {
	var g placing.Grant
	if err := g.Parse(payload); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	bu, ok := u.byRank[rank]
	switch {
	case !ok:
		return fmt.Errorf("rank %d granted a window for MEP %d, and holds no builder unit", rank, g.MEP)
	case u.order.Stands():
		return fmt.Errorf("a window for MEP %d came from builder unit %d, which has granted its windows for all MEPs",
			g.MEP, bu)
	}
	if err := u.order.Grant(bu, &g); err != nil {
		return err
	}
	u.changed.Broadcast()
	return nil
}

// Standing takes a builder unit's signal of kind placing.KindPreGrants. An error says what was wrong with it; it had no
// effect.
func (u *Unit) Standing(rank int, payload []byte) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.count(u.stand(rank, payload))
}

func (u *Unit) stand(rank int, payload []byte) error {
	bu, ok := u.byRank[rank]
	if !ok {
		return fmt.Errorf("rank %d granted windows for all MEPs, and holds no builder unit", rank)
	}
	if err := u.standing.Parse(payload); err != nil {
		return err
	}
	if err := u.order.Standing(bu, &u.standing); err != nil {
		return err
	}
	u.changed.Broadcast()
	return nil
}
