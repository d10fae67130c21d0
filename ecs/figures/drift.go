package figures

import (
	"ringlet/event/drift"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// Drift is what the comparison of a run's live sources has found so far (package event/drift).
type Drift struct {
	Findings []drift.Finding
	Slips    uint64 // how often a source has moved
	Compared uint64 // events
}

func (d *Drift) messages() (out []*ecsv1.Drift) {
	for _, f := range d.Findings {
		out = append(out, &ecsv1.Drift{
			Source:      f.Source,
			Reference:   f.Reference,
			Behind:      int64(f.Behind),
			Since:       f.Since,
			Until:       f.Until,
			Reported:    f.Reported,
			Correlation: f.Correlation,
			Events:      uint64(f.Events),
			What:        f.String(),
		})
	}
	return out
}
