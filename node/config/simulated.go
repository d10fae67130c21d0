package config

import (
	"fmt"

	"ringlet/event"
	"ringlet/event/velo"
	"ringlet/readoutunit/source/frontend"
)

// SimulatesDetector says whether the data are those of a simulated detector: made of the seed, but of no rule that says
// sizes and bytes of a fragment without making the event.
func (c Config) SimulatesDetector() bool { return c.GeneratesData() && c.FragmentModel == modelVelo }

// boardCount is how many boards the simulated detector has.
func (c *Config) boardCount() int { return 4 * len(frontend.Default().Detector.Stations) }

// resolveSimulated fills in the streams, and refuses what a simulated detector does not have.
func (c *Config) resolveSimulated(p *problems) {
	if c.Streams.list() == nil && c.Sources == 0 {
		c.Sources = c.boardCount()
	}
	if c.FragmentSize != Default().FragmentSize {
		p.add("fragment-size", "the boards of a simulated detector send what they see: leave out fragment-size or "+
			"fragment-model velo")
	}
	if c.Verify == VerifyFull {
		p.add("verify",
			"full compares with bytes that a rule gives, and those of a simulated detector follow no rule: use crc")
	}
}

// checkBoards says why the sources cannot be boards.
func (c *Config) checkBoards() error {
	sources, boards := c.Division().Sources(), c.boardCount()
	switch {
	case sources < boards:
		return fmt.Errorf("%d sources are fewer than the detector's %d boards: give sources %d, or leave out sources and "+
			"streams", sources, boards, boards)
	case sources > velo.MaxBoards:
		return fmt.Errorf("%d sources are more than the %d boards that a fragment can name: make sources or streams smaller",
			sources, velo.MaxBoards)
	}
	return nil
}

// simulatedSize bounds the size in bytes of a MEP of the simulated detector: without any cluster, and with every board
// full.
func (c *Config) simulatedSize(align uint8) (low, high int64) {
	sources := int64(c.Division().Sources())
	header := int64(event.MEPHeaderSize(int(sources)))
	low = header + sources*padTo(int64(frontend.MinMFP(c.Packing, align)), event.MEPWordBytes)
	return low, header + sources*padTo(int64(frontend.MaxMFP(c.Packing, align)), event.MEPWordBytes)
}
