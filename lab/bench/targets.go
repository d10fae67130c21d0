package bench

import (
	_ "embed"
	"slices"
	"sync"

	"ringlet/lab/sweep"
	"ringlet/lab/trial"
)

//go:embed targets.yaml
var targetsText []byte

// targetsSweep is the sweep of whole runs, with the bounds that are this project's targets.
var targetsSweep = sync.OnceValue(func() *sweep.Sweep {
	s, err := sweep.Parse("targets.yaml", targetsText, nil)
	if err != nil {
		panic(err) // the file is embedded, and a test reads it
	}
	return s
})

// carrierRuns lists the whole runs with the given carriers.
func carrierRuns(carriers []string) []*sweep.Cell {
	var out []*sweep.Cell
	for _, name := range carriers {
		for i := range targetsSweep().Cells {
			if c := &targetsSweep().Cells[i]; c.Config.Transport == name {
				out = append(out, c)
			}
		}
	}
	return out
}

// runName is the name of a run in a report: its kind and its carrier.
func runName(c *sweep.Cell) string { return c.Series + " " + c.Config.Transport }

// requestedBounds are the bounds on what the settings ask for, measured or not.
func requestedBounds(cfg *Config) []trial.Bound {
	var requested []string
	if cfg.FullRuns {
		for _, c := range carrierRuns(cfg.Carriers) {
			requested = append(requested, c.ID)
		}
	}
	return slices.DeleteFunc(slices.Clone(targetsSweep().Bounds), func(b trial.Bound) bool {
		c, _, isLink := parseLinkName(b.Thing)
		return !slices.Contains(requested, b.Thing) && !(isLink && slices.Contains(cfg.Carriers, c.Name))
	})
}
