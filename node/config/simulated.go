package config

import (
	"fmt"

	"ringlet/event"
	"ringlet/internal/registry"
	"ringlet/source"
)

// content makes data that has to be made as whole events; nil if a rule gives the size and bytes of each fragment, or
// if data is not generated.
func (c *Config) content() *source.ContentKind {
	if !c.GeneratesData() {
		return nil
	}
	kind, _ := registry.Find("fragment model", contentKinds, c.FragmentModel) // nil: a rule has that name
	return kind
}

// SimulatesDetector says whether the data is that of a simulated detector.
func (c Config) SimulatesDetector() bool { return c.content() != nil }

// resolveSimulated fills in the streams, and refuses settings that a simulated detector does not have.
func (c *draft) resolveSimulated() {
	if c.Streams.list() == nil && c.Sources == 0 {
		c.Sources = c.content().MinSources
	}
	if c.FragmentSize != Default().FragmentSize {
		c.add("fragment-size", "the boards of a simulated detector send what they see: leave out fragment-size or "+
			"fragment-model velo")
	}
	if c.Verify == VerifyFull {
		c.add("verify",
			"full compares with bytes that a rule gives, and those of a simulated detector follow no rule: use crc")
	}
}

// checkBoards refuses numbers of sources that do not fit the detector's boards.
func (c *draft) checkBoards() error {
	sources, boards, most := c.Division().Sources(), c.content().MinSources, c.content().MaxSources
	switch {
	case sources < boards:
		return fmt.Errorf("%d sources are fewer than the detector's %d boards: give sources %d, or leave out sources and "+
			"streams", sources, boards, boards)
	case sources > most:
		return fmt.Errorf("%d sources are more than the %d boards that a fragment can name: make sources or streams smaller",
			sources, most)
	}
	return nil
}

// simulatedSize bounds the size in bytes of a MEP of the simulated detector: without clusters, and with every board
// full.
func (c *Config) simulatedSize(align uint8) (low, high int64) {
	sources := int64(c.Division().Sources())
	header := int64(event.MEPHeaderSize(int(sources)))
	low = header + sources*padTo(int64(c.content().MinMFP(c.Packing, align)), event.MEPWordBytes)
	return low, header + sources*padTo(int64(c.content().MaxMFP(c.Packing, align)), event.MEPWordBytes)
}
