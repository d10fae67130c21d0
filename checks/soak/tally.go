package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// A tally is the content of the summary.
type tally struct {
	Seed                     uint64
	Surroundings             string
	Began                    time.Time
	Trials                   int
	Faults                   map[kind]int
	Verdicts                 map[string]int
	TrialsWithoutRun         int
	BuiltEvents, FoundEvents uint64 // events: reported as built; found in files, each once
	CheckedSeals             int    // checks of closed segments after later runs
	RecoveredLines           int    // lines of output of recover
	CompletedRecords         int    // runs whose record was completed when nodes were back
	NodeRestarts             int
	ControlRestarts          int
	Recoveries               int // from Error, or from any other state after a run, to Ready
	TimesToReady             []time.Duration
	WentOn                   int             // runs that had to go on, and were judged by that
	TimesToReturn            []time.Duration // of these, from the last fault until all was back
	ConfigureRetries         int             // tries of load or configure beyond the first
	RefusedCommands          int             // exclude and include that the control has refused
	Order                    decisionOrder   // decisions of all runs
	Attacks                  *attackTally    // nil: no hostile run
	Rows                     int             // of the table of faults
	Failures                 []failure
}

// A failure is a run of the plan with problems.
type failure struct {
	Index         int
	Problems      []string
	KeptDir       string // directory
	RepeatCommand string // command
}

func newTally(seed uint64, where string) *tally {
	return &tally{
		Seed:         seed,
		Surroundings: where,
		Began:        time.Now(),
		Faults:       map[kind]int{},
		Verdicts:     map[string]int{},
	}
}

// add counts a run of the plan.
func (t *tally) add(tr *trial) {
	t.Trials++
	for _, f := range tr.FaultsMade {
		t.Faults[f.Kind]++
	}
	for _, r := range tr.Runs {
		t.Verdicts[verdict(r)]++
		t.BuiltEvents += r.GetEventsBuilt()
	}
	if len(tr.Runs) == 0 {
		t.TrialsWithoutRun++
	}
	if tr.ConfigureTries > 0 {
		t.Recoveries++
		t.ConfigureRetries += tr.ConfigureTries - 1
		t.TimesToReady = append(t.TimesToReady, tr.TimeToReady)
	}
	if tr.TimeToReturn > 0 && tr.AllFaultsInRun {
		t.WentOn++
		t.TimesToReturn = append(t.TimesToReturn, tr.TimeToReturn)
	}
	t.RefusedCommands += len(tr.RefusedCommands)
	t.Order.Seen += tr.Order.Seen
	t.Order.Unseen += tr.Order.Unseen
}

// write prints the summary.
func (t *tally) write(w io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-11s "+format+"\n", append([]any{name}, args...)...)
	}
	line("soak", "seed %d, %v, %s", t.Seed, time.Since(t.Began).Round(time.Second), t.Surroundings)
	switch {
	case t.Attacks != nil:
		t.Attacks.write(line)
	case t.Rows == 0:
		t.figures(line)
	}
	for _, f := range t.Failures {
		line("FAILED", "plan %d of seed %d", f.Index, t.Seed)
		for _, p := range f.Problems {
			line("", "%s", p)
		}
		line("", "kept: %s", f.KeptDir)
		line("", "again: %s", f.RepeatCommand)
	}
	if len(t.Failures) == 0 {
		line("all well", "%d of %d", t.Trials, t.Trials)
	}
}

// figures prints the counts of faults, runs, events and recoveries.
func (t *tally) figures(line func(name, format string, args ...any)) {
	line("faults", "%s", summed(t.Faults))
	line("runs", "%s; %d times a fault struck before there was one", summed(t.Verdicts), t.TrialsWithoutRun)
	if t.Order.Seen == 0 {
		line("events", "%d reported as built, %d found", t.BuiltEvents, t.FoundEvents)
		line("segments", "looked at again later, and as they were: %d", t.CheckedSeals)
		line("", "lines of what recover did: %d; records that were completed when nodes were back: %d",
			t.RecoveredLines, t.CompletedRecords)
	} else {
		line("events", "%d reported as built", t.BuiltEvents)
		line("decisions", "%d seen, each once and in the order of events; %d events were decided while nobody had "+
			"connected, or not at all since the decision unit had died", t.Order.Seen, t.Order.Unseen)
	}
	if t.WentOn > 0 {
		line("went on", "%d whose policies bear their faults; all was back %s", t.WentOn, spread(t.TimesToReturn))
	}
	line("recoveries", "%d to Ready, %s; tries of load and configure beyond the first: %d",
		t.Recoveries, spread(t.TimesToReady), t.ConfigureRetries)
	line("", "started anew: nodes %d times, the control %d times; exclude or include refused: %d",
		t.NodeRestarts, t.ControlRestarts, t.RefusedCommands)
}

// summed is "5: GOOD 3, LOSSY 2".
func summed[K ~string](counts map[K]int) string {
	sum := 0
	var each []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		sum += counts[k]
		each = append(each, fmt.Sprintf("%s %d", k, counts[k]))
	}
	return fmt.Sprintf("%d: %s", sum, strings.Join(each, ", "))
}

// spread is the text for median and maximum.
func spread(of []time.Duration) string {
	if len(of) == 0 {
		return "none"
	}
	of = slices.Sorted(slices.Values(of))
	return fmt.Sprintf("in %s in the median, %s at most", formatDuration(of[len(of)/2]), formatDuration(of[len(of)-1]))
}
