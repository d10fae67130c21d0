package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"ringlet/ecs/partition/nodes"
	"ringlet/recording"
	"ringlet/testkit/must"
)

// TestTheTableListsWhatIsMissing: a reader of the table learns what events lack, since when, what is not in the files,
// and that the accounts do not balance.
func TestTheTableListsWhatIsMissing(t *testing.T) {
	at := func(second int) time.Time { return time.Date(2026, 11, 27, 9, 30, second, 0, time.Local) }
	back := uint64(60)
	var missing []recording.Range
	for i := range uint64(6) {
		missing = append(missing, recording.Range{From: 10 * i, To: 10*i + i})
	}
	r := &nodes.Report{
		Started:        "2026-11-27T09:30:00Z",
		EndCause:       "stopped",
		BadInput:       "in.mdf: record 7 is cut",
		BrokenSource:   "n3 was lost",
		RecordsSkipped: 2,
		EventsBuilt:    130,
		OutputEvents:   100,
		MFPsPlaced:     40,
		UnitOutages: []recording.UnitOutages{{
			Node: "n3", ReadoutUnit: 3, FirstSource: 9, LastSource: 11, MEPs: 20, Events: 2000, FirstMEP: 41, LastMEP: 99,
			Outages: []recording.Outage{
				{FromMEP: 41, At: at(1), ReturnMEP: &back, ReturnedAt: at(4)},
				{FromMEP: 90, At: at(7)},
			},
		}},
		DatagramsDropped: 5,
		DatagramsSent:    1000,
		Decisions: &nodes.Decisions{
			Node: "n4", NodeLost: true, Decided: 100, NoResult: 1, ResultsLate: 2, Unsplit: 3,
			Readout: nodes.ReadoutDecisions{Confirmed: 90, LeftOut: 6, Unconfirmed: 4, MEPsFreed: 3, MFPsFreed: 9,
				BytesFreed: 900},
		},
		HostTimes: &nodes.HostTimes{
			ReadoutUs: &nodes.Quantiles4{P50: 4, P99: 90},
			BuilderUs: &nodes.Quantiles4{P50: 7, P99: 80},
		},
		Output: "events.mdf",
		RecordedOutput: &nodes.Output{Directory: "events.mdf.run1", Events: 100, Segments: 2, MissingEvents: missing,
			MissingMoreRanges: 8},
		Accounts: []nodes.Check{{Name: "built = written", Left: 130, Right: 100}},
	}
	var out bytes.Buffer
	must.OK(t, writeTable(&out, r))
	for _, want := range []string{
		"bad input in.mdf: record 7 is cut",
		"DEGRADED n3 was lost",
		"bad records 2 skipped",
		"MISSING 2000 events lack readout unit 3 of n3, sources 9 to 11: it was gone; they are in 20 MEPs from 41 to 99",
		"lost n3 at 09:30:01, before MEP 41; back at 09:30:04: events are whole again from MEP 60 on",
		"lost n3 at 09:30:07, before MEP 90: it did not come back",
		"MFPs 40 placed + 60 missing",
		"dropped 5 datagrams on purpose, of 1000 sent",
		"without result 1 after the time-out, 0 since later ones needed their place, 0 at the end",
		"results 2 late, 0 doubled, 0 impossible; 0 did not leave their builder unit, or are unaccounted for",
		"told to RUs 90 decisions, 6 were left out for slow readout units, of 4 the arrival is not known",
		"freed early 3 times the part of a rejected MEP, 9 MFPs of 900 bytes, before its outcome was told",
		"in the hosts packets, from the kernel until taken in, p50 and p99: at readout units 4µs, 90µs; " +
			"at builder units 7µs, 80µs",
		"output events.mdf.run1, 100 events in 2 files",
		"NOT FOUND 30 events were reported as built and are not in the output; events that are not there: " +
			"0, 10 to 11, 20 to 22, 30 to 33, 40 to 44, and 9 more ranges",
		"ACCOUNTS built = written: 130 ≠ 100",
		"accounts DO NOT BALANCE",
	} {
		if !strings.Contains(spaced(out.String()), "\n"+want+"\n") {
			t.Errorf("the table does not say %q:\n%s", want, &out)
		}
	}
}

// spaced is a table with one space in place of several.
func spaced(table string) string {
	lines := strings.Split(table, "\n")
	for i, l := range lines {
		lines[i] = strings.Join(strings.Fields(l), " ")
	}
	return strings.Join(lines, "\n")
}
