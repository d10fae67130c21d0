package builderunit

import (
	"errors"
	"fmt"

	"ringlet/builderunit/sink"
	"ringlet/event"
	"ringlet/event/placing"
)

// A DataError is what a readout unit has sent that does not fit: a checksum, a size, a header, or the events in it.
// Whoever has checked it is sound.
type DataError struct {
	RU     int // index of the readout unit
	MEP    uint64
	Source uint16
	Reason string
	Cause  error
}

func (e *DataError) Error() string {
	return fmt.Sprintf("MEP %d, source %d: %s", e.MEP, e.Source, e.Reason)
}
func (e *DataError) Unwrap() error { return e.Cause }

// tolerates says whether the unit goes on without what a readout unit has of a MEP.
func (b *Builder) tolerates(bad *DataError) bool {
	return b.cfg.Tolerates != nil && b.cfg.Division.Units() > 0 && b.cfg.Tolerates(bad)
}

// replaceBadPart makes the part of a readout unit anew of a whole MEP, of missing fragments, if an error says that its
// data do not fit and that is tolerated; any other error comes back. Parts that were made before are made again: they
// may have had their events from this readout unit. It returns where the MEP lies then, which nobody else writes to,
// without its header, and moves f.places there.
func (b *Builder) replaceBadPart(slot int, mep uint64, memory []byte, err error) ([]byte, error) {
	var bad *DataError
	if !errors.As(err, &bad) || !b.tolerates(bad) {
		return nil, err
	}
	first, n, ok := b.eventRangeWithout(bad.RU, memory)
	if !ok {
		return nil, err // nothing is left of it
	}
	f := &b.scratch
	made := make([]byte, b.cfg.Slots.SlotSize())
	at := event.MEPHeaderSize(len(f.places))
	for i := range f.places {
		p := &f.places[i]
		size, lacks := p.Size, p.Synthetic || int(p.RU) == bad.RU
		if lacks {
			size = event.MFPHeaderSize(n)
		}
		if at+paddedBytes(uint32(size)) > len(made) {
			return nil, err
		}
		if lacks {
			p.Size = len(event.PutMissingMFP(made[at:], p.Source, first, n))
			p.CRC, p.Synthetic = checksum(made[at:at+p.Size]), true
		} else {
			copy(made[at:], memory[p.Offset:p.Offset+p.Size])
		}
		p.Offset = at
		at += paddedBytes(uint32(p.Size))
	}
	b.countMissing(bad.RU, mep, n)
	made = made[:at]
	if !b.asm.isPreGranted() { // its windows are revoked, and a sink may lend the slot
		made = b.cfg.Slots.Bytes(slot)[:copy(b.cfg.Slots.Bytes(slot), made)]
	}
	return made, nil
}

// eventRangeWithout is which events a whole MEP has, as the first MFP tells that was not made here and is of another
// readout unit.
func (b *Builder) eventRangeWithout(ru int, memory []byte) (first uint64, n int, ok bool) {
	for _, p := range b.scratch.places {
		if int(p.RU) == ru || p.Synthetic || p.Size < event.MFPFixedSize {
			continue
		}
		first, n, err := event.MFPEvents(memory[p.Offset : p.Offset+p.Size])
		if err == nil && n <= b.cfg.MaxEventsPerMEP {
			return first, n, true
		}
	}
	return 0, 0, false
}

// countMissing counts that the part of a readout unit is missing in a MEP.
func (b *Builder) countMissing(ru int, mep uint64, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.asm.stats
	if b.scratch.missingMFPCount == 0 {
		s.MEPsLackingParts++
		s.EventsLackingParts += uint64(n)
	}
	b.missingByRU[ru].add(mep, n)
	mfps := b.cfg.Division.SourceCount(ru)
	s.MissingMFPs += uint64(mfps)
	s.MissingFragments += uint64(mfps * n)
	b.scratch.missingMFPCount += mfps
}

// checkTolerantly checks a whole MEP whose bytes are read at one place, and goes on without the parts that do not fit,
// as long as that is tolerated. It returns where the MEP lies then. It ends: check names no part that was made here,
// and each turn makes one more.
func (b *Builder) checkTolerantly(slot int, mep uint64,
	read []byte) (sound []byte, from uint64, events int, err error) {
	for {
		from, events, err = b.checkMEP(mep, read)
		if err == nil {
			return read, from, events, nil
		}
		read, err = b.replaceBadPart(slot, mep, read, err)
		if err == nil {
			err = b.scratch.tables.writeHeader(read, b.scratch.places)
		}
		if err != nil {
			return nil, 0, 0, err
		}
	}
}

// handleOversized takes that a MEP fits no slot. Where one part of several alone does not, its readout unit has
// announced a wrong size: that is a DataError, or where it is tolerated, the part is taken for missing and the MEP
// fits. Any other such MEP is a mistake of the configuration. The lock is held.
func (b *Builder) handleOversized(m *placing.Announce, err error) error {
	parts := slotRow(b.asm, b.asm.parts, int(m.Slot))
	for ru := range parts {
		if len(parts) < 2 || parts[ru].size <= b.cfg.Slots.SlotSize() {
			continue
		}
		bad := &DataError{
			RU:     ru,
			MEP:    m.MEP,
			Source: b.firstSource(ru),
			Reason: fmt.Sprintf("the sizes from there on add up to %d bytes, but a slot holds %d: raise --slot-size or "+
				"lower --packing if they are right", parts[ru].size, b.cfg.Slots.SlotSize()),
			Cause: err,
		}
		if !b.tolerates(bad) {
			return bad
		}
		for i := range parts[ru].entries {
			parts[ru].entries[i] = placing.Entry{Size: b.asm.absent.missingMFPSize}
		}
		err = b.asm.layOutSlot(int(m.Slot))
	}
	return err
}

// announceDataError is the DataError that a refused announcement makes; nil if its sizes are no reason.
func (b *Builder) announceDataError(refused *announceError) *DataError {
	if !refused.BadSize {
		return nil
	}
	return &DataError{
		RU:     refused.RU,
		MEP:    refused.MEP,
		Source: b.firstSource(refused.RU),
		Reason: "from there on " + refused.Reason,
		Cause:  refused,
	}
}

// firstSource is the first source of a readout unit, as far as that is known.
func (b *Builder) firstSource(ru int) uint16 {
	if ru >= b.cfg.Division.Units() {
		return 0
	}
	return uint16(b.cfg.Division.FirstSource(ru))
}

// attributeSinkError is why the sink did not take a MEP: data that do not fit, which it found, or what it says itself.
func (b *Builder) attributeSinkError(m *sink.Meta, memory []byte, err error) error {
	var wrong *event.FormatError
	if !errors.As(err, &wrong) && !errors.Is(err, sink.ErrMeta) {
		return err
	}
	for i := range b.scratch.places {
		p := &b.scratch.places[i]
		mfp, bad := event.ParseMFP(memory[p.Offset : p.Offset+p.Size])
		if bad == nil && (mfp.FirstEvent() != m.FirstEvent || mfp.NumFragments() != m.Events) {
			bad = fmt.Errorf("the MFP has %d events from %d, the MEP has %d from %d", mfp.NumFragments(), mfp.FirstEvent(),
				m.Events, m.FirstEvent)
		}
		if bad == nil && mfp.Source() != p.Source {
			bad = fmt.Errorf("the MFP is of source %d", mfp.Source())
		}
		if bad != nil {
			return &DataError{RU: int(p.RU), MEP: m.MEP, Source: p.Source, Reason: bad.Error(), Cause: err}
		}
	}
	return err
}
