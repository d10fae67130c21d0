package content

import (
	"ringlet/internal/registry"
	"ringlet/source"
	"ringlet/velo"
	"ringlet/velo/frontend"
)

// Name is the fragment model of the simulated detector, and the name of the detector that needs no file.
const Name = "velo"

// Kind is the row of the detector that needs no file.
var Kind = &source.ContentKind{
	Kind:       registry.Kind{Name: Name, Help: "a simulated vertex detector"},
	MinSources: 4 * len(velo.Default().Stations),
	MaxSources: velo.MaxBoards,
	MinMFP:     frontend.MinMFP,
	MaxMFP:     frontend.MaxMFP,
	Open: func(c source.ContentConfig) (source.Content, error) {
		d, err := frontend.New(frontend.Default())
		if err != nil {
			return nil, err
		}
		return openMaker(d, c, frontend.MakerConfig{})
	},
}

// KindOf is the row of detector d, whose Maker keeps the truth. With raw it samples and prepares every strip, which
// takes long. workers is the number of goroutines that make events.
func KindOf(d *frontend.Detector, raw bool, workers int) *source.ContentKind {
	kind := *Kind
	kind.MinSources = d.Geometry().Boards()
	kind.Open = func(c source.ContentConfig) (source.Content, error) {
		return openMaker(d, c, frontend.MakerConfig{SampleAllStrips: raw, Workers: workers, KeepTruth: true})
	}
	return &kind
}

func openMaker(d *frontend.Detector, c source.ContentConfig, m frontend.MakerConfig) (source.Content, error) {
	m.Seed, m.FirstSource, m.Streams, m.Align, m.KeptBlocks = c.Seed, c.FirstSource, c.Sources, c.Align, c.KeptBlocks
	maker, err := frontend.NewMaker(d, m)
	if err != nil {
		return nil, err // not maker: a nil *Maker in the interface would not equal nil
	}
	return maker, nil
}
