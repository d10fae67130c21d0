package sweep

import (
	"encoding/json"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"

	"ringlet/node"
	"ringlet/node/config"
)

// setup is what a run was meant to be, as its completed configuration has it: with it the lines of a sweep explain
// themselves.
type setup struct {
	Nodes         int     `json:"nodes"`
	RUs           int     `json:"rus"`
	BUs           int     `json:"bus"`
	Hosts         int     `json:"hosts"`
	Streams       int     `json:"streams"`
	FragmentMean  float64 `json:"fragment_mean"`  // bytes; 0 of an input
	FragmentSigma float64 `json:"fragment_sigma"` // bytes
	Packing       int     `json:"packing"`
	Slots         int     `json:"slots"`
	Credits       int     `json:"credits"`
	Discipline    string  `json:"discipline"`
	Barrier       string  `json:"barrier"`
	Transport     string  `json:"transport"`
	Loss          float64 `json:"loss"`
	Rate          float64 `json:"rate"` // events/s; 0 = as fast as it goes
	Load          float64 `json:"load,omitempty"`
	Port          float64 `json:"port_bps,omitempty"` // bit/s of one host's port; 0 = not known
	EventBits     float64 `json:"event_bits"`         // 0 of an input
	Cross         float64 `json:"cross"`              // share of an event that crosses the busiest port
	All           float64 `json:"all"`                // with what a node sends to itself
}

func (c *Cell) setup() setup {
	f := c.flows()
	s := setup{
		Nodes: c.Config.Nodes, RUs: c.Config.RUs, BUs: c.Config.BUs, Hosts: c.hosts(), Streams: c.Config.Streams,
		Packing: c.Config.Packing, Discipline: c.Config.Discipline, Slots: c.Config.Slots, Credits: c.Config.Credits(),
		Barrier:   c.Config.Barrier().String(),
		Transport: c.Config.Transport, Loss: c.Config.Debug.Drop, Rate: c.Config.Rate, Load: c.Load, Port: c.Ground.Port,
		EventBits: c.eventBits(), Cross: f.cross, All: f.all,
	}
	s.FragmentMean, s.FragmentSigma, _ = c.Config.FragmentSpread()
	return s
}

// credits of a run whose line does not tell them, as those before 2026-11-21: its settings do. 0 = they do not either.
func (r *record) credits() int {
	c := config.Default()
	for _, v := range slices.Concat(r.Fixed, r.Varied) {
		key := config.Renamed(v.Key)
		if _, is := c.Setting(key); !is {
			continue // of the bed, or a load
		}
		if c.Set("", 0, key, &yaml.Node{Kind: yaml.ScalarNode, Value: v.Text}) != nil {
			return 0
		}
	}
	if c.Complete() != nil {
		return 0
	}
	return c.Credits()
}

// outcome is what a sweep reads of a run's report, by the names that docs/report.md explains.
type outcome struct {
	DurationS  float64 `json:"duration_s"`
	Triggered  uint64  `json:"events_triggered"`
	Built      uint64  `json:"events_built"`
	Incomplete uint64  `json:"events_incomplete"`
	Discarded  uint64  `json:"events_discarded"`
	Rejected   uint64  `json:"events_rejected"`
	Gbps       float64 `json:"goodput_gbps"`
	EventRate  float64 `json:"event_rate_hz"`

	ChunksSent      uint64 `json:"chunks_sent"`
	ChunksLate      uint64 `json:"chunks_late"`
	ChunksDuplicate uint64 `json:"chunks_duplicate"`
	ChunksResent    uint64 `json:"chunks_resent"`

	Latency      quantiles `json:"build_latency_us"`
	BarrierUs    quantiles `json:"barrier_us"`
	BarrierShare float64   `json:"barrier_share"`
	Skew         quantiles `json:"phase_skew_us"`

	CPU      float64 `json:"cpu_s_per_gb"`
	Accounts bool    `json:"accounting_ok"`
	Timeline []phase `json:"timeline"`

	Builders []struct {
		Rate float64 `json:"rate_hz"`
	} `json:"builders"`
	Nodes []struct {
		Counters map[string]uint64 `json:"counters"`
	} `json:"counters"`
	Testbed *struct { // what ringlet testbed run adds
		DroppedShare float64 `json:"dropped_share"`
		Disturbances []struct {
			Error string `json:"error"`
		} `json:"disturbances"`
	} `json:"testbed"`
}

// dropped is the share of packets that the switch of a test bed found no room for.
func (o *outcome) dropped() (share float64, ok bool) {
	if o.Testbed == nil {
		return 0, false
	}
	return o.Testbed.DroppedShare, true
}

// undisturbed says of a run that was to be disturbed why it was not, or "".
func (o *outcome) undisturbed() string {
	if o.Testbed != nil {
		for _, d := range o.Testbed.Disturbances {
			if d.Error != "" {
				return d.Error
			}
		}
	}
	return ""
}

// counters are those of all nodes, each added up as its kind wants. Those that are 0 are not there.
func (o *outcome) counters() map[string]uint64 {
	sums := map[string]uint64{}
	for _, n := range o.Nodes {
		node.Counters().Sum(sums, n.Counters)
	}
	return sums
}

// builders are the spread of the builder units' event rates. Their median is what a unit has that nobody disturbs.
func (o *outcome) builders() (spread, bool) {
	var v []float64
	for _, b := range o.Builders {
		v = append(v, b.Rate)
	}
	if len(v) == 0 {
		return spread{}, false
	}
	return spreadOf(v), true
}

// quantiles of a time in µs.
type quantiles struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// phase is one step of one readout unit.
type phase struct {
	RU       int     `json:"ru"`
	Epoch    uint64  `json:"epoch"`
	BU       int     `json:"bu"`
	MEP      uint64  `json:"mep"`
	Begin    float64 `json:"begin_us"`
	Sent     float64 `json:"sent_us"`
	Released float64 `json:"released_us"`
}

// ReportFields lists the fields of a run's report that a sweep reads.
func ReportFields() []string {
	var out []string
	for f := range reflect.TypeFor[outcome]().Fields() {
		out = append(out, f.Tag.Get("json"))
	}
	return out
}

// measured is a run with what came of it.
type measured struct {
	*record
	out outcome
}

// read returns the runs that are results, and those that are not.
func (r *Results) read() (good []*measured, failed []*record) {
	for _, rec := range r.last() {
		m := &measured{record: rec}
		if rec.Error != "" || json.Unmarshal(rec.Report, &m.out) != nil {
			failed = append(failed, rec)
			continue
		}
		good = append(good, m)
	}
	return good, failed
}

// value of a setting that the file varies or fixes.
func (r *record) value(key string) string {
	for _, v := range slices.Concat(r.Varied, r.Fixed) {
		if v.Key == key {
			return v.Text
		}
	}
	return ""
}

func (m *measured) offeredGbps() float64 { return m.Setup.Rate * m.Setup.EventBits / 1e9 }

// portGbps is what crossed the busiest port.
func (m *measured) portGbps() float64 { return m.out.Gbps * m.Setup.Cross }

// efficiency is what crossed the busiest port over its rate; all counts what a node sent to itself as well.
func (m *measured) efficiency(all bool) float64 {
	switch {
	case m.Setup.Port == 0:
		return 0
	case all:
		return m.out.Gbps * m.Setup.All / (m.Setup.Port / 1e9)
	}
	return m.portGbps() / (m.Setup.Port / 1e9)
}

func (m *measured) resentShare() float64 {
	if m.out.ChunksSent == 0 {
		return 0
	}
	return float64(m.out.ChunksResent) / float64(m.out.ChunksSent)
}
