package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ringlet/node/config"
)

// TestFaultRows holds that the program takes the settings of each row, that they tolerate the loss of what is struck
// and of no more, and that the struck have a part in the run.
func TestFaultRows(t *testing.T) {
	seen := map[faultRow]bool{}
	for _, r := range faultRows(true) {
		if seen[r] {
			t.Errorf("%v: it is there twice", r)
		}
		seen[r] = true
		c := r.stage()
		cfg := config.Default()
		if err := cfg.Apply(append(c.settings(), "output=/there/")); err != nil {
			t.Fatalf("%v: %v", r, err)
		}
		if err := cfg.Complete(); err != nil {
			t.Fatalf("%v: %v", r, err)
		}
		if cfg.Silence != r.What.silence() {
			t.Errorf("%v: silence is %v in the run", r, cfg.Silence)
		}
		rus, bus := len(c.readoutVictims()), len(c.builderVictims())
		readout, builder := cfg.LossPolicies()
		inRing := strings.HasPrefix(r.Discipline, "tagring") // the loss of a readout unit ends such a run
		if !readout.Tolerates(cfg.RUs-rus) && !inRing || !builder.Tolerates(cfg.BUs-bus) {
			t.Errorf("%v: the policies do not tolerate it", r)
		}
		if readout.Tolerates(cfg.RUs-3) || builder.Tolerates(cfg.BUs-3) {
			t.Errorf("%v: the policies tolerate more", r)
		}
		for _, v := range c.Victims {
			if v != controlName && !slices.Contains(c.Layout.members(), v) {
				t.Errorf("%v: %s has no part in it", r, v)
			}
		}
		if len(c.otherBuilders()) == 0 {
			t.Errorf("%v: no builder unit is left whose standstill could be measured", r)
		}
	}
	for _, r := range shortRows {
		if !seen[r] {
			t.Errorf("%v: it is among the short rows, and not among all", r)
		}
	}
	for _, r := range faultRows(false) {
		if r.Place == placeHosts {
			t.Errorf("%v: it needs hosts", r)
		}
	}
}

// TestJudgeRow holds that each rule of a right outcome is kept.
func TestJudgeRow(t *testing.T) {
	c := faultRow{placeRun, "shift", happenKill, roleFolded}.stage()
	right := measuredRow{
		Standstill: 900 * time.Millisecond,
		Usual:      50 * time.Millisecond,
		ReturnTime: 6 * time.Second,
		Back:       true,
		Verdict:    "DEGRADED",
		End:        "stopped",
		Triggered:  100,
		Found:      100,
		Missing:    7,
		Lacking:    []string{"n3"},
		Sentence:   "the run goes on without n3",
	}
	if wrong := c.judge(&right); len(wrong) > 0 {
		t.Errorf("it is right, and %v", wrong)
	}
	for want, change := range map[string]func(*measuredRow){
		"the verdict is":        func(m *measuredRow) { m.Verdict = "ABORTED" },
		"the run did not go on": func(m *measuredRow) { m.End = "fault" },
		"stood still":           func(m *measuredRow) { m.Standstill = 1200 * time.Millisecond },
		"is not back after 15s": func(m *measuredRow) { m.Back = false },
		"not back":              func(m *measuredRow) { m.ReturnTime = 16 * time.Second },
		"1 events are lost":     func(m *measuredRow) { m.Found-- },
		"of n1 are missing":     func(m *measuredRow) { m.Lacking = append(m.Lacking, "n1") },
		"said nothing":          func(m *measuredRow) { m.Sentence = "" },
		"broken":                func(m *measuredRow) { m.Problems = []string{"broken"} },
	} {
		m := right
		m.Lacking = slices.Clone(right.Lacking)
		change(&m)
		if wrong := c.judge(&m); len(wrong) != 1 || !strings.Contains(wrong[0], want) {
			t.Errorf("%s: the judge says %q", want, wrong)
		}
	}
}

// TestLongestGap holds that a gap counts with its whole length, also where it begins before the time or does not end.
func TestLongestGap(t *testing.T) {
	zero := time.Unix(1000, 0)
	at := func(ms ...int) (out []time.Time) {
		for _, m := range ms {
			out = append(out, zero.Add(time.Duration(m)*time.Millisecond))
		}
		return out
	}
	for _, c := range []struct {
		times    []time.Time
		from, to int
		gap      int
		ended    int
		open     bool
	}{
		{at(0, 10, 20, 90, 100), 0, 100, 70, 90, false},
		{at(0, 10, 20, 90, 100), 50, 100, 70, 90, false}, // began before
		{at(0, 10, 20), 15, 200, 180, 200, true},
		{at(), 10, 30, 20, 30, true},
		{at(0, 50, 60, 300), 55, 80, 20, 80, true}, // the next growth is behind the end
	} {
		gap, ended, open := longestGap(c.times, at(c.from)[0], at(c.to)[0])
		if gap.Milliseconds() != int64(c.gap) || !ended.Equal(at(c.ended)[0]) || open != c.open {
			t.Errorf("%v from %d to %d: %v, ended %v, open %v", c.times, c.from, c.to, gap, ended.Sub(zero), open)
		}
	}
}

// TestProgressOfBuilders holds that data files count for their builder unit, and nothing else does.
func TestProgressOfBuilders(t *testing.T) {
	for name, want := range map[string]int{
		"bu0-00001.mep": 0, "bu12-00003.mep.open": 12, "bu1-00001.idx": -1, "run.json": -1, "bu-1.mep": -1, "bux-1.mep": -1,
	} {
		bu, ok := builderOfFile(name)
		if ok != (want >= 0) || ok && bu != want {
			t.Errorf("%s: builder unit %d, %v", name, bu, ok)
		}
	}
}

// TestSentence holds that the first sentence about a victim is found in the log of a control, and none of before.
func TestSentence(t *testing.T) {
	const log = `time=2026-11-29T08:37:50.000Z level=WARN msg="the run goes on without n2: an old story" run=1
time=2026-11-29T08:37:53.100Z level=INFO msg="n2 said something"
time=2026-11-29T08:37:53.200Z level=WARN msg="two nodes under one name" node=control name=n2 unreported=0
time=2026-11-29T08:37:53.397Z level=WARN msg="the run goes on without n2: its process was killed by \"9\"." run=1
time=2026-11-29T08:37:54.000Z level=WARN msg="a node was told to end" node=n3 what="n3 was told to end: it left"
time=2026-11-29T08:37:57.720Z level=WARN msg="a node is back in the run" node=n2 whole_from_mep=1548
`
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	since := time.Date(2026, 11, 29, 8, 37, 53, 0, time.UTC)
	for victim, want := range map[string]string{
		"n2": `the run goes on without n2: its process was killed by "9".`,
		"n3": "n3 was told to end: it left",
		"n4": "",
	} {
		if got := sentence(file, since, []string{victim}); got != want {
			t.Errorf("of %s: %q", victim, got)
		}
	}
	if lost, back := returns(file, since, []string{"n2", "n3"}); lost != 1 || back != 1 {
		t.Errorf("%d were lost, %d came back", lost, back)
	}
}

// TestStandstillOfReadouts holds that others may wait for a readout unit that stands still, until it goes on or its
// links are given up, and not for a builder unit.
func TestStandstillOfReadouts(t *testing.T) {
	for _, c := range []struct {
		what happening
		who  role
		most time.Duration
	}{
		{happenStop1, roleReadout, 1500 * time.Millisecond},
		{happenStop1, roleTwo, 1500 * time.Millisecond},
		{happenStop10, roleFolded, 5 * time.Second},
		{happenStop10, roleBuilder, 500 * time.Millisecond},
		{happenKill, roleFolded, time.Second},
	} {
		r := faultRow{placeRun, "free", c.what, c.who}
		if got := r.right().Standstill; got != c.most {
			t.Errorf("%v: the others may stand still for %v, not %v", r, got, c.most)
		}
	}
}
