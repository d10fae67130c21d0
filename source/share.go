package source

import (
	"fmt"

	"ringlet/event/placing"
)

// share is the sources of one readout unit, which numbers them as its streams, from 0.
type share struct {
	firstSource, sourceCount int
}

func newShare(d placing.Division, ru int) share { return share{d.FirstSource(ru), d.SourceCount(ru)} }

// localStream returns the stream of a source. False: another readout unit has the source.
func (s share) localStream(source int) (stream int, local bool) {
	stream = source - s.firstSource
	return stream, stream >= 0 && stream < s.sourceCount
}

// check checks what can be checked before the file is read.
func (c *ReplayConfig) check() error {
	if c.Division.Units() == 0 {
		return checkUnit(c.RU, c.RUs, c.Packing)
	}
	if err := checkUnits(c.Division, c.RUs); err != nil {
		return err
	}
	return checkShape(c.RU, c.Division, c.Packing)
}

// checkUnits refuses a division for another number of readout units.
func checkUnits(d placing.Division, rus int) error {
	if n := d.Units(); n != rus {
		return &ConfigError{"streams", fmt.Sprintf("the configuration gives the sources of %d readout units, and there "+
			"are %d", n, rus)}
	}
	return nil
}

// divide returns the division of the sources of a file, or of a list of inputs, called name: the configured one, or
// the sources spread evenly if none is configured.
func divide(sources, rus int, configured placing.Division, name string) (placing.Division, error) {
	if configured.Units() == 0 {
		d := placing.SpreadDivision(sources, rus)
		if err := d.Check(); err != nil {
			return d, &ConfigError{"readout units", fmt.Sprintf("the %d sources of %s: %v", sources, name, err)}
		}
		return d, nil
	}
	if configured.Sources() != sources {
		return configured, &ConfigError{"streams",
			fmt.Sprintf("%s has %d sources, and the readout units are to have %d: leave "+
				"out sources and streams, or give numbers whose sum is %d", name, sources, configured.Sources(), sources)}
	}
	return configured, checkUnits(configured, rus)
}

// emptyDivision is the division of a file without an event that could be replayed.
func emptyDivision(c ReplayConfig) placing.Division {
	if c.Division.Units() == 0 {
		return placing.EvenDivision(c.RUs, 1)
	}
	return c.Division
}
