package builderunit

import (
	"errors"
	"fmt"
	"slices"

	"ringlet/builderunit/sink"
	"ringlet/event"
	"ringlet/event/pattern"
	"ringlet/event/placing"
	"ringlet/internal/crc32c"
	"ringlet/internal/netyield"
)

// Verify says how much of each complete MEP is checked.
type Verify uint8

// Kinds of verification.
const (
	VerifyOff  Verify = iota // nothing
	VerifyCRC                // each MFP's CRC-32C against the one announced with its size
	VerifyFull               // the CRC, the format, the same events in all MFPs, and every byte against its rule
)

// ParseVerify reads the name of a kind of verification.
func ParseVerify(s string) (Verify, error) {
	for v, name := range [...]string{"off", "crc", "full"} {
		if s == name {
			return Verify(v), nil
		}
	}
	return 0, fmt.Errorf("verify is %q: it can be off, crc or full", s)
}

// checksum is the CRC-32C of b. It yields after every piece, some 10 µs, since the process may share its only processor
// with the network.
func checksum(b []byte) uint32 {
	const piece = 128 << 10
	crc := uint32(0)
	for len(b) > piece {
		crc = crc32c.Add(crc, b[:piece])
		b = b[piece:]
		netyield.Yield()
	}
	return crc32c.Add(crc, b)
}

// verifier checks complete MEPs.
type verifier struct {
	depth   Verify
	pattern *pattern.Pattern // nil if the content has no rule: replayed data
	// hook, if not nil, is called after a good CRC and after a good header: for tests with peers that go on writing.
	hook func()

	// scratch of check, by MFP
	pieces [][]byte
	sums   []uint32
}

// parsesContent tells that check reads MFPs more than once, and so needs memory that no peer can write to.
func (v *verifier) parsesContent() bool { return v.depth == VerifyFull }

func (v *verifier) runHook() {
	if v.hook != nil {
		v.hook()
	}
}

func (v *verifier) check(mep uint64, memory []byte, places []mfpPlace) error {
	if v.depth == VerifyOff {
		return nil
	}
	together := len(memory) <= maxBatchSumBytes
	v.collectPieces(memory, places)
	if together {
		crc32c.Sums(v.sums, v.pieces)
	}
	var first event.MFP
	known := false // first is set
	for i := range places {
		p := &places[i]
		if !together {
			v.sums[i] = checksum(v.pieces[i])
		}
		if crc := v.sums[i]; crc != p.CRC {
			return p.dataError(mep, fmt.Errorf("CRC-32C is %08x, %08x was announced", crc, p.CRC))
		}
		v.runHook()
		if v.depth != VerifyFull || p.Synthetic {
			continue
		}
		m, err := v.checkContent(p.Source, v.pieces[i])
		if err == nil && known && (m.FirstEvent() != first.FirstEvent() || m.NumFragments() != first.NumFragments()) {
			p, err = v.findOutlier(places, i)
		}
		if err != nil {
			return p.dataError(mep, err)
		}
		if !known {
			first, known = m, true
		}
	}
	return nil
}

// findOutlier finds which of two MFPs has other events than most MFPs: the first one that was not made here, or the one
// at an index.
func (v *verifier) findOutlier(places []mfpPlace, at int) (*mfpPlace, error) {
	count := func(i int) (agree int, from uint64, n int) {
		from, n, _ = event.MFPEvents(v.pieces[i])
		for _, b := range v.pieces {
			if f, m, err := event.MFPEvents(b); err == nil && f == from && m == n {
				agree++
			}
		}
		return agree, from, n
	}
	first := slices.IndexFunc(places, func(p mfpPlace) bool { return !p.Synthetic })
	alike, from, n := count(at)
	most, other, many := count(first)
	bad, good := at, first
	if alike > most {
		bad, good, from, n, other, many = first, at, other, many, from, n
	}
	return &places[bad], fmt.Errorf("the MFP has %d events from %d, that of source %d has %d from %d", n, from,
		places[good].Source, many, other)
}

// collectPieces finds the bytes of every MFP, and makes space for their CRCs.
func (v *verifier) collectPieces(memory []byte, places []mfpPlace) {
	v.pieces, v.sums = v.pieces[:0], v.sums[:0]
	for i := range places {
		p := &places[i]
		v.pieces = append(v.pieces, p.bytesIn(memory))
		v.sums = append(v.sums, 0)
	}
}

// maxBatchSumBytes is the size of a MEP, in bytes, up to which the CRCs of its MFPs are computed side by side and
// without a yield: some 10 µs.
const maxBatchSumBytes = 128 << 10

// checkContent checks an MFP's format and its bytes: generated data against their rule, replayed banks against their
// format.
func (v *verifier) checkContent(source uint16, b []byte) (event.MFP, error) {
	m, err := event.ParseMFP(b)
	if err != nil {
		return m, err
	}
	if m.Source() != source {
		return m, fmt.Errorf("the MFP is of source %d", m.Source())
	}
	v.runHook()
	if v.pattern != nil {
		return m, v.pattern.CheckMFP(m)
	}
	for _, fragment := range m.Fragments() {
		for _, err := range event.Banks(fragment) {
			if err != nil {
				return m, err
			}
		}
	}
	return m, nil
}

// A DataError says that data which a readout unit has sent do not fit: a checksum, a size, a header, or the events in
// it. The process that has checked them is sound.
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

// tolerates tells whether the unit goes on without a readout unit's part of a MEP.
func (b *Builder) tolerates(bad *DataError) bool {
	return b.cfg.Tolerates != nil && b.cfg.Division.Units() > 0 && b.cfg.Tolerates(bad)
}

// bytesIn is the MFP in the memory of its MEP.
func (p *mfpPlace) bytesIn(memory []byte) []byte { return memory[p.Offset : p.Offset+p.Size] }

// dataError makes the error for an MFP that does not fit.
func (p *mfpPlace) dataError(mep uint64, why error) *DataError {
	return &DataError{RU: int(p.RU), MEP: mep, Source: p.Source, Reason: why.Error(), Cause: why}
}

// replaceParts makes the parts of some readout units, of missing fragments. It also makes again the parts that were
// made before, since their events may be those of a part that is now replaced. It returns the memory of the MEP, which
// no peer can write to, and moves f.places there.
func (f *finisher) replaceParts(slot int, mep uint64, memory []byte, which func(ru int) bool) ([]byte, error) {
	for i := range f.places {
		p := &f.places[i]
		p.Synthetic = p.Synthetic || which(int(p.RU))
	}
	first, n, err := f.eventRange(mep, memory)
	if err != nil {
		return nil, err
	}
	f.remade[0], f.remade[1] = f.remade[1], f.remade[0] // memory may be the other buffer
	if f.remade[0] == nil {
		f.remade[0] = make([]byte, f.cfg.Slots.SlotSize())
	}
	made, err := f.tables.layOut(f.remade[0], memory, f.places, first, n)
	if err != nil {
		return nil, fmt.Errorf("MEP %d: %w", mep, err)
	}
	for i := range f.places {
		if p := &f.places[i]; p.Synthetic {
			p.CRC = checksum(p.bytesIn(made))
		}
	}
	for ru := range f.cfg.RURanks {
		if which(ru) {
			f.countMissing(ru, mep, n)
		}
	}
	if !f.asm.isPreGranted { // the slot's windows are revoked, and a sink may lend the slot
		made = f.cfg.Slots.Bytes(slot)[:copy(f.cfg.Slots.Bytes(slot), made)]
	}
	return made, nil
}

// replaceBadPart replaces the part of a readout unit, if err is a DataError that is tolerated; it returns any other
// error.
func (f *finisher) replaceBadPart(slot int, mep uint64, memory []byte, err error) ([]byte, error) {
	var bad *DataError
	if !errors.As(err, &bad) || !f.tolerates(bad) {
		return nil, err
	}
	made, none := f.replaceParts(slot, mep, memory, func(ru int) bool { return ru == bad.RU })
	if none != nil { // nothing is left of the MEP
		return nil, err
	}
	return made, nil
}

// eventRange is the events of a MEP, read from the first MFP that can be read and was not made here.
func (f *finisher) eventRange(mep uint64, memory []byte) (first uint64, n int, err error) {
	why := errors.New("no readout unit has any part of it")
	for i := range f.places {
		p := &f.places[i]
		if p.Synthetic || p.Size < event.MFPFixedSize {
			continue
		}
		first, n, err := event.MFPEvents(p.bytesIn(memory))
		if err == nil && n > f.cfg.MaxEventsPerMEP {
			err = fmt.Errorf("readout unit %d has %d events, a MEP has %d at most", p.RU, n, f.cfg.MaxEventsPerMEP)
		}
		if err == nil {
			return first, n, nil
		}
		why = p.dataError(mep, err)
	}
	return 0, 0, why
}

// countMissing counts the missing part of a readout unit in a MEP.
func (f *finisher) countMissing(ru int, mep uint64, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.asm.stats
	if f.missingMFPCount == 0 {
		s.MEPsLackingParts++
		s.EventsLackingParts += uint64(n)
	}
	f.missingByRU[ru].add(mep, n)
	mfps := f.cfg.Division.SourceCount(ru)
	s.MissingMFPs += uint64(mfps)
	s.MissingFragments += uint64(mfps * n)
	f.missingMFPCount += mfps
}

// checkTolerantly checks a complete MEP, and replaces parts that do not fit, as long as that is tolerated. It returns
// the memory of the MEP. The loop ends: check never names a part that was made here, and each turn makes one more.
func (f *finisher) checkTolerantly(slot int, mep uint64,
	read []byte) (sound []byte, from uint64, events int, err error) {
	for {
		if from, events, err = f.checkMEP(mep, read); err == nil {
			return read, from, events, nil
		}
		if read, err = f.replaceBadPart(slot, mep, read, err); err != nil {
			return nil, 0, 0, err
		}
	}
}

// handleOversized handles a MEP that fits no slot. If one of several parts alone is larger than a slot, its readout
// unit has announced a wrong size: that is a DataError or, if tolerated, the part is treated as missing, and the MEP
// fits. Any other such MEP is a mistake of the configuration. mu is held.
func (b *Builder) handleOversized(m *placing.Announce, err error) error {
	parts := b.asm.slotParts(int(m.Slot))
	for ru := range parts {
		if len(parts) < 2 || parts[ru].most <= b.cfg.Slots.SlotSize() {
			continue
		}
		bad := &DataError{
			RU:     ru,
			MEP:    m.MEP,
			Source: b.firstSource(ru),
			Reason: fmt.Sprintf("the sizes from there on add up to %d bytes, but a slot holds %d: raise --slot-size or "+
				"lower --packing if they are right", parts[ru].most, b.cfg.Slots.SlotSize()),
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

// announceDataError is the DataError of a refused announcement; nil if the sizes are not the reason.
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

// firstSource is the first source of a readout unit, 0 if it is not known.
func (b *Builder) firstSource(ru int) uint16 {
	if ru >= b.cfg.Division.Units() {
		return 0
	}
	return uint16(b.cfg.Division.FirstSource(ru))
}

// attributeSinkError returns the DataError for bad data that the sink found, and otherwise the sink's own error.
func (f *finisher) attributeSinkError(m *sink.Meta, memory []byte, err error) error {
	var wrong *event.FormatError
	if !errors.As(err, &wrong) && !errors.Is(err, sink.ErrMeta) {
		return err
	}
	for i := range f.places {
		p := &f.places[i]
		mfp, bad := event.ParseMFP(p.bytesIn(memory))
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
