package ctl

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

func verdictText(r *ecsv1.Run) string {
	if r.GetVerdict() == ecsv1.Verdict_VERDICT_UNSPECIFIED {
		return "goes on"
	}
	return strings.TrimPrefix(r.GetVerdict().String(), "VERDICT_")
}

// formatSeconds formats a duration given in seconds.
func formatSeconds(s float64) string {
	return (time.Duration(s*1e3) * time.Millisecond).String()
}

func writeRuns(w io.Writer, r *ecsv1.ListRunsResponse) error {
	if len(r.GetRuns()) == 0 {
		_, err := fmt.Fprintln(w, "no run is on record")
		return err
	}
	t := newTable(w)
	t.row("run", "verdict", "started", "took", "events", "rate", "goodput", "end", "by", "why", "remark")
	for _, one := range r.GetRuns() {
		remark := one.GetRemark()
		if one.GetScan() != "" {
			remark = strings.TrimSpace("scan " + one.GetScan() + " " + remark)
		}
		t.row(fmt.Sprint(one.GetNumber()), verdictText(one), formatTime(one.GetStartBegun()),
			formatSeconds(one.GetDurationS()), fmt.Sprint(one.GetEventsBuilt()),
			FormatFrequency(one.GetEventRateHz()), FormatThroughput(one.GetGoodputGbps()),
			one.GetEnd(), one.GetStartedBy(), one.GetVerdictWhy(), remark)
	}
	if err := t.end(); err != nil || !r.GetMore() {
		return err
	}
	_, err := fmt.Fprintf(w, "there are older ones: runs before=%d\n", r.GetRuns()[len(r.GetRuns())-1].GetNumber())
	return err
}

// verdictLine is a run in one line.
func verdictLine(r *ecsv1.Run) string {
	s := fmt.Sprintf("run %d: %s, %s after %s, %d events built, %s", r.GetNumber(), verdictText(r),
		r.GetEnd(), formatSeconds(r.GetDurationS()), r.GetEventsBuilt(), FormatThroughput(r.GetGoodputGbps()))
	switch cause := causeText(r.GetCause()); {
	case r.GetVerdictWhy() != "":
		s += "; " + r.GetVerdictWhy() // it begins with the cause, if there is one
	case r.GetCause() != nil:
		s += "; " + cause
	}
	return s
}

// writeRun writes the whole record of a run.
func writeRun(w io.Writer, r *ecsv1.Run) error {
	t := newTable(w)
	t.row(fmt.Sprintf("run %d", r.GetNumber()), verdictText(r))
	optional := func(name, text string) {
		if text != "" {
			t.row(name, text)
		}
	}
	optional("why", r.GetVerdictWhy())
	optional("remark", r.GetRemark())
	optional("scan", r.GetScan())
	optional("cause", causeText(r.GetCause()))
	optional("what to do", r.GetCause().GetAdvice())
	optional("part", r.GetCause().GetPart())
	optional("first seen", formatMoment(r.GetCause().GetAt()))
	by := "by " + r.GetStartedBy()
	if r.GetStoppedBy() != "" {
		by += ", stopped by " + r.GetStoppedBy()
	}
	t.row("started", by)
	t.row("start", formatMoment(r.GetStartBegun())+" begun, "+formatMoment(r.GetStartDone())+" done"+
		elapsedText(r.GetStartBegun(), r.GetStartDone()))
	t.row("stop", formatMoment(r.GetStopBegun())+" begun, "+formatMoment(r.GetStopDone())+" done"+
		elapsedText(r.GetStopBegun(), r.GetStopDone()))
	if r.GetEndFound() {
		t.row("", "it ended while no control was there: done is when a restarted control found that")
	}
	optional("end", r.GetEnd())
	t.row("built", fmt.Sprintf("%d events, %d bytes in %s", r.GetEventsBuilt(), r.GetBytesBuilt(),
		formatSeconds(r.GetDurationS())))
	t.row("rate", FormatFrequency(r.GetEventRateHz())+", "+FormatThroughput(r.GetGoodputGbps()))
	t.row("nodes", strings.Join(r.GetNodes(), " "))
	var roles []string
	for _, name := range slices.Sorted(maps.Keys(r.GetRoles())) {
		roles = append(roles, name+" "+r.GetRoles()[name])
	}
	optional("roles", strings.Join(roles, ", "))
	for _, name := range slices.Sorted(maps.Keys(r.GetVersions())) {
		t.row("version of "+name, r.GetVersions()[name])
	}
	optional("configuration", r.GetConfigurationHash())
	if err := t.end(); err != nil {
		return err
	}
	return writeRunTables(w, r)
}

// writeRunTables writes the lists in a record: accounts, losses, events.
func writeRunTables(w io.Writer, r *ecsv1.Run) error {
	if len(r.GetAccounts()) > 0 {
		fmt.Fprintln(w, "\naccounts")
		t := newTable(w)
		for _, a := range r.GetAccounts() {
			how := "="
			if !a.GetOk() {
				how = "≠"
			}
			t.row("  "+a.GetName(), fmt.Sprint(a.GetLeft()), how, fmt.Sprint(a.GetRight()))
		}
		if err := t.end(); err != nil {
			return err
		}
	}
	if err := writeLosses(w, r.GetLosses()); err != nil || len(r.GetEvents()) == 0 {
		return err
	}
	fmt.Fprintln(w, "\nwhat happened")
	t := newTable(w)
	for _, e := range r.GetEvents() {
		t.row("  "+formatMoment(e.GetAt()), e.GetKind(), e.GetComponent(), e.GetText())
	}
	return t.end()
}

// writeLosses writes the losses of a run, with the setting that allowed each.
func writeLosses(w io.Writer, losses []*ecsv1.Loss) error {
	if len(losses) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nlost")
	t := newTable(w)
	for _, l := range losses {
		how := "no setting allows it"
		if l.GetAllowedBy() != "" {
			how = "allowed by " + l.GetAllowedBy()
		}
		if l.GetTolerated() {
			how = "tolerated by " + l.GetAllowedBy()
		}
		t.row("  "+fmt.Sprint(l.GetCount()), l.GetUnit(), l.GetOf(), l.GetWhat(), how)
	}
	return t.end()
}

// isSet says whether a time was noted: controls of earlier versions send the year 1 if it was not.
func isSet(t *timestamppb.Timestamp) bool { return t != nil && !t.AsTime().IsZero() }

// formatMoment formats a time: UTC, to the millisecond; empty if it was not noted.
func formatMoment(t *timestamppb.Timestamp) string {
	if !isSet(t) {
		return ""
	}
	return t.AsTime().UTC().Format("2006-01-02 15:04:05.000Z")
}

func elapsedText(from, to *timestamppb.Timestamp) string {
	if !isSet(from) || !isSet(to) {
		return ""
	}
	return fmt.Sprintf(" (%v)", to.AsTime().Sub(from.AsTime()).Round(time.Millisecond))
}
