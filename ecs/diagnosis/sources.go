package diagnosis

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"ringlet/internal/plural"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// RuleSourceApart is the rule about sources that share no event number. The control logs its alarm, too.
const RuleSourceApart = "source-apart"

// RuleSourceDrift is the rule about sources that have slipped. The control logs its alarm, too.
const RuleSourceDrift = "source-drift"

// sourceRules are the rules about live sources.
func sourceRules() []Rule {
	return []Rule{
		{
			ID:       RuleSourceApart,
			Severity: severityError,
			Hold:     900 * time.Millisecond, // with a report and a snapshot every 0.5 s: on within 2 s
			find:     findDisjointSources,
			When: "Two live sources of different readout units share no event number; those of one readout unit are compared " +
				"there, and its log says so.",
			Advice: "No event that is built has both: mend the front-ends, and start a new run.",
		},
		{
			ID:       RuleSourceDrift,
			Severity: severityError,
			find:     findDriftingSources,
			When: "The sizes of two live sources go together only some events apart: one has lost a trigger, or counted one " +
				"twice.",
			Advice: "Events have fragments of other triggers since then: start a new run with counters reset. What is " +
				"recorded is whole: shift that source when you read it.",
		},
		{
			ID:       "source-name",
			Severity: severityWarning,
			find:     findSharedNames,
			When:     "The front-ends of two live sources call their sources by one name, or by that of another input.",
			Advice: "Nobody can tell the two apart in messages and tables: give each a `label` of its own, or put `?name=` " +
				"behind the address of its input.",
		},
		{
			ID:       "source-behind",
			Severity: severityWarning,
			Hold:     2 * time.Second,
			find:     findLaggingSources,
			When: "The newest event of a live source is older than those of the others, by what they give in two seconds; or, " +
				"while they give nothing either, in a twentieth of a second.",
			Advice: "Look at its front-end and at the way to it; events wait for its fragments as long as " +
				"`fragment-timeout` says, and with `on-missing: wait` for ever.",
		},
		{
			ID:       "source-missing",
			Severity: severityWarning,
			Hold:     2 * time.Second,
			find:     findMissingFragments,
			When:     "More than 1 % of the fragments of a live source are missing in events, and it is not behind.",
			Advice: "See on the screen of sources whether its front-end leaves them out, drops them, or sends them too " +
				"late: then set a longer `fragment-timeout`.",
			advise: adviseMissing,
		},
	}
}

// Bounds of the rules about live sources.
const (
	maxLag          = 2.0  // s, at the pace of the other sources: reports of two nodes may be 0.5 s apart, or more
	maxIdleLag      = 0.05 // s, while no source gives anything: one lost fragment at 20 Hz
	maxMissingShare = 0.01
	minMissing      = 5 // the least number of missing fragments for an alarm
)

// stream is a live source in both snapshots of a view.
type stream struct {
	*ecsv1.SourceFigures
	base *ecsv1.SourceFigures
}

// streams are the live sources that are in both snapshots and not silent.
func (v *view) streams() (out []stream) {
	for _, x := range v.now.GetSources() {
		i := slices.IndexFunc(v.base.GetSources(),
			func(b *ecsv1.SourceFigures) bool { return b.GetSource() == x.GetSource() })
		if i >= 0 && !x.GetSilent() {
			out = append(out, stream{x, v.base.GetSources()[i]})
		}
	}
	return out
}

// name is the source's id and its input.
func (s *stream) name() string { return fmt.Sprintf("source %d (%s)", s.GetSource(), s.GetName()) }

// perSecond is the rate of a counter between the snapshots.
func (v *view) perSecond(now, base uint64) float64 { return increase(now, base) / v.span().Seconds() }

// lag is how far one source is behind the others.
type lag struct {
	events         float64 // how much older its newest event is than the median of the others'
	seconds        float64 // the time in which the others give that many events
	tolerance      float64 // s; a lag up to this is no alarm
	newestOfOthers float64 // median of the others' newest events
	rateOfOthers   float64 // median of the others' rates, fragments per second
}

// lagOf compares a source with the others that have given fragments.
func (v *view) lagOf(all []stream, of int) (l lag) {
	var newest, counts, pace []float64
	for i := range all {
		if i != of && all[i].GetFragments() > 0 {
			newest = append(newest, float64(all[i].GetLastEvent()))
			counts = append(counts, float64(all[i].GetFragments()))
			pace = append(pace, v.perSecond(all[i].GetFragments(), all[i].base.GetFragments()))
		}
	}
	l.newestOfOthers, l.rateOfOthers, l.tolerance = median(newest), median(pace), maxLag
	l.events = l.newestOfOthers - float64(all[of].GetLastEvent())
	if all[of].GetFragments() == 0 {
		l.events = median(counts)
	}
	each := l.rateOfOthers
	if each == 0 { // no source goes on: their mean rate since the run began
		each, l.tolerance = median(counts)/max(v.now.GetElapsedS(), minSpan.Seconds()), maxIdleLag
	}
	if l.events > 0 && each > 0 {
		l.seconds = l.events / each
	}
	return l
}

// disjointSources says which live sources of different readout units share no event number; empty if there are none.
// Sources with a single fragment do not count.
func (v *view) disjointSources() string {
	var ranges []plural.SourceRange
	for _, x := range v.now.GetSources() {
		if v.isRunning() && x.GetFragments() > 1 && x.GetLastEvent() > 0 {
			ranges = append(ranges, plural.SourceRange{
				Source: x.GetName(),
				Unit:   int(x.GetRuIndex()),
				First:  x.GetFirstEvent(),
				Last:   x.GetLastEvent(),
			})
		}
	}
	return plural.DescribeDisjoint(ranges)
}

func findDisjointSources(v *view) (out findings) {
	if what := v.disjointSources(); what != "" {
		out.add("sources", "%s", what)
	}
	return out
}

// findSharedNames finds names that several sources have, unless it is only that their inputs read alike.
func findSharedNames(v *view) (out findings) {
	byName := map[string][]string{}
	for _, x := range v.now.GetSources() {
		if name := x.GetName(); v.isRunning() && name != x.GetInput() {
			byName[name] = append(byName[name], fmt.Sprintf("%d (%s)", x.GetSource(), x.GetInput()))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if who := byName[name]; len(who) > 1 {
			out.add(name, "the sources %s are all called %s", strings.Join(who, ", "), name)
		}
	}
	return out
}

func findDriftingSources(v *view) (out findings) {
	for _, d := range v.now.GetDrifts() {
		if d.GetUntil() == 0 && v.isRunning() {
			out.add(d.GetSource(), "%s (correlation %.2f of the sizes of %d events)", d.GetWhat(), d.GetCorrelation(),
				d.GetEvents())
		}
	}
	return out
}

// lateSources are the sources that are behind, by their indices in all.
func (v *view) lateSources(all []stream) map[int]lag {
	out := map[int]lag{}
	if v.disjointSources() != "" { // their numbers cannot be compared
		return out
	}
	for i := range all {
		if l := v.lagOf(all, i); v.isRunning() && v.span() >= minSpan && l.seconds > l.tolerance {
			out[i] = l
		}
	}
	return out
}

func findLaggingSources(v *view) (out findings) {
	all := v.streams()
	behind := v.lateSources(all)
	for i := range all {
		l, is := behind[i]
		if !is {
			continue
		}
		x := &all[i]
		at := unitName("readout unit", x.GetRuIndex(), x.GetNode())
		switch rate := v.perSecond(x.GetFragments(), x.base.GetFragments()); {
		case x.GetFragments() == 0:
			out.add(x.name(), "%s of %s has given nothing yet, and the others have given %.0f fragments", x.name(), at, l.events)
		case rate == 0:
			out.add(x.name(), "%s of %s gives nothing any more: its newest event is %d, %.0f before that of the others",
				x.name(), at, x.GetLastEvent(), l.events)
		default:
			out.add(x.name(), "%s of %s is %.1f s behind the others: its newest event is %d, theirs %.0f; it gives %.3g "+
				"fragments a second, they %.3g", x.name(), at, l.seconds, x.GetLastEvent(), l.newestOfOthers, rate, l.rateOfOthers)
		}
	}
	return out
}

// adviseMissing is the advice for a udp source, whose fragments may be lost on the way.
func adviseMissing(_ *view, component string) string {
	if !strings.Contains(component, "(udp:") {
		return ""
	}
	return "See on the screen of sources whether they are lost or too late: " +
		"give udp larger buffers (net.core.rmem_max), " +
		"or set a longer `fragment-timeout`."
}

func findMissingFragments(v *view) (out findings) {
	all := v.streams()
	behind := v.lateSources(all)
	for i := range all {
		x := &all[i]
		missing, used := increase(x.GetMissing(), x.base.GetMissing()), increase(x.GetUsed(), x.base.GetUsed())
		_, is := behind[i]
		if is || !v.isRunning() || x.GetMissingPerS() == 0 || missing < minMissing ||
			missing/(missing+used) <= maxMissingShare {
			continue
		}
		out.add(x.name(), "%s of the events have no fragment of %s of %s", percent(missing/(missing+used)), x.name(),
			unitName("readout unit", x.GetRuIndex(), x.GetNode()))
	}
	return out
}
