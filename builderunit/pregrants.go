package builderunit

import (
	"fmt"

	"ringlet/event/placing"
)

// makePreGrantedAssembler makes the core of a builder unit whose windows are pre-granted.
func (b *Builder) makePreGrantedAssembler() error {
	cfg := &b.cfg
	l := cfg.Layout
	if l.Units() != len(cfg.RURanks) {
		return fmt.Errorf("the layout is for %d readout units, but there are %d", l.Units(), len(cfg.RURanks))
	}
	if l.Size() > cfg.Slots.SlotSize() {
		return fmt.Errorf("the readout units' shares of a slot take %d bytes, but a slot holds %d: "+
			"raise --slot-size or lower --packing", l.Size(), cfg.Slots.SlotSize())
	}
	b.asm = newPreGrantedAssembler(l, cfg.Slots.Len())
	return nil
}

// preGrant grants a readout unit its part of every slot, until Close, if it has none and windows are pre-granted.
func (b *Builder) preGrant(ru int) error {
	if !b.asm.isPreGranted || b.asm.hasPreGrants(ru) {
		return nil
	}
	for slot := range b.cfg.Slots.Len() {
		if _, _, err := b.openWindow(slot, ru); err != nil {
			return fmt.Errorf("granting windows in slot %d: %w", slot, err)
		}
	}
	return nil
}

// AnswerWindowRequest answers a readout unit's signal of kind placing.KindWindowRequest with the unit's windows in
// every slot. The unit may request them again; one that is gone here has come back before the scheduler said so. An
// error says what is wrong with the request.
func (b *Builder) AnswerWindowRequest(rank int, payload []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return b.refuse(errClosed)
	}
	if err := placing.ParseWindowRequest(payload); err != nil {
		return b.refuse(err)
	}
	ru, ok := b.ruByRank[rank]
	if !ok || !b.asm.isPreGranted {
		return b.refuse(fmt.Errorf("rank %d requested pre-granted windows, but has none", rank))
	}
	if err := b.preGrant(ru); err != nil {
		b.failLocked(err)
		return nil
	}
	var answer placing.PreGrants
	n := b.cfg.Slots.Len()
	for first := 0; first < n; first += placing.MaxPreGrants {
		answer.FirstSlot = uint32(first)
		answer.Refs = b.asm.appendPreGrants(ru, first, min(placing.MaxPreGrants, n-first), answer.Refs[:0])
		b.message = answer.Append(b.message[:0])
		if err := b.cfg.Signaler.Signal(rank, b.message); err != nil {
			b.failLocked(fmt.Errorf("granting windows to readout unit %d: %w", ru, err))
			return nil // the request itself was valid
		}
	}
	return nil
}
