package origintest

import (
	"context"
	"errors"
	"fmt"
	"io"

	"ringlet/builderunit/sink"
	"ringlet/event"
	"ringlet/node/config"
	"ringlet/recording"
	"ringlet/source"
)

// Record records a run of that configuration in dir, and writes its verdict. It returns the directory of the run and
// its number of events.
func Record(ctx context.Context, dir, text string, run uint32,
	format recording.Format) (runDir string, events uint64, err error) {
	c, err := config.Compose("test", []byte(text), nil)
	if err != nil {
		return "", 0, err
	}
	key := recording.NewKey()
	runDir, err = recording.OpenRun(dir, recording.Manifest{
		Run:               run,
		Key:               key,
		Format:            format,
		Packing:           c.Packing,
		Program:           "test",
		Configuration:     string(c.Effective()),
		ConfigurationHash: c.Hash(),
	}, false)
	if err != nil {
		return "", 0, err
	}
	var sinks []*sink.Segments
	defer func() {
		for _, s := range sinks {
			r, endErr := s.Finish()
			events += r.Events
			err = errors.Join(err, endErr)
		}
		if err == nil {
			err = conclude(runDir, events)
		}
	}()
	for b := range c.BUs {
		s, err := sink.NewSegments(sink.SegmentsConfig{
			Dir:             runDir,
			Run:             run,
			Key:             key,
			Builder:         b,
			Format:          format,
			Node:            fmt.Sprintf("n%d", b),
			Host:            "localhost",
			Program:         "test",
			MaxSegmentBytes: 1 << 20,
		})
		if err != nil {
			return "", 0, err
		}
		sinks = append(sinks, s)
	}
	return runDir, 0, build(ctx, &c, run, sinks)
}

// conclude writes the verdict.
func conclude(runDir string, events uint64) error {
	return recording.UpdateManifest(runDir, func(m *recording.Manifest) error {
		m.Verdict = &recording.Verdict{
			Verdict:           "GOOD",
			EndCause:          "events",
			EventsTriggered:   events,
			EventsBuilt:       events,
			EventsInDirectory: events,
			EventsOutput:      events,
			MissingEvents:     []recording.Range{},
		}
		return nil
	})
}

func openSource(c *config.Completed, ru int) (source.Source, error) {
	settings, err := c.SourceSettings(ru)
	if err != nil {
		return nil, err
	}
	settings.CRC = false
	kind, _ := c.Source()
	return kind.Open(context.Background(), settings)
}

// build reads blocks from the sources of all readout units, and writes MEPs to the sinks of the builder units.
func build(ctx context.Context, c *config.Completed, run uint32, sinks []*sink.Segments) (err error) {
	var sources []source.Source
	defer func() {
		for _, s := range sources {
			err = errors.Join(err, s.Close())
		}
	}()
	for ru := range c.RUs {
		s, err := openSource(c, ru)
		if err != nil {
			return err
		}
		sources = append(sources, s)
	}
	type built struct {
		meta sink.Meta
		mep  []byte
	}
	var held []built // one in three is written after the next two
	write := func(b built) error { return sinks[b.meta.MEP%uint64(len(sinks))].Write(ctx, b.meta, b.mep) }
	for {
		meta, mep, err := assemble(ctx, sources, run)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err == nil && meta.MEP%3 == 0 {
			held = append(held, built{meta, mep})
			continue
		}
		if err == nil {
			if err := write(built{meta, mep}); err != nil {
				return err
			}
		}
		if err == nil && meta.MEP%3 == 1 {
			continue
		}
		for _, b := range held {
			if err := write(b); err != nil {
				return err
			}
		}
		if held = nil; errors.Is(err, io.EOF) {
			return nil
		}
	}
}

// assemble makes the next MEP from a block of each source.
func assemble(ctx context.Context, sources []source.Source, run uint32) (meta sink.Meta, mep []byte, err error) {
	var blocks [][]byte
	var infos []source.Block
	n := 0
	for _, s := range sources {
		var b source.Block
		data := make([]byte, s.MaxBlock())
		if err := s.Next(ctx, data, &b); err != nil {
			return meta, nil, err
		}
		blocks, infos, n = append(blocks, data), append(infos, b), n+len(b.MFPs)
	}
	mep = make([]byte, event.MEPHeaderSize(n))
	var ids []uint16
	var offsets []uint32
	for i := range infos {
		for _, p := range infos[i].MFPs {
			ids, offsets = append(ids, p.Source), append(offsets, uint32((len(mep)+p.Offset)/event.MEPWordBytes))
		}
		mep = append(mep, blocks[i][:infos[i].Size]...)
	}
	_, err = event.PutMEPHeader(mep, ids, offsets, uint32(len(mep)/event.MEPWordBytes))
	return sink.Meta{
		Run:        run,
		MEP:        infos[0].MEP,
		FirstEvent: infos[0].FirstEvent,
		Events:     infos[0].Events,
		Attempt:    1,
	}, mep, err
}
