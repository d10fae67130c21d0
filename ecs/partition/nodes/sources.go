package nodes

import (
	"cmp"
	"strconv"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"ringlet/ecs/figures"
	"ringlet/ecs/partition/fault"
	"ringlet/node"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/source"
)

// LiveSources are the live sources of a configuration, in the order of their ids; nil if its data are not live.
func LiveSources(cfg config.Completed) (out []figures.Source) {
	division := cfg.Division()
	if !cfg.HasLiveSources() {
		return nil
	}
	inputs, err := source.ParseInputs(cfg.Input)
	if err != nil || len(inputs) != division.Sources() {
		return nil // impossible: Complete has checked the input
	}
	for id, in := range inputs {
		out = append(out, figures.Source{ID: id, Name: in.Name, Input: in.Text, RU: division.UnitOf(id)})
	}
	return out
}

// SourceReport are the counts of a live source: the fragments that it sent, and what became of them.
type SourceReport struct {
	Source            int    `json:"source"` // id
	Name              string `json:"name"`   // ?name= in the setting input, else what its front-end calls it, else the input
	Input             string `json:"input"`  // as in the setting input
	Node              string `json:"node"`   // the node of the readout unit that reads the source
	Fragments         uint64 `json:"fragments" sum:"ru.input_fragments."`
	Bytes             uint64 `json:"bytes" sum:"ru.input_bytes."`
	UsedInMEPs        uint64 `json:"used" sum:"ru.input_used."`       // in MEPs
	MissingWhenBuilt  uint64 `json:"missing" sum:"ru.input_missing."` // not there when its event was built
	Gaps              uint64 `json:"gaps" sum:"ru.input_gaps."`
	Thrown            uint64 `json:"thrown" sum:"ru.input_late.,ru.input_repeats.,ru.input_backwards.,ru.input_jumps.,ru.input_unmatched."` // the next five
	Late              uint64 `json:"late" sum:"ru.input_late."`                                                                             // came after the event had been built without it
	Repeats           uint64 `json:"repeats" sum:"ru.input_repeats."`                                                                       // the event had one already
	Backwards         uint64 `json:"backwards" sum:"ru.input_backwards."`
	Jumps             uint64 `json:"jumps" sum:"ru.input_jumps."`
	Unmatched         uint64 `json:"unmatched" sum:"ru.input_unmatched."` // in time
	Refused           uint64 `json:"refused" sum:"ru.input_refused."`     // the feed refused these
	ArrivedIncomplete uint64 `json:"lost" sum:"ru.input_lost."`           // the feed dropped these: a piece did not arrive
	Dropped           uint64 `json:"dropped" sum:"ru.input_dropped."`     // by the front-end
	UnusedAtEnd       uint64 `json:"left"`                                // in no MEP when the run ended
	LastEvent         uint64 `json:"last_event" sum:"ru.input_last_event."`
	AgeUs             uint64 `json:"age_us" sum:"ru.input_age_us."` // of the newest fragment

	// Frontend is the front-end that was attached last: the name that it gave, and its address.
	Frontend   string `json:"frontend,omitempty"`
	WhyRefused string `json:"why_refused,omitempty"` // the latest reason, a sentence
	WhyThrown  string `json:"why_thrown,omitempty"`

	SizeBytes  *Distribution `json:"size_bytes,omitempty"`  // of the fragments that came
	IntervalUs *Distribution `json:"interval_us,omitempty"` // from one fragment to the next; of those read together their mean
	Banks      *Distribution `json:"banks,omitempty"`       // of the fragments that are containers of banks

	MissingByTime *MissingByTime `json:"missing_by_time,omitempty"`
}

// MissingByTime says when fragments of a source were missing, in bins of one length from the first MEP on.
type MissingByTime struct {
	BinMs   uint64   `json:"bin_ms"`
	Events  []uint64 `json:"events"`  // that were put into MEPs, by bin
	Missing []uint64 `json:"missing"` // fragments that these events lack
}

// missingByTime is the history of a source in a report; nil if no event was put into a MEP.
func missingByTime(r *nodev1.Report, source int) *MissingByTime {
	for _, h := range r.GetSourceHistories() {
		if int(h.GetSource()) == source && len(h.GetEvents()) > 0 && len(h.GetEvents()) == len(h.GetMissing()) {
			return &MissingByTime{h.GetBinMs(), h.GetEvents(), h.GetMissing()}
		}
	}
	return nil
}

// Distribution of a quantity, to one significant digit.
type Distribution struct {
	Quantiles3
	Bars []Bar `json:"bars"` // those that are not empty, in order
}

// Bar of a histogram.
type Bar struct {
	From  int64 `json:"from"` // the lowest value
	To    int64 `json:"to"`   // the highest
	Count int64 `json:"n"`
}

// distributionOf is the distribution of a histogram; nil if it is empty.
func distributionOf(h *hdr.Histogram) *Distribution {
	if h == nil || h.TotalCount() == 0 {
		return nil
	}
	d := &Distribution{Quantiles3: quantiles(h)}
	for _, b := range h.Distribution() {
		if b.Count > 0 {
			d.Bars = append(d.Bars, Bar{b.From, b.To, b.Count})
		}
	}
	return d
}

// fillSources fills in the live sources, in the order of their ids.
func (r *reporter) fillSources(out *Report) {
	sources := LiveSources(r.cfg)
	if len(sources) == 0 {
		return
	}
	ofRU, reports := map[int]NodeCounters{}, map[int]*nodev1.Report{}
	for i, n := range r.nodes {
		if n.firstEntry.GetReadout() && i < len(out.Counters) {
			ru := int(n.firstEntry.GetRuIndex())
			ofRU[ru], reports[ru] = out.Counters[i], n.latestReport()
		}
	}
	for _, src := range sources {
		id, readout := src.ID, ofRU[src.RU]
		s := SourceReport{Source: id, Name: src.Name, Input: src.Input, Node: readout.Node}
		readCounters(&s, readout.Counters, strconv.Itoa(id))
		s.UnusedAtEnd = s.Fragments - min(s.Fragments, s.UsedInMEPs+s.Thrown)
		r.fillReasons(&s)
		of := func(name string) *Distribution {
			return distributionOf(figures.Histogram(reports[src.RU], name+strconv.Itoa(id)))
		}
		s.SizeBytes, s.IntervalUs = of(node.HistogramSourceSizes), of(node.HistogramSourceIntervals)
		s.Banks, s.MissingByTime = of(node.HistogramSourceBanks), missingByTime(reports[src.RU], id)
		out.Sources = append(out.Sources, s)
	}
}

// Drift says that a live source was apart from another, by the sizes of their fragments.
type Drift struct {
	Source      string  `json:"source"`
	Reference   string  `json:"reference"`
	Behind      int     `json:"behind"`          // events; negative: ahead
	Since       uint64  `json:"since"`           // about the first event that was apart; 0: from the beginning
	Until       uint64  `json:"until,omitempty"` // about the first that was not any more; 0: to the end of the run
	Reported    uint64  `json:"reported"`        // the last event that had been looked at when it was reported
	Correlation float64 `json:"correlation"`     // of the sizes at that distance
	Events      int     `json:"events"`          // that it was found in
	What        string  `json:"what"`            // a sentence
}

// fillDrifts fills in what the comparison of live sources has found.
func (r *reporter) fillDrifts(out *Report) {
	d := r.Drift()
	out.Slips, out.EventsCompared = d.Slips, d.Compared
	for _, f := range d.Findings {
		out.Drifts = append(out.Drifts, Drift{
			Source:      f.Source,
			Reference:   f.Reference,
			Behind:      f.Behind,
			Since:       f.Since,
			Until:       f.Until,
			Reported:    f.Reported,
			Correlation: f.Correlation,
			Events:      f.Events,
			What:        f.String(),
		})
	}
}

// ListSourceNames lists the names that the live sources of a run have now, by id.
func ListSourceNames(r *Run) (names []string) {
	for _, src := range LiveSources(r.cfg) {
		for _, n := range r.nodes {
			if n.firstEntry.GetReadout() && int(n.firstEntry.GetRuIndex()) == src.RU {
				src.Name = cmp.Or(n.latestReport().GetSourceNames()[uint32(src.ID)], src.Name)
			}
		}
		names = append(names, src.Name)
	}
	return names
}

// silentSources are the names of the live sources that have sent no fragment yet.
func (r *Run) silentSources() (names []string) {
	for _, src := range LiveSources(r.cfg) {
		for _, n := range r.nodes {
			if !n.firstEntry.GetReadout() || int(n.firstEntry.GetRuIndex()) != src.RU {
				continue
			}
			var s SourceReport
			if readCounters(&s, n.latestReport().GetCounters(), strconv.Itoa(src.ID)); s.Fragments == 0 {
				names = append(names, src.Name)
			}
		}
	}
	return names
}

// inputFailure is the fault of live sources that ended the run: a readout unit ended it for a failed source, or all
// sources failed, so that the input ended. MEPs that were cut before are built, and nothing is given up. If sources
// failed and the run tolerated that, down is nil and broken says why the first one failed.
func (r *Run) inputFailure(ended bool) (down *fault.Error, broken string) {
	var first *fault.Fault
	var gone uint64
	for _, n := range r.nodes {
		rep := n.latestReport()
		c := reportedCounts(rep)
		gone += c.SourcesBroken
		if c.SourcesBroken+c.InputFailed == 0 {
			continue
		}
		why := rep.GetStatus().GetCause()
		f := &fault.Fault{
			Component: n.name,
			Subsystem: why.GetPart(),
			What:      why.GetWhat(),
			Evidence:  why.GetEvidence(),
			Advice:    "See to the front-end of that source, and start a run again.",
		}
		if c.InputFailed > 0 {
			return &fault.Error{Fault: *f}, ""
		}
		if first == nil {
			first = f
		}
	}
	switch {
	case first == nil:
		return nil, ""
	case gone >= uint64(r.cfg.Division().Sources()) && ended:
		return &fault.Error{Fault: *first}, ""
	}
	return nil, first.What
}

// liveDuration is the duration of a run with live sources, in s: from its start until the drain began, or until its
// last MEP if that was later. Without either it is until now.
func (r *reporter) liveDuration(last, now time.Time) float64 {
	if r.now.Begun.IsZero() {
		return 0
	}
	end := r.now.Draining
	if last.After(end) {
		end = last
	}
	if !end.After(r.now.Begun) {
		end = now
	}
	return end.Sub(r.now.Begun).Seconds()
}

// rateDuration is the time, in s, by which a report divides for its rates: DurationS or longer. A run that was stopped
// counts until the stop, though its last MEP was earlier. A run with the setting rate counts at least the time that its
// events take at that rate, though all events of a MEP are generated at once.
func (r *reporter) rateDuration(out *Report) float64 {
	d := out.DurationS
	if !r.now.Begun.IsZero() && r.now.Draining.After(r.now.Begun) {
		d = max(d, r.now.Draining.Sub(r.now.Begun).Seconds())
	}
	if rate := r.cfg.Rate; rate > 0 {
		d = max(d, float64(out.EventsTriggered)/rate)
	}
	return d
}

// fillReasons fills in the front-end of a live source, and the latest reasons why a fragment was refused or thrown
// away.
func (r *reporter) fillReasons(s *SourceReport) {
	for _, n := range r.nodes {
		if n.name != s.Node {
			continue
		}
		s.Frontend = n.latestReport().GetFrontends()[uint32(s.Source)]
		s.Name = cmp.Or(n.latestReport().GetSourceNames()[uint32(s.Source)], s.Name)
		for _, why := range n.latestReport().GetReasons() {
			switch {
			case int(why.GetSource()) != s.Source:
			case why.GetKind() == node.ReasonRefused:
				s.WhyRefused = why.GetWhy()
			case why.GetKind() == node.ReasonThrownAway:
				s.WhyThrown = why.GetWhy()
			}
		}
	}
}
