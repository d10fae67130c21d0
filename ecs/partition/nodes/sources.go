package nodes

import (
	"strconv"
	"time"

	"ringlet/ecs/figures"
	"ringlet/ecs/partition/fault"
	"ringlet/node"
	"ringlet/node/config"
	"ringlet/readoutunit/source"
)

// LiveSources are those of a configuration in effect, in the order of their ids; none, if its data are not live.
func LiveSources(cfg config.Config) (out []figures.Source) {
	division := cfg.Division()
	if !cfg.HasLiveSources() {
		return nil
	}
	inputs, err := source.ParseInputs(cfg.Input)
	if err != nil || len(inputs) != division.Sources() {
		return nil // Complete has looked
	}
	for id, in := range inputs {
		out = append(out, figures.Source{ID: id, Name: in.Name, RU: division.UnitOf(id)})
	}
	return out
}

// SourceReport is what a live source has given, and what became of it.
type SourceReport struct {
	Source            int    `json:"source"` // id
	Name              string `json:"name"`   // as the input says it
	Node              string `json:"node"`   // of its readout unit
	Fragments         uint64 `json:"fragments"`
	Bytes             uint64 `json:"bytes"`
	UsedInMEPs        uint64 `json:"used"`    // in MEPs
	MissingWhenBuilt  uint64 `json:"missing"` // not there when their event was built
	Gaps              uint64 `json:"gaps"`
	Thrown            uint64 `json:"thrown"`  // the next four
	Late              uint64 `json:"late"`    // after their event was decided without them
	Repeats           uint64 `json:"repeats"` // their event had one
	Backwards         uint64 `json:"backwards"`
	Jumps             uint64 `json:"jumps"`
	Refused           uint64 `json:"refused"` // by the carrier
	ArrivedIncomplete uint64 `json:"lost"`    // likewise: of which a part did not come
	Dropped           uint64 `json:"dropped"` // by the front-end
	UnusedAtEnd       uint64 `json:"left"`    // came, and were in no MEP when the run ended
	LastEvent         uint64 `json:"last_event"`
	AgeUs             uint64 `json:"age_us"` // of the newest fragment

	// Frontend is who was attached last: the name that it gave, and where it is.
	Frontend   string `json:"frontend,omitempty"`
	WhyRefused string `json:"why_refused,omitempty"` // the latest reason, a sentence
	WhyThrown  string `json:"why_thrown,omitempty"`
}

// fillSources tells of the live sources, in the order of their ids.
func (r *Run) fillSources(out *Report) {
	sources := LiveSources(r.cfg)
	if len(sources) == 0 {
		return
	}
	ofRU := map[int]NodeCounters{}
	for i, n := range r.nodes {
		if n.firstEntry.GetReadout() && i < len(out.Counters) {
			ofRU[int(n.firstEntry.GetRuIndex())] = out.Counters[i]
		}
	}
	for _, src := range sources {
		id, readout := src.ID, ofRU[src.RU]
		counter := func(name string) uint64 { return readout.Counters["ru.input_"+name+"."+strconv.Itoa(id)] }
		s := SourceReport{
			Source:            id,
			Name:              src.Name,
			Node:              readout.Node,
			Fragments:         counter("fragments"),
			Bytes:             counter("bytes"),
			UsedInMEPs:        counter("used"),
			MissingWhenBuilt:  counter("missing"),
			Gaps:              counter("gaps"),
			Late:              counter("late"),
			Repeats:           counter("repeats"),
			Backwards:         counter("backwards"),
			Jumps:             counter("jumps"),
			Refused:           counter("refused"),
			ArrivedIncomplete: counter("lost"),
			Dropped:           counter("dropped"),
			LastEvent:         counter("last_event"),
			AgeUs:             counter("age_us"),
		}
		s.Thrown = s.Late + s.Repeats + s.Backwards + s.Jumps
		s.UnusedAtEnd = s.Fragments - min(s.Fragments, s.UsedInMEPs+s.Thrown)
		r.fillReasons(&s)
		out.Sources = append(out.Sources, s)
	}
}

// silentSources names the live sources of which no fragment has come yet.
func (r *Run) silentSources() (names []string) {
	for _, src := range LiveSources(r.cfg) {
		for _, n := range r.nodes {
			if !n.firstEntry.GetReadout() || int(n.firstEntry.GetRuIndex()) != src.RU {
				continue
			}
			if n.latestReport().GetCounters()["ru.input_fragments."+strconv.Itoa(src.ID)] == 0 {
				names = append(names, src.Name)
			}
		}
	}
	return names
}

// inputFailure tells whether live sources have let the run down: it has ended for that, or all of them have, and
// nothing more could come. What was cut before is built, so nothing is given up. broken is why one cannot go on that
// the run tolerated.
func (r *Run) inputFailure() (down *fault.Error, broken string) {
	var first *fault.Fault
	var gone uint64
	for _, n := range r.nodes {
		rep := n.latestReport()
		c := rep.GetCounters()
		gone += c[node.CounterSourcesBroken]
		if c[node.CounterSourcesBroken]+c[node.CounterInputFailed] == 0 {
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
		if c[node.CounterInputFailed] > 0 {
			return &fault.Error{Fault: *f}, ""
		}
		if first == nil {
			first = f
		}
	}
	switch {
	case first == nil:
		return nil, ""
	case gone >= uint64(r.cfg.Division().Sources()) && r.endCause == endInput:
		return &fault.Error{Fault: *first}, ""
	}
	return nil, first.What
}

// liveDuration is how long a run with live sources was on, in s: from its start until somebody ended it, or to its last
// MEP, if that was later or nobody did. Without either it is on until now.
func (r *Run) liveDuration(last, now time.Time) float64 {
	if r.startedAt.IsZero() {
		return 0
	}
	end := r.drainedAt
	if last.After(end) {
		end = last
	}
	if !end.After(r.startedAt) {
		end = now
	}
	return end.Sub(r.startedAt).Seconds()
}

// rateDuration is the time in s that the rates of a report are over: from the first token to the last MEP, or longer.
// Who ends a run after a time means that time, though the last MEP was earlier; a rate that was asked for stands for
// the time that the events take at that rate, though a MEP of many was made at once.
func (r *Run) rateDuration(out *Report) float64 {
	d := out.DurationS
	if !r.startedAt.IsZero() && r.drainedAt.After(r.startedAt) {
		d = max(d, r.drainedAt.Sub(r.startedAt).Seconds())
	}
	if rate := r.cfg.Rate; rate > 0 {
		d = max(d, float64(out.EventsTriggered)/rate)
	}
	return d
}
