package origin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"ringlet/event"
	"ringlet/event/pattern"
	"ringlet/node/config"
	"ringlet/recording"
)

// Find finds the origin of a run's events.
func Find(ctx context.Context, m *recording.Manifest) (recording.Content, error) {
	c, err := config.Compose("the configuration in "+recording.ManifestName, []byte(m.Configuration), nil)
	switch {
	case err != nil:
		return nil, fmt.Errorf("run %d cannot be compared with its input: %w", m.Run, err)
	case c.InputFile() != "":
		return replayed(ctx, m, &c)
	case !c.GeneratesData():
		return nil, fmt.Errorf("run %d cannot be compared with its input: the data from %s was not kept", m.Run, c.Input)
	case c.SimulatesDetector():
		return nil, fmt.Errorf("run %d cannot be compared with what its generator made: its simulated detector makes "+
			"whole events, not fragment by fragment", m.Run)
	case c.Prepared > 0:
		return nil,
			fmt.Errorf("run %d cannot be compared with what its generator made: its blocks were prepared, and repeated "+
				"under other event ids",
				m.Run)
	}
	p, err := c.Pattern()
	if err != nil {
		return nil, fmt.Errorf("run %d cannot be compared with what its generator made: %w", m.Run, err)
	}
	g := &generatedContent{run: m.Run, p: p, sources: c.Division().Sources()}
	return g, nil
}

// generatedContent compares events with those of the generator.
type generatedContent struct {
	run     uint32
	p       *pattern.Pattern
	sources int
	scratch sync.Pool // of *scratch
}

// scratch is memory that is reused from MEP to MEP.
type scratch struct {
	fragment     []byte
	fragments    []event.SourceFragment
	record       []byte
	unpacked     []byte       // a compressed record's content
	plain        event.Record // record or unpacked
	fragmentData [][]byte
	cursors      []event.FragmentCursor
	rebuilder    event.Rebuilder
}

// Close has nothing to close.
func (g *generatedContent) Close() error { return nil }

// Check compares a MEP with the generator's.
func (g *generatedContent) Check(f recording.Format, e *recording.Entry, data []byte) error {
	if f == recording.FormatMDF {
		return g.checkRecords(e, data)
	}
	mfps, err := mfpsOf(f, data)
	if err != nil {
		return err
	}
	if len(mfps) != g.sources {
		return fmt.Errorf("it has the MFPs of %d sources, the run had %d", len(mfps), g.sources)
	}
	for i := range mfps {
		if int(mfps[i].Source()) != i {
			return fmt.Errorf("source %d stands in place %d", mfps[i].Source(), i)
		}
	}
	missing := findMissing(mfps)
	for i := range mfps {
		if missing != nil && slices.Contains(missing.Sources, mfps[i].Source()) {
			continue
		}
		if err := g.p.CheckMFP(mfps[i]); err != nil {
			return err
		}
	}
	return missingOrNil(missing)
}

// findMissing finds the sources of a MEP whose fragments are all missing; nil: there is no such source.
func findMissing(mfps []event.MFP) (missing *recording.MissingError) {
	for i := range mfps {
		gone := 0
		for mfps[i].HasType(event.FragmentMissing) && gone < mfps[i].NumFragments() &&
			mfps[i].FragmentType(gone) == event.FragmentMissing {
			gone++
		}
		if gone > 0 && gone == mfps[i].NumFragments() {
			missing = cmp.Or(missing, &recording.MissingError{})
			missing.Add(mfps[i].Source(), gone)
		}
	}
	return missing
}

// missingOrNil avoids a non-nil error that holds a nil pointer.
func missingOrNil(missing *recording.MissingError) error {
	if missing == nil {
		return nil
	}
	return missing
}

// mfpsOf parses the MFPs of a MEP.
func mfpsOf(f recording.Format, data []byte) (mfps []event.MFP, err error) {
	if f == recording.FormatMEP {
		m, err := event.ParseMEP(data)
		if err != nil {
			return nil, err
		}
		for p, err := range m.MFPs() {
			if err != nil {
				return nil, err
			}
			mfps = append(mfps, p)
		}
		return mfps, nil
	}
	for len(data) > 0 {
		p, err := event.ParseMFP(data)
		if err != nil {
			return nil, err
		}
		mfps, data = append(mfps, p), data[len(p.Bytes()):]
	}
	return mfps, nil
}

func (g *generatedContent) checkRecords(e *recording.Entry, data []byte) (err error) {
	s, ok := g.scratch.Get().(*scratch)
	if !ok {
		s = &scratch{}
	}
	defer g.scratch.Put(s)
	c := event.NewMDFCursor(data, false)
	var missing *recording.MissingError
	for id := e.FirstEvent; ; id++ {
		got, err := c.Next()
		if errors.Is(err, io.EOF) {
			return missingOrNil(missing)
		}
		if err != nil {
			return err
		}
		if err := g.makeRecord(s, id, nil); err != nil {
			return err
		}
		if bytes.Equal(got, s.record) {
			continue
		}
		lacks := missingSources(got)
		for _, source := range lacks {
			missing = cmp.Or(missing, &recording.MissingError{})
			missing.Add(source, 1)
		}
		if err := g.makeRecord(s, id, lacks); err != nil {
			return err
		}
		if err := compareEvent(id, got, s.record, "the generator made"); err != nil {
			return err
		}
	}
}

// missingSources lists the sources whose fragments are missing in a record.
func missingSources(r event.Record) (sources []uint16) {
	c, err := r.Banks()
	for err == nil && c.Next() {
		if c.Bank().Type() == event.FragmentMissing {
			sources = append(sources, uint16(c.Bank().SourceID()))
		}
	}
	return sources
}

// makeRecord makes the record of an event without the fragments of some sources.
func (g *generatedContent) makeRecord(s *scratch, id uint64, lacks []uint16) (err error) {
	s.fragment, s.fragments = s.fragment[:0], s.fragments[:0]
	for i := range g.sources {
		size, from := g.p.Size(uint16(i), id), len(s.fragment)
		s.fragment = append(s.fragment, make([]byte, size)...)
		g.p.Fill(s.fragment[from:], uint16(i), id)
		s.fragments = append(s.fragments, event.SourceFragment{
			Type:    g.p.FragmentType(uint16(i)),
			Version: pattern.Version,
			Source:  uint16(i),
		})
	}
	rest := s.fragment
	for i := range s.fragments { // s.fragment is not reallocated from here on
		size := g.p.Size(uint16(i), id)
		s.fragments[i].Data, rest = rest[:size], rest[size:]
	}
	for i := range s.fragments {
		if slices.Contains(lacks, s.fragments[i].Source) {
			s.fragments[i] = event.SourceFragment{Type: event.FragmentMissing, Source: s.fragments[i].Source}
		}
	}
	s.record, err = event.AppendRecordFromFragments(s.record[:0], event.MDFHeader{
		Run:   g.run,
		Orbit: uint32(id / event.BunchesPerOrbit),
		Bunch: uint32(id % event.BunchesPerOrbit),
	}, s.fragments)
	return err
}

// compareEvent names the first byte of a recorded event that differs from the origin. who begins what is said of the
// origin: "the generator made" or "the input has".
func compareEvent(id uint64, got, want []byte, who string) error {
	if bytes.Equal(got, want) {
		return nil
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	if at == min(len(got), len(want)) {
		return fmt.Errorf("event %d has %d bytes in the recording, %s %d", id, len(got), who, len(want))
	}
	return fmt.Errorf("event %d: the byte at offset %d of %d is 0x%02x in the recording, %s 0x%02x", id, at, len(got),
		got[at], who, want[at])
}
