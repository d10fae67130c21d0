package gen

import (
	"context"
	"errors"
	"fmt"
	"io"

	"ringlet/builderunit/sink"
	"ringlet/event"
	"ringlet/event/pattern"
	"ringlet/event/placing"
	"ringlet/recording"
	"ringlet/source"
)

// Config describes the file to write.
type Config struct {
	Path   string
	Format recording.Format
	Events uint64 // at least 1
	// Packing is the number of events per MFP, 1..65535. An MDF file does not show it.
	Packing int
	Streams int // sources, 1..65535
	// FragmentSize is the mean over all sources, in bytes; 0 makes empty fragments. The setting's default is 133.
	FragmentSize int
	Model        pattern.Model // the zero value is lhcb
	Seed         uint64
	AlignLog2    uint8  // log2 of the bytes fragments are padded to in their MFP; an MDF file does not show it
	Run          uint32 // run number in the headers of MDF records
	// Overwrite replaces a file at Path when the new one is complete. Without it such a file is an error.
	Overwrite bool
	// Content makes the data in place of a pattern, as a simulated detector. It decides Streams, FragmentSize and Model.
	// The truth of each event is written beside the file: see TruthPath.
	Content *source.ContentKind
}

// Generate writes the file and says what is in it. The error is about the configuration (*source.ConfigError,
// *pattern.ConfigError), the output (*sink.SinkError), or ctx; the destination is then unchanged.
func Generate(ctx context.Context, c Config) (r sink.Result, err error) {
	if c.Events == 0 {
		return r, &source.ConfigError{Field: "events", Reason: "a file of endless events cannot be written: give a number"}
	}
	if c.Content != nil {
		c.Streams = c.Content.MinSources
	}
	g, err := source.NewGenerator(source.GeneratorConfig{
		Division:     placing.NewDivision(c.Streams),
		Packing:      c.Packing,
		FragmentSize: c.FragmentSize,
		Model:        c.Model,
		Seed:         c.Seed,
		Events:       c.Events,
		Align:        c.AlignLog2,
		Content:      c.Content,
	})
	if err != nil {
		return r, err
	}
	var truthOut *truthFile
	if c.Content != nil {
		if truthOut, err = newTruthFile(TruthPath(c.Path), c.Overwrite); err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, truthOut.abort()) }()
	}
	out, err := sink.NewFile(sink.FileConfig{Path: c.Path, Format: c.Format, Overwrite: c.Overwrite})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, out.Abort()) }()
	if err := writeBlocks(ctx, c, g, out, truthOut); err != nil {
		return r, err
	}
	if truthOut != nil {
		if err := truthOut.finish(); err != nil {
			return r, err
		}
	}
	return out.Finish()
}

// writeBlocks writes all blocks of g as MEPs, and the truth of their events if it is kept.
func writeBlocks(ctx context.Context, c Config, g *source.Generator, out sink.Sink, truthOut *truthFile) error {
	header := event.MEPHeaderSize(c.Streams)
	mep := make([]byte, header+g.MaxBlock())
	sources := make([]uint16, 0, c.Streams)
	offsets := make([]uint32, 0, c.Streams)
	var b source.Block
	for {
		err := g.Next(ctx, mep[header:], &b)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		sources, offsets = sources[:0], offsets[:0]
		for _, m := range b.MFPs {
			sources = append(sources, m.Source)
			offsets = append(offsets, uint32((header+m.Offset)/event.MEPWordBytes))
		}
		words, err := event.MEPWords(header + b.Size)
		if err == nil {
			_, err = event.PutMEPHeader(mep, sources, offsets, words)
		}
		if err != nil {
			return fmt.Errorf("generate MEP %d: %w", b.MEP, err)
		}
		meta := sink.Meta{
			Run:        c.Run,
			MEP:        b.MEP,
			FirstEvent: b.FirstEvent,
			Events:     b.Events,
		}
		if err := out.Write(ctx, meta, mep[:header+b.Size]); err != nil {
			return err
		}
		if truthOut != nil {
			if err := g.WriteTruths(truthOut.out); err != nil {
				return err
			}
		}
	}
}
