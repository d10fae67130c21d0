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

// table is the sweep of whole runs and the bounds that this project has set itself.
var table = sync.OnceValue(func() *sweep.Sweep {
	s, err := sweep.Parse("targets.yaml", targetsText, nil)
	if err != nil {
		panic(err) // it is part of the program, and a test reads it
	}
	return s
})

// runs lists the whole runs of the carriers that are measured.
func runs(carriers []string) []*sweep.Cell {
	var out []*sweep.Cell
	for _, name := range carriers {
		for i := range table().Cells {
			if c := &table().Cells[i]; c.Config.Transport == name {
				out = append(out, c)
			}
		}
	}
	return out
}

// runName is what a run is called in a report: its kind and its carrier.
func runName(c *sweep.Cell) string { return c.Series + " " + c.Config.Transport }

// bounds are those that are about what was asked for, measured or not.
func bounds(cfg *Config) []trial.Bound {
	var requested []string
	if cfg.Runs {
		for _, c := range runs(cfg.Carriers) {
			requested = append(requested, c.ID)
		}
	}
	return slices.DeleteFunc(slices.Clone(table().Bounds), func(b trial.Bound) bool {
		c, _, isLink := linkOf(b.Thing)
		return !slices.Contains(requested, b.Thing) && !(isLink && slices.Contains(cfg.Carriers, c.Name))
	})
}
