package recording

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"

	"ringlet/internal/plural"
	"ringlet/internal/safeopen"
)

// readSegment compares a segment with its index and the manifest, and adds its MEPs to the set.
func (c *Contents) readSegment(ctx context.Context, s *SegmentContents) error {
	if !c.statData(s) {
		return nil
	}
	x, err := openIndex(s.indexPath)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) || !c.addDrained(s) { // it may have been drained and removed at this moment
			c.reportNoIndex(s, err)
		}
		return nil
	}
	defer func() { _ = x.close() }()
	switch h := &x.header; {
	case h.Key != c.Manifest.Key || h.Run != c.Manifest.Run:
		s.Problems.add(ForeignFile, s.indexName(), nil, "it is of run %d with the key %v, this is run %d with the key %v",
			h.Run, h.Key, c.Manifest.Run, c.Manifest.Key)
		return nil
	case h.Segment != s.ID:
		s.Problems.add(DamagedIndex, s.indexName(), nil, "it is the index of %s", h.Segment.Name())
		return nil
	case s.ID.Format != c.Manifest.Format:
		s.Problems.add(WrongCounts, s.Name, nil, "it is %s, the run is %s", s.ID.Format, c.Manifest.Format)
	}
	if err := c.readEntries(ctx, &segmentScan{index: x, m: c.Manifest, size: s.fileSize}, s); err != nil {
		return err
	}
	if s.IsOpen {
		c.reportOpen(s)
		return nil
	}
	if x.tornBytes > 0 {
		s.Problems.add(DamagedIndex, s.indexName(), nil, "%d bytes follow its last entry", x.tornBytes)
	}
	s.compareManifest()
	return nil
}

// statData finds out whether the data file is there, and its size.
func (c *Contents) statData(s *SegmentContents) bool {
	st, err := safeopen.StatNoFollow(filepath.Join(c.Dir, s.Name))
	switch {
	case !s.hasData || errors.Is(err, fs.ErrNotExist):
		s.hasData = false
		if s.listed != nil && !c.addDrained(s) {
			s.Problems.add(MissingFile, s.Name, s.listed.listedSpan(), "the manifest lists it with %d MEPs and %d events",
				s.listed.MEPs, s.listed.Events)
		}
		return false
	case err != nil:
		s.Problems.add(Unreadable, s.Name, s.listed.listedSpan(), "%v", err)
		return false
	case !st.Mode().IsRegular():
		s.Problems.add(Unreadable, s.Name, s.listed.listedSpan(), "it is not a regular file")
		return false
	}
	s.fileSize = st.Size()
	return true
}

// addDrained says whether a segment is gone because a second filter has drained it, and then adds its MEPs from the
// ledger.
func (c *Contents) addDrained(s *SegmentContents) bool {
	meps := c.drainedSet(s)
	if meps == nil {
		return false
	}
	s.SegmentTotals = s.listed.SegmentTotals
	s.Bytes = 0 // its data are gone
	for e := range meps.entries {
		c.addToSet(s, &e)
	}
	return true
}

// drainedSet returns the MEPs of a drained segment from the ledger; nil if the segment is not drained.
func (c *Contents) drainedSet(s *SegmentContents) *MEPSet {
	if s.listed == nil {
		return nil
	}
	if c.ledger == nil {
		c.ledger = NewLedger(c.Dir, c.Manifest)
	}
	d, ok := c.ledger.Lookup(*s.listed)
	if !ok { // it may have been drained since the last Refresh
		if err := c.ledger.Refresh(); err != nil {
			c.Problems.add(Unreadable, drainedName, nil, "%v", err)
			return nil
		}
		d, ok = c.ledger.Lookup(*s.listed)
	}
	if !ok {
		return nil
	}
	meps, err := c.ledger.readMEPs(&d)
	if err != nil {
		c.Problems.add(Unreadable, drainedName, nil, "%v", err)
		return nil
	}
	if c.removedMEPs == nil {
		c.removedMEPs, c.DrainedDecisions = c.Manifest.NewMEPSet(), &Decisions{}
	}
	s.IsDrained = true
	c.DrainedDecisions.Add(d.Decisions)
	c.removedMEPs.Union(meps)
	return meps
}

// reportNoIndex adds a problem that says why a segment has no index.
func (c *Contents) reportNoIndex(s *SegmentContents, err error) {
	bad := errors.Is(err, errHeader)
	live := s.IsOpen && isInUse(s.indexPath)
	switch {
	case s.IsOpen && (errors.Is(err, fs.ErrNotExist) || bad) && !live:
		s.Problems.add(LeftOpen, s.Name, nil, "it has no index yet: none of its %d bytes is proved to be of a MEP",
			s.fileSize)
	case live:
		s.Problems.add(BeingWritten, s.Name, nil, "a live process writes it; its index has no MEP yet")
	case errors.Is(err, fs.ErrNotExist):
		s.Problems.add(MissingFile, s.indexName(), s.listed.listedSpan(),
			"without it no reader can tell which bytes of %s are which MEP", s.Name)
	case bad:
		s.Problems.add(DamagedIndex, s.indexName(), s.listed.listedSpan(), "%v", err)
	default:
		s.Problems.add(Unreadable, s.indexName(), s.listed.listedSpan(), "%v", err)
	}
}

// reportOpen adds a problem that says whether an open segment's writer lives.
func (c *Contents) reportOpen(s *SegmentContents) {
	if isInUse(s.indexPath) {
		s.Problems.add(BeingWritten, s.Name, nil, "a live process writes it; %d MEPs are in it so far", s.MEPs)
		return
	}
	s.Problems.add(LeftOpen, s.Name, nil, "the process that wrote it is gone; %d whole MEPs are in it", s.MEPs)
}

// readEntries goes through the entries of the index.
func (c *Contents) readEntries(ctx context.Context, in *segmentScan, s *SegmentContents) error {
	last := in.index.entries - 1
	err := in.scan(ctx, 0, in.index.entries, func(e *scannedEntry) error {
		if e.state == entryGood {
			s.noteRange(e)
		}
		switch {
		case e.state == entryTorn && s.IsOpen && e.number == last: // it is being written at this moment
			return errStop
		case e.state == entryBeyond && s.IsOpen: // its data are not written yet, or never were
			return errStop
		case e.state == entryBeyond:
			s.Problems.add(WrongSize, s.Name, e.eventRange(), "MEP %d reaches to byte %d, the file has %d", e.MEP, e.End(),
				s.fileSize)
			return errStop
		case e.state == entryTorn:
			s.Problems.add(DamagedIndex, s.indexName(), nil, "entry %d has a wrong checksum: its MEP cannot be told", e.number)
		case e.state == entryDamaged:
			s.Problems.add(DamagedIndex, s.indexName(), nil, "entry %d: %v", e.number, e.reason)
		case !c.checkLast || s.IsOpen || e.number < last || c.checkLastMEP(ctx, in, s, &e.Entry):
			s.Add(e.Entry)
			c.addToSet(s, &e.Entry)
		}
		s.entryCount = e.number + 1
		return nil
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		s.Problems.add(Unreadable, s.indexName(), nil, "%v", err)
	}
	return nil
}

// maxLastBytes bounds how many bytes are read to check the last MEP of a segment. A longer one is not checked.
const maxLastBytes = 64 << 20

// checkLastMEP says whether the last MEP of a segment has the checksum in the index.
func (c *Contents) checkLastMEP(ctx context.Context, in *segmentScan, s *SegmentContents, e *Entry) bool {
	if e.End()-in.end > maxLastBytes {
		return true
	}
	f, err := safeopen.OpenNoFollow(s.path())
	if errors.Is(err, fs.ErrNotExist) { // it was drained and removed at this moment
		return true
	}
	var crc uint32
	if err == nil {
		in.data = f
		crc, err = in.sum(ctx, e.End())
		err = errors.Join(err, f.Close())
	}
	switch {
	case err != nil:
		s.Problems.add(Unreadable, s.Name, e.eventRange(), "%v", err)
	case crc != e.CRC:
		s.Problems.add(DamagedData, s.Name, e.eventRange(), "the bytes of its last MEP, %d, have been changed, and perhaps "+
			"others: the CRC-32C up to its end is %08x, the index says %08x", e.MEP, crc, e.CRC)
	}
	return err == nil && crc == e.CRC
}

// addToSet adds a MEP to the set, and lists it as a copy if it was there before.
func (c *Contents) addToSet(s *SegmentContents, e *Entry) {
	before, _ := c.MEPSet.highestAttempt(e.MEP)
	if !c.MEPSet.Add(*e) {
		return
	}
	c.Superseded++
	if len(c.Copies) < maxCopies {
		c.Copies = append(c.Copies, Copy{
			MEP:             e.MEP,
			Segment:         s.Name,
			Attempt:         e.Attempt,
			PreviousAttempt: before,
		})
	}
}

// listedSpan returns the events of a segment by the manifest; nil if it has none, or is not listed.
func (l *Segment) listedSpan() *Range {
	if l == nil {
		return nil
	}
	return l.eventSpan()
}

// compareManifest compares a closed segment with the manifest.
func (s *SegmentContents) compareManifest() {
	l := s.listed
	if l == nil {
		s.Problems.add(Unlisted, s.Name, s.eventSpan(), "it is whole, with %d MEPs", s.MEPs)
		return
	}
	if s.fileSize != l.Bytes {
		s.Problems.add(WrongSize, s.Name, nil, "it has %d bytes, the manifest says %d", s.fileSize, l.Bytes)
	}
	if s.Problems.contains(DamagedData) || s.Problems.contains(Unreadable) {
		return // its last MEP is not counted
	}
	if s.MEPs != l.MEPs || s.Events != l.Events || s.Bytes != l.Bytes {
		s.Problems.add(WrongCounts, s.indexName(), nil,
			"it proves %d MEPs with %d events in %d bytes, the manifest says %d, %d and %d",
			s.MEPs, s.Events, s.Bytes, l.MEPs, l.Events, l.Bytes)
		return
	}
	if s.ID.Number > 0 && s.Events > 0 && (s.FirstEvent != l.FirstEvent || s.LastEvent != l.LastEvent) {
		s.Problems.add(WrongCounts, s.indexName(), nil, "it has %s, the manifest says %s",
			plural.NamedRange("event", s.FirstEvent, s.LastEvent), plural.NamedRange("event", l.FirstEvent, l.LastEvent))
	}
	if crc, err := strconv.ParseUint(l.CRC, 16, 32); err != nil || uint32(crc) != s.RunningCRC {
		s.Problems.add(WrongCounts, s.indexName(), nil, "it ends with the CRC-32C %08x, the manifest says %s", s.RunningCRC,
			l.CRC)
	}
}

func (s *SegmentContents) indexName() string { return filepath.Base(s.indexPath) }

// path returns the path of the data file, which stands beside its index.
func (s *SegmentContents) path() string { return filepath.Join(filepath.Dir(s.indexPath), s.Name) }
