package nodes

import (
	"cmp"
	"fmt"
	"slices"

	"ringlet/builderunit/recording"
	ecsrun "ringlet/ecs/run"
	"ringlet/internal/plural"
	"ringlet/node/config"
	"ringlet/readoutunit/source/live"
)

// listLosses are what a run has lost: each thing once, with the setting that allowed it. What a front-end still has,
// since nobody acknowledged it, is not lost; what came behind the end of the run neither; nor is what was refused,
// which may be a stranger's: if it was data, its fragment is missing.
func (r *Report) listLosses() []recording.Loss {
	l := &lossList{}
	l.add("incomplete", "", r.EventsIncomplete, "events", "")
	l.add("abandoned", "", r.EventsAbandoned, "events", "")
	l.add("discarded", "", r.EventsDiscarded, "events", "overload: discard")
	l.add("skipped", "the input", r.RecordsSkipped, "records", "on-bad-record: skip")
	r.sourceLosses(l)
	r.unitLosses(l)
	r.outputLosses(l)
	return l.list
}

// lossList gathers losses.
type lossList struct{ list []recording.Loss }

// add adds a loss, if it is one.
func (l *lossList) add(what, source string, count uint64, unit, allowed string) {
	if count > 0 {
		l.list = append(l.list, recording.Loss{What: what, Subject: source, Count: count, Unit: unit, AllowedBy: allowed})
	}
}

// sourceLosses are those of live sources. A fragment that came late, of which a part was lost or that its front-end
// dropped is missing in its event: that is one loss. Only where there are more of these than are missing there are some
// of no event.
func (r *Report) sourceLosses(l *lossList) {
	allowed := "on-missing: " + live.MarkMissing.String()
	if how := cmp.Or(r.OnMissing, live.MarkMissing.String()); how != live.MarkMissing.String() {
		allowed = ""
	}
	tolerance, _ := config.ParseTolerance(r.TolerateMissing) // it was checked
	for _, s := range r.Sources {
		missing := len(l.list)
		l.add("missing", s.Name, s.MissingWhenBuilt, "fragments", allowed)
		if s.MissingWhenBuilt > 0 && tolerance.Tolerates(s.MissingWhenBuilt, s.MissingWhenBuilt+s.UsedInMEPs) {
			l.list[missing].Tolerated, l.list[missing].AllowedBy = true, "tolerate-missing: "+tolerance.Text
		}
		known := s.MissingWhenBuilt
		for _, of := range []struct {
			what  string
			count uint64
		}{{"late", s.Late}, {"lost on the way", s.ArrivedIncomplete}, {"dropped by the front-end", s.Dropped}} {
			explained := min(known, of.count)
			known -= explained
			l.add(of.what, s.Name, of.count-explained, "fragments", "")
		}
		l.add("repeated", s.Name, s.Repeats, "fragments", "")
		l.add("thrown away since their number ran backwards", s.Name, s.Backwards, "fragments", "")
		l.add("thrown away since their number jumped", s.Name, s.Jumps, "fragments", "")
		if r.EndCause == ecsrun.EndInput && r.Cause == nil { // else they came behind the end of the run
			l.add("left over", s.Name, s.UnusedAtEnd, "fragments", "")
		}
	}
}

// unitLosses are those of units that the run went on without.
func (r *Report) unitLosses(l *lossList) {
	for _, x := range r.UnitOutages {
		n := uint64(x.LastSource - x.FirstSource + 1)
		l.add("missing", plural.NamedRange("source", uint64(x.FirstSource), uint64(x.LastSource))+" of "+x.Node, x.Events*n,
			"fragments", "readout-loss")
	}
	out := slices.Clone(r.InactiveBuilders)
	if r.FirstLoss != nil && !slices.Contains(out, r.FirstLoss.Component) {
		out = append(out, r.FirstLoss.Component)
	}
	for _, node := range out {
		what, allowed := "lost or excluded", "builder-loss"
		switch {
		case slices.Contains(r.Leavers, node):
			what = "told to end"
		case r.FirstLoss != nil && r.FirstLoss.Component == node:
			what = "lost"
		}
		if slices.ContainsFunc(r.UnitOutages, func(x recording.UnitOutages) bool { return x.Node == node }) {
			allowed = "readout-loss"
		}
		l.add(what, node, 1, "units", allowed)
	}
	if r.Degraded && len(out)+len(r.UnitOutages) == 0 {
		l.add("excluded for a time", "", 1, "units", "builder-loss")
	}
	if r.Cause == nil {
		for _, node := range r.Unreported {
			l.add("lost before its last report", node, 1, "units", "builder-loss or readout-loss")
		}
	}
}

// outputLosses are those of events that were handed to other programs. Where files have every event, too, none is lost.
func (r *Report) outputLosses(l *lossList) {
	if r.RecordedOutput != nil && r.sendsAllToAll() || r.OutputStreams == nil && r.RecordedOutput != nil {
		return
	}
	for _, n := range r.Counters {
		c := countsOf(n.Counters)
		l.add("handed to a buffer that nobody read", n.Node, c.OutputUnread, "MEPs", "")
		l.add("held by readers of a buffer that died", n.Node, c.OutputLost, "MEPs", "")
	}
}

// UnreadBuffers says which builder units handed MEPs to buffers that nobody read, a sentence each, whether that is a
// loss or not.
func (r *Report) UnreadBuffers() (said []string) {
	for _, n := range r.Counters {
		if k := countsOf(n.Counters).OutputUnread; k > 0 {
			said = append(said, fmt.Sprintf("nobody has read the buffer of %s, to which %d MEPs were handed: start its reader "+
				"before the run, or leave out that output", n.Node, k))
		}
	}
	return said
}
