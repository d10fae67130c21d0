package source

import (
	"context"
	"os"
	"strings"

	"ringlet/internal/kinds"
)

// Settings are what sources are opened with; each kind takes what concerns it.
type Settings struct {
	GeneratorConfig
	Input       string // a file, or what the configuration says behind the kind's name and a colon
	Loop        bool
	OnBadRecord OnBadRecord
	Prepared    int                 // blocks that are made once and come again; 0: each is made anew
	Buffers     func(block int) int // how many retention buffers of the readout unit blocks of that size come to in turn
}

// Row is a kind of source.
type Row struct {
	kinds.Kind
	Made bool // from the seed: everybody knows sizes and bytes beforehand
	File bool // Input is a regular file
	Open func(ctx context.Context, s Settings) (Source, error)
	// Measure says what a run needs whose data are not made. f is the file, if it is one.
	Measure func(ctx context.Context, f *os.File, s Settings) (Needs, error)
}

// table is the table of sources. The setting input chooses: none is generated data, a name of this table with a colon
// is that kind, anything else is a file.
var table = []Row{
	{
		Kind: kinds.Kind{Name: "generated", Help: "detector-like data, made of the seed"},
		Made: true,
		Open: openGenerated,
	},
	{
		Kind:    kinds.Kind{Name: "mdf", Help: "a file of recorded events"},
		File:    true,
		Open:    openReplay,
		Measure: measureReplay,
	},
}

// Of returns the kind that an input chooses, and what the input says to it.
func Of(input string) (Row, string) {
	if input == "" {
		return table[0], ""
	}
	name, rest, colon := strings.Cut(input, ":")
	for _, r := range table[1:] {
		if colon && r.Name == name {
			return r, rest
		}
	}
	return table[1], input
}

func openGenerated(_ context.Context, s Settings) (Source, error) {
	g, err := NewGenerator(s.GeneratorConfig)
	if err != nil || s.Prepared == 0 {
		return g, err
	}
	return NewPrepared(s.GeneratorConfig, s.Prepared, s.Buffers(g.MaxBlock()))
}

// replay is what a replay takes of the settings.
func (s *Settings) replay() ReplayConfig {
	return ReplayConfig{
		Path:        s.Input,
		RU:          s.RU,
		RUs:         s.RUs,
		Streams:     s.Streams,
		Packing:     s.Packing,
		Loop:        s.Loop,
		OnBadRecord: s.OnBadRecord,
		Events:      s.Events,
		CRC:         s.CRC,
	}
}

func openReplay(ctx context.Context, s Settings) (Source, error) {
	r, err := OpenReplay(ctx, s.replay())
	if err != nil {
		return nil, err
	}
	return r, nil
}

func measureReplay(ctx context.Context, f *os.File, s Settings) (Needs, error) {
	return Measure(ctx, f, s.replay())
}
