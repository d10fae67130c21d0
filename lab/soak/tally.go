package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// A tally is what the summary says.
type tally struct {
	Seed         uint64
	Where        string
	Began        time.Time
	Trials       int
	Faults       map[kind]int
	Verdicts     map[string]int
	NoRun        int
	Built, Found uint64 // events: reported as built; found in files, each once
	Checked      int    // closed segments, again after every later run that was kept beside them
	Mended       int    // lines in which recover said what it did
	Completed    int    // runs whose record was completed when nodes were back
	Nodes        int    // started anew
	Controls     int    // started anew
	Recoveries   int    // from Error, or whatever a run ended in, to Ready
	Back         []time.Duration
	Again        int           // tries of load or configure beyond the first
	Refused      int           // exclude and include that the policy did not tolerate
	Order        decisionOrder // of the decisions of all runs
	Attacks      *attacks      // nil: there were none
	Failures     []failure
}

// A Failure is a run of the plan with a problem.
type failure struct {
	Index    int
	Problems []string
	Kept     string // directory
	Repeat   string // command
}

func newTally(seed uint64, where string) *tally {
	return &tally{
		Seed:     seed,
		Where:    where,
		Began:    time.Now(),
		Faults:   map[kind]int{},
		Verdicts: map[string]int{},
	}
}

// add counts a run of the plan.
func (t *tally) add(tr *trial) {
	t.Trials++
	for _, f := range tr.Made {
		t.Faults[f.Kind]++
	}
	for _, r := range tr.Runs {
		t.Verdicts[verdict(r)]++
		t.Built += r.GetEventsBuilt()
	}
	if len(tr.Runs) == 0 {
		t.NoRun++
	}
	if tr.Tries > 0 {
		t.Recoveries++
		t.Again += tr.Tries - 1
		t.Back = append(t.Back, tr.Back)
	}
	t.Refused += len(tr.Refused)
	t.Order.Seen += tr.Order.Seen
	t.Order.Unseen += tr.Order.Unseen
}

// write prints the summary.
func (t *tally) write(w io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-11s "+format+"\n", append([]any{name}, args...)...)
	}
	line("soak", "seed %d, %v, %s", t.Seed, time.Since(t.Began).Round(time.Second), t.Where)
	if t.Attacks != nil {
		t.Attacks.write(line)
	} else {
		t.figures(line)
	}
	for _, f := range t.Failures {
		line("FAILED", "plan %d of seed %d", f.Index, t.Seed)
		for _, p := range f.Problems {
			line("", "%s", p)
		}
		line("", "kept: %s", f.Kept)
		line("", "again: %s", f.Repeat)
	}
	if len(t.Failures) == 0 {
		line("all well", "%d of %d", t.Trials, t.Trials)
	}
}

// figures are what runs and faults came to.
func (t *tally) figures(line func(name, format string, args ...any)) {
	line("faults", "%s", summed(t.Faults))
	line("runs", "%s; %d times a fault struck before there was one", summed(t.Verdicts), t.NoRun)
	if t.Order.Seen == 0 {
		line("events", "%d reported as built, %d found", t.Built, t.Found)
		line("segments", "looked at again later, and as they were: %d", t.Checked)
		line("", "lines of what recover did: %d; records that were completed when nodes were back: %d",
			t.Mended, t.Completed)
	} else {
		line("events", "%d reported as built", t.Built)
		line("decisions", "%d seen, each once and in the order of events; %d events were decided while nobody had "+
			"connected, or not at all since the decision unit had died", t.Order.Seen, t.Order.Unseen)
	}
	line("recoveries", "%d to Ready, %s; tries of load and configure beyond the first: %d",
		t.Recoveries, spread(t.Back), t.Again)
	line("", "started anew: nodes %d times, the control %d times; exclude or include refused: %d",
		t.Nodes, t.Controls, t.Refused)
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

// spread is median and maximum.
func spread(of []time.Duration) string {
	if len(of) == 0 {
		return "none"
	}
	of = slices.Sorted(slices.Values(of))
	return fmt.Sprintf("in %s in the median, %s at most", short(of[len(of)/2]), short(of[len(of)-1]))
}
