package sweep

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"ringlet/lab/trial"
	"ringlet/node"
)

// setup is what a run was meant to be, taken from its completed configuration. It makes the lines of results.jsonl
// readable without the sweep file.
type setup struct {
	Nodes         int     `json:"nodes"`
	RUs           int     `json:"rus"`
	BUs           int     `json:"bus"`
	Hosts         int     `json:"hosts"`
	Streams       int     `json:"streams"`        // of each readout unit; 0 if they differ
	FragmentMean  float64 `json:"fragment_mean"`  // bytes; 0 with an input
	FragmentSigma float64 `json:"fragment_sigma"` // bytes
	Packing       int     `json:"packing"`
	Slots         int     `json:"slots"`
	Credits       int     `json:"credits"`
	Discipline    string  `json:"discipline"`
	Barrier       string  `json:"barrier"`
	Transport     string  `json:"transport"`
	Loss          float64 `json:"loss"`
	Rate          float64 `json:"rate"` // events/s; 0 = as fast as it goes
	PortLoad      float64 `json:"load,omitempty"`
	PortBps       float64 `json:"port_bps,omitempty"` // bit/s of one host's port; 0 = not known
	EventBits     float64 `json:"event_bits"`         // 0 with an input
	CrossingShare float64 `json:"cross"`              // share of an event that crosses the busiest port
	TotalShare    float64 `json:"all"`                // the same with what a node sends to itself
}

func (c *Cell) setup() setup {
	f := c.portShares()
	s := setup{
		Nodes:         c.Config.Nodes,
		RUs:           c.Config.RUs,
		BUs:           c.Config.BUs,
		Hosts:         c.hosts(),
		Packing:       c.Config.Packing,
		Discipline:    c.Config.Discipline,
		Slots:         c.Config.Slots,
		Credits:       c.Config.CreditPerBU(),
		Barrier:       c.Config.BarrierKind().String(),
		Transport:     c.Config.Transport,
		Loss:          c.Config.Debug.Drop,
		Rate:          c.Config.Rate,
		PortLoad:      c.PortLoad,
		PortBps:       c.BedSummary.PortBps,
		EventBits:     c.eventBits(),
		CrossingShare: f.crossing,
		TotalShare:    f.total,
	}
	if least, most := c.Config.Division().SourceRange(); least == most {
		s.Streams = most
	}
	s.FragmentMean, s.FragmentSigma, _ = c.Config.FragmentSpread()
	return s
}

// outcome has the fields of a run's report that a sweep uses besides figures; docs/report.md explains the names.
type outcome struct {
	AccountsOK bool    `json:"accounting_ok"`
	Timeline   []phase `json:"timeline"`
	Builders   []struct {
		Rate float64 `json:"rate_hz"`
	} `json:"builders"`
	Nodes []struct {
		Counters map[string]uint64 `json:"counters"`
	} `json:"counters"`
	Testbed *struct { // added by ringlet testbed run
		DroppedShare float64 `json:"dropped_share"`
		Disturbances []struct {
			Error string `json:"error"`
		} `json:"disturbances"`
	} `json:"testbed"`
}

// whyUndisturbed returns the error of a disturbance that failed, or "".
func (o *outcome) whyUndisturbed() string {
	if o.Testbed != nil {
		for _, d := range o.Testbed.Disturbances {
			if d.Error != "" {
				return d.Error
			}
		}
	}
	return ""
}

// counters adds up the counters of all nodes, each as its kind requires. It leaves out those that are 0.
func (o *outcome) counters() map[string]uint64 {
	sums := map[string]uint64{}
	for _, n := range o.Nodes {
		node.Counters().AddReport(sums, n.Counters)
	}
	return sums
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
	for _, figure := range reportedFigures() {
		name, _, _ := strings.Cut(figure, ".")
		out = append(out, name)
	}
	return out
}

// measuredRun is a run with its results.
type measuredRun struct {
	*runLine
	report  outcome
	figures trial.Figures // of the report by their names, of the set-up as "setup.nodes", and those derived from both
}

// parseRun reads a run's line. It returns false if the run failed, which then has only the figures of its set-up.
func parseRun(rec *runLine) (*measuredRun, bool) {
	m := &measuredRun{runLine: rec, figures: trial.Figures{}}
	text, _ := json.Marshal(&rec.Setup) // numbers and words only: it cannot fail
	for name, v := range trial.Flatten(text) {
		m.figures["setup."+name] = v
	}
	m.setIfNonZero("setup.fragment_mean", rec.Setup.FragmentMean)
	m.setIfNonZero("setup.credits", float64(rec.Setup.Credits))
	m.setIfNonZero("port_gbps", rec.Setup.PortBps/1e9)
	m.setIfNonZero("offered_gbps", rec.Setup.Rate*rec.Setup.EventBits/1e9)
	if rec.Error != "" || json.Unmarshal(rec.Report, &m.report) != nil {
		return m, false
	}
	for _, name := range reportedFigures() {
		m.figures[name] = 0 // reports leave it out
	}
	maps.Copy(m.figures, trial.Flatten(rec.Report))
	m.derive()
	return m, true
}

// setIfNonZero leaves out a figure for which zero means that it is not known or not set.
func (m *measuredRun) setIfNonZero(name string, v float64) {
	if m.figures[name] = v; v == 0 {
		delete(m.figures, name)
	}
}

// derive adds the figures that follow from those of the report.
func (m *measuredRun) derive() {
	f := m.figures
	gbps := f["goodput_gbps"]
	f["port_built_gbps"] = gbps * m.Setup.CrossingShare // what crossed the busiest port
	if port := f["port_gbps"]; port > 0 {
		f["efficiency"] = f["port_built_gbps"] / port
		f["efficiency_all"] = gbps * m.Setup.TotalShare / port // with what a node sent to itself
	}
	f["resent_share"] = f["chunks_resent"] / max(f["chunks_sent"], 1)
	f["lost_share"] = f["events_discarded"] / max(f["events_triggered"], 1)
	if m.report.Testbed != nil {
		f["switch_dropped_share"] = m.report.Testbed.DroppedShare
	}
	if rate := f["event_rate_hz"]; rate > 0 {
		f["event_ns"] = 1e9 / rate // from one event to the next
	}
	sums := m.report.counters()
	for _, c := range node.Counters() {
		f["counters."+c.Name] = float64(sums[c.Name])
	}
	m.addCounterSpreads()
	var rates []float64
	for _, b := range m.report.Builders {
		rates = append(rates, b.Rate)
	}
	if s := trial.SpreadOf(rates); s.N > 0 { // disturbances reach few units, so the median shows an undisturbed one
		f["builder_min_hz"], f["builder_p50_hz"], f["builder_max_hz"] = s.Min, s.Median, s.Max
	}
}

// addCounterSpreads adds for each counter the difference between the largest and the smallest node: 0 if all are equal.
// A counter that a node's report leaves out is 0.
func (m *measuredRun) addCounterSpreads() {
	if len(m.report.Nodes) == 0 {
		return
	}
	for _, c := range node.Counters() {
		least, most := ^uint64(0), uint64(0)
		for _, n := range m.report.Nodes {
			least, most = min(least, n.Counters[c.Name]), max(most, n.Counters[c.Name])
		}
		m.figures["apart."+c.Name] = float64(most - least)
	}
}

// splitRuns returns the runs with results, and the failed runs.
func (r *results) splitRuns() (good []*measuredRun, failed []*runLine) {
	for _, rec := range r.latestRuns() {
		if m, ok := parseRun(rec); ok {
			good = append(good, m)
		} else {
			failed = append(failed, rec)
		}
	}
	return good, failed
}

// rounds has the figures of all runs and references, by round.
func (r *results) rounds() trial.Rounds {
	at := map[int]trial.Round{}
	set := func(round int, thing string, f trial.Figures) {
		if at[round] == nil {
			at[round] = trial.Round{}
		}
		at[round][thing] = f
	}
	good, _ := r.splitRuns()
	for _, m := range good {
		set(m.Round, m.Cell, m.figures)
	}
	for _, ref := range r.References {
		if ref.Round > 0 && ref.Error == "" {
			set(ref.Round, ref.Name, ref.Figures)
		}
	}
	var out trial.Rounds
	for _, n := range slices.Sorted(maps.Keys(at)) {
		out = append(out, at[n])
	}
	return out
}

// verdicts are the results of the file's bounds.
func (r *results) verdicts() []trial.Verdict {
	if len(r.Starts) == 0 {
		return nil
	}
	return trial.Judge(r.Starts[len(r.Starts)-1].Bounds, r.rounds())
}
