package nodes

import "ringlet/tagnet"

// BuilderShare is what one builder unit did of the run.
type BuilderShare struct {
	BU     int     `json:"bu"`
	Node   string  `json:"node"`
	MEPs   uint64  `json:"meps"` // built
	Events uint64  `json:"events"`
	Bytes  uint64  `json:"bytes"`
	RateHz float64 `json:"rate_hz"` // events built per second of the run

	Discarded       uint64 `json:"meps_discarded"`
	Skips           uint64 `json:"skips"`       // places of cycles that stayed empty since it had no free slot
	TimesLeftBehind uint64 `json:"left_behind"` // times that the others went on without it
	Suspensions     uint64 `json:"suspensions"` // on purpose, by --debug-suspend-bus
	SuspendedUs     uint64 `json:"suspended_us"`
}

// fillBuilders fills the field of the report that tells of each builder unit, in the order of the view.
func (r *Run) fillBuilders(out *Report, bus []*tagnet.BURegister) {
	out.Builders = []BuilderShare{}
	for _, n := range r.nodes {
		i := int(n.firstEntry.GetBuIndex())
		if !n.firstEntry.GetBuilder() || i >= len(bus) {
			continue
		}
		c, counters := bus[i].GetCounters(), n.latestReport().GetCounters()
		b := BuilderShare{
			BU:              i,
			Node:            n.name,
			MEPs:            c.GetBuilt(),
			Events:          c.GetEventsBuilt(),
			Bytes:           counters["bu.bytes_built"],
			Discarded:       c.GetDiscarded(),
			Skips:           c.GetSkips(),
			TimesLeftBehind: c.GetLeftBehind(),
			Suspensions:     counters["bu.suspensions"],
			SuspendedUs:     counters["bu.suspended_us"],
		}
		if out.RateS > 0 {
			b.RateHz = float64(b.Events) / out.RateS
		}
		out.Builders = append(out.Builders, b)
	}
}
