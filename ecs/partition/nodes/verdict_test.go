package nodes

import (
	"strings"
	"testing"

	"ringlet/ecs/partition/fault"
	ecsrun "ringlet/ecs/run"
	"ringlet/recording"
)

// The verdict knows every loss: what is lost, by which setting, and so what the run is worth, how the program ends and
// what the sentence says.
func TestVerdict(t *testing.T) {
	source := func(s SourceReport) func(*Report) {
		return func(r *Report) { s.Name = "tcp:h:1"; r.Sources = append(r.Sources, s) }
	}
	counter := func(name string) func(*Report) {
		return func(r *Report) {
			r.Counters = []NodeCounters{{Node: "n1", Counters: map[string]uint64{name: 4}}}
		}
	}
	with := func(all ...func(*Report)) func(*Report) {
		return func(r *Report) {
			for _, f := range all {
				f(r)
			}
		}
	}
	rule := func(on, tolerate string) func(*Report) {
		return func(r *Report) { r.OnMissing, r.TolerateMissing = on, tolerate }
	}
	for name, c := range map[string]struct {
		what func(*Report)
		word string
		exit ExitStatus
		says string // in the sentence; "": it is empty
	}{
		"nothing":             {func(*Report) {}, "GOOD", ExitGood, ""},
		"interrupted":         {func(r *Report) { r.EndCause = ecsrun.EndInterrupted }, "GOOD", ExitGood, ""},
		"live, nothing lost":  {source(SourceReport{Fragments: 9, UsedInMEPs: 9}), "GOOD", ExitGood, ""},
		"rejected":            {func(r *Report) { r.EventsRejected = 3 }, "GOOD", ExitGood, ""},
		"refused of a source": {source(SourceReport{UsedInMEPs: 9, Refused: 40}), "GOOD", ExitGood, ""},
		"left over at a stop": {source(SourceReport{UsedInMEPs: 9, UnusedAtEnd: 2}), "GOOD", ExitGood, ""},
		"numbers left out":    {source(SourceReport{UsedInMEPs: 9, Gaps: 2}), "GOOD", ExitGood, ""},
		"abandoned": {
			func(r *Report) { r.EventsAbandoned = 8 },
			"INCOMPLETE", ExitFailed, "8 events abandoned",
		},
		"discarded": {
			func(r *Report) { r.EventsDiscarded = 2 },
			"DEGRADED", ExitGood, "2 events discarded (overload: discard)",
		},
		"records": {
			func(r *Report) { r.RecordsSkipped = 1 },
			"DEGRADED", ExitGood, "1 record of the input skipped (on-bad-record: skip)",
		},
		"missing, mark": {
			source(SourceReport{UsedInMEPs: 6, MissingWhenBuilt: 3}),
			"DEGRADED", ExitGood, "3 fragments of tcp:h:1 missing (on-missing: mark)",
		},
		"missing, wait": {
			with(rule("wait", ""), source(SourceReport{MissingWhenBuilt: 3})),
			"INCOMPLETE", ExitFailed, "3 fragments of tcp:h:1 missing",
		},
		"missing, stop": {
			with(rule("stop", ""), source(SourceReport{MissingWhenBuilt: 3})),
			"INCOMPLETE", ExitFailed, "missing",
		},
		"missing, tolerated": {
			with(rule("mark", "3"), source(SourceReport{MissingWhenBuilt: 3})),
			"GOOD", ExitGood, "3 fragments of tcp:h:1 missing (tolerated by tolerate-missing: 3)",
		},
		"a share tolerated": {
			with(rule("mark", "10%"), source(SourceReport{UsedInMEPs: 90, MissingWhenBuilt: 10})),
			"GOOD", ExitGood, "tolerate-missing: 10%",
		},
		"too large a share": {
			with(rule("mark", "10%"), source(SourceReport{UsedInMEPs: 89, MissingWhenBuilt: 11})),
			"DEGRADED", ExitGood, "11 fragments of tcp:h:1 missing (on-missing: mark)",
		},
		"tolerated, and wait": {
			with(rule("wait", "3"), source(SourceReport{MissingWhenBuilt: 3})),
			"GOOD", ExitGood, "tolerated",
		},
		"late and missing": {
			source(SourceReport{UsedInMEPs: 6, MissingWhenBuilt: 3, Late: 3}),
			"DEGRADED", ExitGood, "3 fragments of tcp:h:1 missing (on-missing: mark)",
		},
		"late, in no event": {
			source(SourceReport{UsedInMEPs: 6, MissingWhenBuilt: 1, Late: 3}),
			"INCOMPLETE", ExitFailed, "2 fragments of tcp:h:1 late",
		},
		"lost and missing": {source(SourceReport{UsedInMEPs: 6, MissingWhenBuilt: 3, ArrivedIncomplete: 2}), "DEGRADED",
			ExitGood, "missing"},
		"lost, in no event": {
			source(SourceReport{UsedInMEPs: 6, ArrivedIncomplete: 2}),
			"INCOMPLETE", ExitFailed, "2 fragments of tcp:h:1 lost on the way",
		},
		"dropped and missing": {source(SourceReport{UsedInMEPs: 6, MissingWhenBuilt: 2, Dropped: 2}), "DEGRADED", ExitGood,
			"missing"},
		"dropped, in no event": {
			source(SourceReport{UsedInMEPs: 6, Dropped: 2}),
			"INCOMPLETE", ExitFailed, "2 fragments of tcp:h:1 dropped by the front-end",
		},
		"each missing once": {
			source(SourceReport{MissingWhenBuilt: 3, Late: 2, ArrivedIncomplete: 2}),
			"INCOMPLETE", ExitFailed, "1 fragment of tcp:h:1 lost on the way",
		},
		"repeated": {
			source(SourceReport{UsedInMEPs: 6, Repeats: 1}),
			"INCOMPLETE", ExitFailed, "1 fragment of tcp:h:1 repeated",
		},
		"backwards": {
			source(SourceReport{UsedInMEPs: 6, Backwards: 1}),
			"INCOMPLETE", ExitFailed, "number ran backwards",
		},
		"a jump": {source(SourceReport{UsedInMEPs: 6, Jumps: 1}), "INCOMPLETE", ExitFailed, "number jumped"},
		"left over at the end": {
			with(source(SourceReport{UsedInMEPs: 6, UnusedAtEnd: 2}), func(r *Report) { r.EndCause = ecsrun.EndInput }),
			"INCOMPLETE", ExitFailed, "2 fragments of tcp:h:1 left over",
		},
		"nothing built": {
			with(source(SourceReport{}), func(r *Report) { r.EventsBuilt = 0 }),
			"INCOMPLETE", ExitFailed, "nothing was built: no fragment came",
		},
		"all refused": {
			with(source(SourceReport{Refused: 5}), func(r *Report) { r.EventsBuilt = 0 }),
			"INCOMPLETE", ExitFailed, "5 messages were refused",
		},
		"generated, none built": {func(r *Report) { r.EventsBuilt = 0 }, "GOOD", ExitGood, ""},
		"a source broke": {func(r *Report) { r.BrokenSource = "tcp:h:1: gone" }, "DEGRADED", ExitGood,
			"tcp:h:1: gone"},
		"a source slipped": {func(r *Report) { r.Slips, r.Drifts = 1, []Drift{{What: "b is one event behind a"}} },
			"DEGRADED", ExitGood, "b is one event behind a"},
		"a unit by a policy": {func(r *Report) {
			r.Degraded, r.FirstLoss, r.InactiveBuilders = true, &fault.Fault{Component: "n2"}, []string{"n2"}
		}, "DEGRADED", ExitGood, "1 unit of n2 lost (builder-loss)"},
		"a unit for a time": {func(r *Report) { r.Degraded = true }, "DEGRADED", ExitGood, "1 unit excluded for a time"},
		"told to end": {func(r *Report) {
			r.Degraded, r.Leavers, r.InactiveBuilders = true, []string{"n2"}, []string{"n2"}
		}, "DEGRADED", ExitGood, "1 unit of n2 told to end (builder-loss)"},
		"a readout unit by a policy": {func(r *Report) {
			r.Degraded = true
			r.UnitOutages = []recording.UnitOutages{{Node: "n0", FirstSource: 2, LastSource: 3, Events: 100}}
		}, "DEGRADED", ExitGood, "200 fragments of sources 2 to 3 of n0 missing (readout-loss)"},
		"a node without its last report, by a policy": {func(r *Report) { r.Unreported = []string{"n1"} }, "DEGRADED",
			ExitGood,
			"1 unit of n1 lost before its last report"},
		"a node without its last report": {func(r *Report) {
			r.Unreported, r.Cause = []string{"n1"}, &fault.Fault{Component: "n1", What: "lost"}
		}, "INCOMPLETE", ExitFailed, "n1: lost"},
		"a buffer nobody read": {
			counter("bu.output_meps_unread"),
			"INCOMPLETE", ExitFailed, "4 MEPs of n1 handed to a buffer that nobody read",
		},
		"readers that died": {
			counter("bu.output_meps_lost"),
			"INCOMPLETE", ExitFailed, "4 MEPs of n1 held by readers",
		},
		"a buffer nobody read, and files": {with(counter("bu.output_meps_unread"), func(r *Report) {
			r.RecordedOutput, r.OutputBy, r.OutputStreams = &Output{}, "all", make([]OutputStream, 2)
		}), "GOOD", ExitGood, ""},
		"a buffer nobody read, in turns": {with(counter("bu.output_meps_unread"), func(r *Report) {
			r.RecordedOutput, r.OutputBy, r.OutputStreams = &Output{}, "turns", make([]OutputStream, 2)
		}), "INCOMPLETE", ExitFailed, "handed to a buffer"},
		"unbalanced": {func(r *Report) {
			r.AccountingOK, r.Accounts = false, []Check{{Name: "a = b", Left: 1, Right: 2}}
		}, "INCOMPLETE", ExitFailed, "the accounts do not balance: a = b: 1 ≠ 2"},
		"a file that somebody cut": {func(r *Report) {
			r.RecordedOutput = &Output{Problems: []string{"on host h: bu0-00001.mdf: wrong size"}}
			r.AccountingOK, r.Accounts = false, []Check{{Name: "a = b", Left: 9, Right: 8}}
		}, "INCOMPLETE", ExitFailed, "on host h: bu0-00001.mdf: wrong size; the accounts do not balance: a = b: 9 ≠ 8"},
		"untold": {
			func(r *Report) { r.AccountingOK, r.EndUnknown = false, true },
			"INCOMPLETE", ExitFailed, "how it ended",
		},
		"a fault": {
			func(r *Report) { r.Cause = &fault.Fault{Component: "n1", What: "died"} },
			"INCOMPLETE", ExitFailed, "n1: died",
		},
		"no one file": {
			func(r *Report) {
				r.Unmerged, r.RecordedOutput = true, &Output{Problems: []string{"x.mdf was not made"}}
			},
			"INCOMPLETE", ExitFailed, "x.mdf was not made",
		},
		"bad input": {
			func(r *Report) { r.EndCause, r.BadInput = ecsrun.EndBadInput, "record 3" },
			"INCOMPLETE", ExitBadInput, "record 3",
		},
		"bad input, unbalanced": {func(r *Report) { r.EndCause, r.AccountingOK = ecsrun.EndBadInput, false }, "INCOMPLETE",
			ExitFailed,
			""},
		"bad input, and abandoned": {
			func(r *Report) { r.EndCause, r.EventsAbandoned = ecsrun.EndBadInput, 1 },
			"INCOMPLETE", ExitFailed, "1 event abandoned",
		},
		"given up": {
			func(r *Report) { r.GivenUp, r.EventsAbandoned = true, 5 },
			"ABORTED", ExitFailed, "5 events abandoned",
		},
	} {
		r := &Report{Started: "2026-11-28T00:00:00Z", EventsBuilt: 10, AccountingOK: true, EndCause: ecsrun.EndStopped}
		c.what(r)
		r.setVerdict()
		if r.VerdictName != c.word || r.ExitStatus() != c.exit || !strings.Contains(r.VerdictReason, c.says) ||
			c.says == "" && r.VerdictReason != "" {
			t.Errorf("%s: %s, exit %d, %q; not %s, %d, %q", name, r.VerdictName, r.ExitStatus(), r.VerdictReason, c.word, c.exit,
				c.says)
		}
	}
}

// A sentence has an end, however many sources there are; the list of losses has them all.
func TestSentenceEnds(t *testing.T) {
	r := &Report{Started: "x", EventsBuilt: 1, AccountingOK: true, EndCause: ecsrun.EndStopped}
	for range 9 {
		r.Sources = append(r.Sources, SourceReport{Name: "unix:a", MissingWhenBuilt: 1})
	}
	r.setVerdict()
	if len(r.Losses) != 9 || strings.Count(r.VerdictReason, "unix:a") != maxReasons ||
		!strings.HasSuffix(r.VerdictReason, "; and 3 losses more") {
		t.Errorf("%d losses: %s", len(r.Losses), r.VerdictReason)
	}
}
