package bench

import (
	"context"
	"fmt"
	"math"
	"time"

	"ringlet/event"
	generated "ringlet/event/pattern"
	"ringlet/lab/trial"
)

// The full system of LHCb-EB §V.A, as in sim/documents/figures: 321 readout units with three sources each.
const (
	fullSources = 963
	sizesEvents = 100 // events of an MFP: sizes do not depend on it
)

// documentGroups are the shares of an event that the document gives for groups of detectors. Each group has a type of
// generated fragments.
var documentGroups = []struct {
	name  string
	of    event.BankType
	share float64
}{
	{"rich", 9, 0.28},
	{"calo", 77, 0.33},
	{"scifi", 64, 0.39},
}

// measureSizes reads the sizes of generated fragments from MFPs, as a builder unit would, and compares them with
// LHCb-EB: with its realistic model, and with the constant one.
func measureSizes(ctx context.Context, _ NodesConfig, d time.Duration) (trial.Figures, error) {
	f := trial.Figures{}
	c := generated.Config{Sources: fullSources, FragmentSize: 133, Model: generated.LHCb}
	realistic, err := readSizes(ctx, c, d/2)
	if err != nil {
		return nil, err
	}
	c.FragmentSize, c.Model = 160, generated.Constant
	constant, err := readSizes(ctx, c, d/2)
	if err != nil {
		return nil, err
	}
	realistic.fillFigures(f, "realistic.", 133, 128e3)
	constant.fillFigures(f, "constant.", 160, 154e3)
	for _, g := range documentGroups {
		f["realistic."+g.name+"_share"] = realistic.bytesByType[g.of] / realistic.bytes
		f["realistic."+g.name+"_off"] = math.Abs(realistic.bytesByType[g.of]/realistic.bytes - g.share)
	}
	return f, nil
}

// fragmentSums are sums over the fragments that were read.
type fragmentSums struct {
	events, fragments, bytes float64
	bytesByType              map[event.BankType]float64
}

// readSizes makes MFPs of all sources for d, at least one of each, and adds up the sizes in their headers.
func readSizes(ctx context.Context, c generated.Config, d time.Duration) (s fragmentSums, err error) {
	made, err := generated.New(c)
	if err != nil {
		return s, err
	}
	s.bytesByType = map[event.BankType]float64{}
	var b []byte
	for began := time.Now(); s.events == 0 || time.Since(began) < d && ctx.Err() == nil; s.events += sizesEvents {
		for source := range uint16(c.Sources) {
			if n := made.MaxMFP(source, sizesEvents); len(b) < n {
				b = make([]byte, n)
			}
			n, _, err := made.FillMFP(b, source, uint64(s.events), sizesEvents, false)
			if err != nil {
				return s, err
			}
			p, err := event.ParseMFP(b[:n])
			if err != nil {
				return s, fmt.Errorf("bench: a generated MFP of source %d: %w", source, err)
			}
			for i := range p.NumFragments() {
				size := float64(p.FragmentSize(i))
				s.fragments++
				s.bytes += size
				s.bytesByType[p.FragmentType(i)] += size
			}
		}
	}
	return s, nil
}

// fillFigures adds the means, and their distance from the document's values.
func (s *fragmentSums) fillFigures(f trial.Figures, prefix string, fragment, event float64) {
	f[prefix+"events"] = s.events
	f[prefix+"fragment_b"] = s.bytes / s.fragments
	f[prefix+"fragment_off_b"] = math.Abs(s.bytes/s.fragments - fragment)
	f[prefix+"event_kb"] = s.bytes / s.events / 1e3
	f[prefix+"event_off_kb"] = math.Abs(s.bytes/s.events-event) / 1e3
}
