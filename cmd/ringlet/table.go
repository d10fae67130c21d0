package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"ringlet/ecs/ctl"
	"ringlet/ecs/partition/nodes"
	"ringlet/internal/plural"
	"ringlet/recording"
)

// liveLine is a status line of a run on a terminal. Elsewhere it prints once for which front-ends the run waits.
type liveLine struct {
	ttyLine
	warnSilent bool // the warning about silent sources is still to be printed
	last       nodes.Progress
}

func newLiveLine(w io.Writer, wanted bool) *liveLine {
	return &liveLine{ttyLine: newLine(w, wanted), warnSilent: wanted && !isTerminal(w)}
}

// silenceBeforeWarning is how long after its start a run warns about silent sources: front-ends that run have sent
// fragments by then.
const silenceBeforeWarning = 2 * time.Second

// show rewrites the line, with rates since the last call.
func (l *liveLine) show(p nodes.Progress) {
	if l.warnSilent && len(p.SilentSources) > 0 && p.Elapsed > silenceBeforeWarning && p.WaitReason == "" {
		l.warnSilent = false
		fmt.Fprintf(l.w, "ringlet: the run waits for the first fragment of %s\n", firstNames(p.SilentSources))
	}
	d := (p.Elapsed - l.last.Elapsed).Seconds()
	if !l.enabled || d <= 0 {
		return
	}
	switch at := p.Elapsed.Seconds(); {
	case p.WaitReason != "":
		l.print("%6.1f s  stopping: waits for %s", at, p.WaitReason)
	case len(p.SilentSources) > 0 && p.Events == 0:
		l.print("%6.1f s  %s  waits for the first fragment of %s", at, p.State, firstNames(p.SilentSources))
	default:
		l.print("%6.1f s  %s  %12s  %7.3f Gbit/s  in flight %d  re-sent %d",
			at, p.State, ctl.FormatFrequency(float64(p.Events-l.last.Events)/d),
			float64(p.Bytes-min(p.Bytes, l.last.Bytes))*8/d/1e9,
			p.MEPsInFlight, p.ChunksResent)
	}
	l.last = p
}

// firstNames lists the first few names.
func firstNames(names []string) string {
	const named = 3
	if len(names) > named {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:named], ", "), len(names)-named)
	}
	return strings.Join(names, ", ")
}

// printRow prints a row of the table: its name and its text.
type printRow func(name, format string, args ...any)

// writeTable prints a report as a table; docs/report.md explains each row.
func writeTable(w io.Writer, r *nodes.Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	runRows(row, r)
	if r.Started == "" {
		return t.Flush() // the run never began, and counted nothing
	}
	builtRows(row, r)
	timeRows(row, r)
	decisionRows(row, r.Decisions)
	hostRow(row, r.HostTimes)
	row("nodes used", "%.2f CPU s (%.2f per GB), %.0f MB at most", r.CPUSeconds, r.CPUSecondsPerGB, r.MaxRSSMB)
	sourceRows(row, r)
	filterRow(row, r)
	backlogRow(row, r)
	outputRows(row, r)
	accountRows(row, r)
	return t.Flush()
}

// runRows print the run's configuration, and how it ended.
func runRows(row printRow, r *nodes.Report) {
	between := ", " + r.DescribeCarriers() + ", " + r.DescribeTraffic()
	if r.Nodes == 1 {
		between = "" // no links between nodes
	}
	row("run", "%d: %s, %s and %s%s, packing %d, %s streams each", r.Run, withUnit(r.Nodes, "node", "nodes"),
		withUnit(r.RUs, "readout", "readout"), withUnit(r.BUs, "builder unit", "builder units"), between, r.Packing,
		streamCount(r))
	if r.Started == "" {
		row("end", "%s before it began", r.EndCause)
	} else {
		row("end", "%s; %.3f s from the first event to the last, %.3f s in all", r.EndCause, r.EventsS, r.WallS)
	}
	row("verdict", "%s%s", r.VerdictName, prefixIfAny(": ", r.VerdictReason))
	if len(r.Leavers) > 0 {
		row("told to end", "%s", strings.Join(r.Leavers, ", "))
	}
	if r.Cause == nil {
		return
	}
	row("cause", "%s: %s (%s)", r.Cause.Component, r.Cause.What, r.Cause.Evidence)
	if len(r.Cause.Followed) > 0 {
		row("for that", "%s gave up", strings.Join(r.Cause.Followed, ", "))
	}
	if r.Cause.Advice != "" {
		row("what to do", "%s", r.Cause.Advice)
	}
}

// builtRows print the outcomes of events, MEPs, MFPs and chunks.
func builtRows(row printRow, r *nodes.Report) {
	if r.BadInput != "" {
		row("bad input", "%s", r.BadInput)
	}
	for _, d := range r.Drifts {
		row("DRIFT", "%s (correlation %.2f of the sizes of %d events)", d.What, d.Correlation, d.Events)
	}
	if r.BrokenSource != "" {
		row("DEGRADED", "%s", r.BrokenSource)
	}
	if r.RecordsSkipped > 0 {
		row("bad records", "%d skipped", r.RecordsSkipped)
	}
	row("goodput", "%s, %s", ctl.FormatThroughput(r.GoodputGbps), ctl.FormatFrequency(r.EventRateHz))
	row("events", "%d triggered = %d built + %d discarded%s + %d abandoned", r.EventsTriggered, r.EventsBuilt,
		r.EventsDiscarded, formatIfAny(" + %d rejected", r.EventsRejected), r.EventsAbandoned)
	for _, l := range r.UnitOutages {
		if l.Events > 0 { // else nobody has counted them
			row("MISSING", "%s readout unit %d of %s, %s: it was gone; they are in %s",
				withUnit(l.Events, "event lacks", "events lack"), l.ReadoutUnit, l.Node,
				plural.NamedRange("source", uint64(l.FirstSource), uint64(l.LastSource)),
				plural.CountInRange(l.MEPs, "MEP", l.FirstMEP, l.LastMEP))
		}
		outageRows(row, l)
	}
	row("MEPs", "%d built of %d bytes in all", r.MEPsBuilt, r.BytesBuilt)
	mfpRow(row, r)
	if r.ChunksSent > 0 { // else no link was used
		row("chunks", "%d sent = %d placed + %d duplicate + %d late + %d refused + %d lost; %d were re-sent", r.ChunksSent,
			r.ChunksPlaced, r.ChunksDuplicate, r.ChunksLate, r.ChunksRefused, r.ChunksLost, r.ChunksResent)
	}
	if r.DatagramsDropped > 0 {
		row("dropped", "%d datagrams on purpose, of %d sent", r.DatagramsDropped, r.DatagramsSent)
	}
}

// timeRows print the times of MEPs and barriers, and the barrier holders.
func timeRows(row printRow, r *nodes.Report) {
	row("build latency", "p50 %s, p99 %s, p99.9 %s, max %s", micros(r.LatencyUs.P50), micros(r.LatencyUs.P99),
		micros(r.LatencyUs.P999), micros(r.LatencyUs.Max))
	if r.DeadUs > 0 {
		row("dead time", "%s in %s of %s; in it builder units %s, intake %s, front-ends %s", micros(int64(r.DeadUs)),
			withUnit(r.BusyTimes, "time", "times"), withUnit(r.RUs, "readout unit", "readout units"),
			micros(int64(r.DeadBuildersUs)), micros(int64(r.DeadIntakeUs)), micros(int64(r.DeadFrontEndUs)))
	}
	if r.BarrierUs.Max == 0 && len(r.BarrierHolders) == 0 {
		return // no node had to wait for another
	}
	row("barrier", "p50 %s, p99 %s, max %s; %.1f %% of the time", micros(r.BarrierUs.P50), micros(r.BarrierUs.P99),
		micros(r.BarrierUs.Max), 100*r.BarrierShare)
	if len(r.BarrierHolders) > 0 {
		row("held by", "%s; skew p50 %s, p99 %s, max %s", topHolders(r.BarrierHolders), micros(r.PhaseSkewUs.P50),
			micros(r.PhaseSkewUs.P99), micros(r.PhaseSkewUs.Max))
	}
}

// accountRows print whether the accounts balance.
func accountRows(row printRow, r *nodes.Report) {
	for _, c := range r.Accounts {
		if !c.OK {
			row("ACCOUNTS", "%s", c)
		}
	}
	for _, what := range r.NotChecked {
		row("not checked", "%s", what)
	}
	switch {
	case r.AccountingOK:
		row("accounts", "balance")
	case r.Cause != nil:
		row("accounts", "not closed: the run failed")
	default:
		row("accounts", "DO NOT BALANCE")
	}
}

// prefixIfAny is a text with a prefix; empty if the text is empty.
func prefixIfAny(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

// withUnit is a number with its noun: "1 file", "2 files".
func withUnit[N int | uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// outageRows print when a readout unit was gone, and from which MEP on events are whole again.
func outageRows(row printRow, l recording.UnitOutages) {
	for _, g := range l.Outages {
		if g.ReturnMEP == nil {
			row("lost", "%s at %s, before MEP %d: it did not come back", l.Node, clock(g.At), g.FromMEP)
			continue
		}
		row("lost", "%s at %s, before MEP %d; back at %s: events are whole again from MEP %d on", l.Node, clock(g.At),
			g.FromMEP, clock(g.ReturnedAt), *g.ReturnMEP)
	}
}

// clock is the local time of day.
func clock(at time.Time) string { return at.Local().Format(time.TimeOnly) }

// sourceRows print the counts of live sources.
func sourceRows(row printRow, r *nodes.Report) {
	for _, s := range r.Sources {
		row("source "+strconv.Itoa(s.Source),
			"%s: %d fragments of %d bytes in all, %d used + %d thrown away + %d left over; "+
				"%d missing, %d gaps; %s%s%s%s", s.Name, s.Fragments, s.Bytes, s.UsedInMEPs, s.Thrown, s.UnusedAtEnd,
			s.MissingWhenBuilt, s.Gaps, lastEvent(s), formatIfAny(", %d refused", s.Refused),
			formatIfAny(", %d lost", s.ArrivedIncomplete), formatIfAny(", %d dropped by the front-end", s.Dropped))
		if s.Frontend != "" {
			row("", "the front-end: %s", s.Frontend)
		}
		whyRow(row, s.Refused, "refused", s.WhyRefused)
		whyRow(row, s.Thrown, "thrown away", s.WhyThrown)
	}
}

// whyRow prints how many fragments of a source were refused or thrown away, and the latest reason.
func whyRow(row printRow, n uint64, what, why string) {
	if n > 0 && why != "" {
		row("", "%d %s, the last one because: %s", n, what, why)
	}
}

// lastEvent is the number of the newest fragment, if there is one.
func lastEvent(s nodes.SourceReport) string {
	if s.Fragments == 0 {
		return "nothing came"
	}
	return fmt.Sprintf("last event %d", s.LastEvent)
}

// streamCount is the number of sources of a readout unit, as text.
func streamCount(r *nodes.Report) string {
	if len(r.Division) == 0 {
		return strconv.Itoa(r.SourcesPerRU)
	}
	return plural.RangeText(uint64(slices.Min(r.Division)), uint64(slices.Max(r.Division)))
}

// mfpRow prints the outcomes of MFPs. If a readout unit was gone, the number of MFPs that it read is not known, but the
// number of missing ones is.
func mfpRow(row printRow, r *nodes.Report) {
	var missing uint64
	for _, l := range r.UnitOutages {
		missing += l.MEPs * uint64(l.LastSource-l.FirstSource+1)
	}
	if missing > 0 {
		row("MFPs", "%d placed + %d missing", r.MFPsPlaced, missing)
		return
	}
	row("MFPs", "%d read = %d placed%s%s + %d abandoned", r.MFPsRead, r.MFPsPlaced,
		formatIfAny(" + %d of rejected MEPs", r.MFPsRejected),
		formatIfAny(" + %d never asked for", r.MFPsUnasked), r.MFPsAbandoned)
	if r.BytesSpared > 0 {
		row("spared", "%d bytes of rejected events were never sent", r.BytesSpared)
	}
}

// filterRow prints the decisions of the filter.
func filterRow(row printRow, r *nodes.Report) {
	f := r.Filter
	if f == nil {
		return
	}
	row("filter", "%s: %d events judged = %d accepted + %d rejected%s%s + %d timed out + %d failed; %.0fµs each, "+
		"at most %v", f.Filter, f.JudgedEvents(), f.Accepted, f.Rejected,
		formatIfAny(" (%d of these by their region of interest)", f.RejectedByRegion),
		formatIfAny(keptWithOthersNote, f.RejectedButKept), f.TimedOut, f.Failed, f.MeanUs,
		time.Duration(f.MaxUs)*time.Microsecond)
	if p := f.Processes; p != nil {
		row("processes", "%d came%s%s%s%s%s%s%s%s%s%s", p.Attached, formatIfAny(", %d left", p.Withdrawn),
			formatIfAny(", %d died", p.Crashed), formatIfAny(", %d hung", p.Hung), formatIfAny(", %d broke their memory",
				p.BrokenMemory), formatIfAny("; %d events had none", p.EventsUnattended),
			formatIfAny("; %d were given to another one", p.EventsReassigned), formatIfAny("; %d answers late", p.AnswersLate),
			formatIfAny("; %d doubled", p.AnswersDoubled), formatIfAny("; %d unasked for",
				p.AnswersUnasked), formatIfAny("; %d not valid", p.AnswersInvalid))
	}
}

// keptWithOthersNote is the note on rejected events that are in the output, since others of their MEP are kept.
const keptWithOthersNote = " (%d of these kept with others of their MEPs)"

// backlogRow prints the backlog of the second filter.
func backlogRow(row printRow, r *nodes.Report) {
	b := r.Backlog
	if b == nil {
		return
	}
	row("backlog", "%s of %d bytes left%s; %d drained = %d events accepted + %d rejected%s%s%s%s",
		withUnit(b.SegmentsLeft, "segment", "segments"), b.Bytes, formatIfAny(", full for %dms",
			b.HeldUs/1000), b.SegmentsDrained, b.Accepted, b.Rejected, formatIfAny(keptWithOthersNote, b.RejectedButKept),
		formatIfAny(" + %d passed", b.Passed), formatIfAny(" + %d copies", b.Copies), formatIfAny(" + %d damaged", b.Damaged))
}

// outputRows print the contents of the output, as the files were read back.
func outputRows(row printRow, r *nodes.Report) {
	o := r.RecordedOutput
	for i := range r.OutputStreams {
		streamRow(row, i, &r.OutputStreams[i])
	}
	switch {
	case r.Output == "":
		return
	case r.OutputStreams != nil:
		row("output", "%d events, to %d streams by %s", r.OutputEvents, len(r.OutputStreams), r.OutputBy)
	case o == nil || o.Merged != nil:
		row("output", "%s, %d events", r.Output, r.OutputEvents)
	default:
		row("output", "%s, %s in %s", o.Directory, withUnit(o.Events, "event", "events"),
			withUnit(o.Segments, "file", "files"))
	}
	for _, what := range r.UnreadBuffers() {
		row("NOT READ", "%s", what)
	}
	if o == nil {
		return
	}
	if o.SlowValues > 0 {
		row("slow data", "%s beside the events", withUnit(o.SlowValues, "value", "values"))
	}
	if r.EventsBuilt > r.OutputEvents {
		row("NOT FOUND", "%d events were reported as built and are not in the output; events that are not there: %s",
			r.EventsBuilt-r.OutputEvents, missingRanges(o))
	}
	for _, what := range o.Recovered {
		row("recovered", "%s", what)
	}
	for _, what := range o.Problems {
		row("OUTPUT", "%s", what)
	}
}

// streamRow prints one of several outputs.
func streamRow(row printRow, i int, s *nodes.OutputStream) {
	name := fmt.Sprintf("stream %d", i)
	switch {
	case s.Merged != nil:
		row(name, "%s, %d events", s.Output, s.Merged.Events)
	case s.Directory != "":
		row(name, "%s, %s in %s", s.Directory, withUnit(s.FoundEvents, "event", "events"),
			withUnit(s.FoundSegments, "file", "files"))
	default:
		row(name, "%s, %d events", strings.TrimSpace(s.Format+" "+s.Output), s.DeliveredEvents)
	}
}

// missingRanges lists the first few ranges of events that are missing in the output.
func missingRanges(o *nodes.Output) string {
	const named = 5
	var said []string
	for _, g := range o.MissingEvents[:min(named, len(o.MissingEvents))] {
		said = append(said, plural.RangeText(g.From, g.To))
	}
	if more := o.MissingMoreRanges + uint64(len(o.MissingEvents)-len(said)); more > 0 {
		said = append(said, fmt.Sprintf("and %d more ranges", more))
	}
	return strings.Join(said, ", ")
}

// topHolders names the nodes that held most phases, with their shares and median delays.
func topHolders(all []nodes.BarrierHolder) string {
	const named = 3
	var epochs int64
	for _, h := range all {
		epochs += h.Epochs
	}
	var words []string
	for _, h := range all[:min(named, len(all))] {
		words = append(words, fmt.Sprintf("%s %.0f %% by %s", h.Node, 100*float64(h.Epochs)/float64(epochs),
			micros(h.ByUs.P50)))
	}
	if n := len(all) - named; n > 0 {
		words = append(words, fmt.Sprintf("%d more", n))
	}
	return strings.Join(words, ", ")
}

func micros(us int64) string { return (time.Duration(us) * time.Microsecond).String() }

// formatIfAny formats a number; empty if it is 0.
func formatIfAny(format string, n uint64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(format, n)
}
