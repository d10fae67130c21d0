package nodes

import "ringlet/tagnet/core"

// BuilderShare is what one builder unit did of the run.
type BuilderShare struct {
	BU     int     `json:"bu"`
	Node   string  `json:"node"`
	MEPs   uint64  `json:"meps"` // built
	Events uint64  `json:"events"`
	Bytes  uint64  `json:"bytes" sum:"bu.bytes_built"`
	RateHz float64 `json:"rate_hz"` // events built per second of the run

	Discarded       uint64 `json:"meps_discarded"`
	Skips           uint64 `json:"skips"`                            // places in cycles left empty for lack of a free slot
	TimesLeftBehind uint64 `json:"left_behind"`                      // how often the others went on without this unit
	Suspensions     uint64 `json:"suspensions" sum:"bu.suspensions"` // on purpose, by --debug-suspend-bus
	SuspendedUs     uint64 `json:"suspended_us" sum:"bu.suspended_us"`
}

// fillBuilders fills in the share of each builder unit, in the order of the view.
func (r *reporter) fillBuilders(out *Report, bus []*core.BURegister) {
	out.Builders = []BuilderShare{}
	for _, n := range r.nodes {
		i := int(n.firstEntry.GetBuIndex())
		if !n.firstEntry.GetBuilder() || i >= len(bus) {
			continue
		}
		c := bus[i].GetCounters()
		b := BuilderShare{
			BU:              i,
			Node:            n.name,
			MEPs:            c.GetBuilt(),
			Events:          c.GetEventsBuilt(),
			Discarded:       c.GetDiscarded(),
			Skips:           c.GetSkips(),
			TimesLeftBehind: c.GetLeftBehind(),
		}
		readCounters(&b, n.latestReport().GetCounters(), "")
		if out.RateS > 0 {
			b.RateHz = float64(b.Events) / out.RateS
		}
		out.Builders = append(out.Builders, b)
	}
}
