package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A place says how a row's run is started.
type faultPlace string

// Places: by `ringlet run` on loopback, or by `ringlet control` and `ringlet node` on hosts of their own.
const (
	placeRun   faultPlace = "run"
	placeHosts faultPlace = "hosts"
)

// A happening is what a row does to processes or hosts.
type happening string

// Happenings. A process that was killed is started again after 0.1 s, as a service manager does; one that was told to
// end by term stays away, as of a host that is drained.
const (
	happenKill     happening = "kill"
	happenStop1    happening = "stop 1 s"
	happenStop10   happening = "stop 10 s"
	happenTerm     happening = "SIGTERM"
	happenRestart  happening = "restart" // SIGTERM, and a new process when it has ended
	happenCut      happening = "host cut 8 s"
	happenCutSoon  happening = "host cut 8 s with silence 2 s"
	happenDiskFull happening = "disk full 8 s"
)

// duration is how long it lasts; 0 of what is over at once.
func (h happening) duration() time.Duration {
	switch h {
	case happenStop1:
		return time.Second
	case happenStop10:
		return 10 * time.Second
	case happenCut, happenCutSoon, happenDiskFull:
		return 8 * time.Second
	}
	return 0
}

// silence is the setting of that name in the run.
func (h happening) silence() time.Duration {
	if h == happenCutSoon {
		return 2 * time.Second
	}
	return 5 * time.Second // the default
}

// A role says whom a row strikes.
type role string

// Roles. With a folded node, the scheduler is on another one.
const (
	roleReadout   role = "readout unit"
	roleBuilder   role = "builder unit"
	roleFolded    role = "folded node"
	roleScheduler role = "scheduler's node"
	roleControl   role = "control"
	roleDecision  role = "decision unit"
	roleTwo       role = "two folded nodes"
	roleHeads     role = "scheduler's node and control"
)

// A faultRow is a row of the table of faults.
type faultRow struct {
	Place      faultPlace
	Discipline string
	What       happening
	Who        role
}

func (r faultRow) String() string {
	return fmt.Sprintf("%s, %s: %s, %s", r.Place, r.Discipline, r.What, r.Who)
}

// otherDisciplines are those that the table strikes by kill and stop alone.
var otherDisciplines = []string{"push", "free", "pull", "tagring", "tagring-wait"}

// faultRows are all rows, in the order of the table.
func faultRows(withHosts bool) (rows []faultRow) {
	add := func(place faultPlace, discipline string, what happening, who ...role) {
		for _, w := range who {
			rows = append(rows, faultRow{place, discipline, what, w})
		}
	}
	units := []role{roleReadout, roleBuilder, roleFolded}
	for _, what := range []happening{happenKill, happenStop1, happenStop10, happenTerm} {
		add(placeRun, "shift", what, append(slices.Clone(units), roleDecision, roleTwo)...)
	}
	if withHosts {
		everyone := append(slices.Clone(units), roleScheduler, roleControl, roleDecision, roleTwo, roleHeads)
		for _, what := range []happening{happenKill, happenStop1, happenStop10, happenTerm, happenRestart, happenCut} {
			add(placeHosts, "shift", what, everyone...)
		}
		add(placeHosts, "shift", happenCutSoon, roleReadout, roleBuilder, roleFolded, roleScheduler, roleTwo)
		add(placeHosts, "shift", happenDiskFull, roleBuilder, roleFolded, roleTwo)
	}
	for _, discipline := range otherDisciplines {
		for _, what := range []happening{happenKill, happenStop1, happenStop10} {
			add(placeRun, discipline, what, units...)
		}
	}
	return rows
}

// A faultCase is a row with the run in which it happens.
type faultCase struct {
	faultRow
	Layout  unitLayout
	Victims []string // names of processes
}

// stage makes the case of a row: five nodes, of which one or two are struck.
func (r faultRow) stage() faultCase {
	folded := unitLayout{nodes: nodeCount, rus: nodeCount, bus: nodeCount, scheduler: name(0)}
	apart := unitLayout{nodes: nodeCount, rus: 2, bus: 3, scheduler: name(0)}
	switch r.Who {
	case roleReadout:
		return faultCase{r, apart, []string{name(1)}}
	case roleBuilder:
		return faultCase{r, apart, []string{name(3)}}
	case roleScheduler:
		return faultCase{r, folded, []string{folded.scheduler}}
	case roleControl:
		return faultCase{r, folded, []string{controlName}}
	case roleDecision:
		apart.bus, apart.decision = 2, name(2)
		return faultCase{r, apart, []string{apart.decision}}
	case roleTwo:
		return faultCase{r, folded, []string{name(2), name(3)}}
	case roleHeads:
		return faultCase{r, folded, []string{folded.scheduler, controlName}}
	}
	return faultCase{r, folded, []string{name(3)}}
}

// settings of the run: 200 MEPs a second, so that a gap of a tenth of a second shows. The policies tolerate the loss of
// what is struck, and of no more.
func (c faultCase) settings() (set []string) {
	add := func(name string, value any) { set = append(set, fmt.Sprintf("%s=%v", name, value)) }
	s := c.Layout
	add("nodes", s.nodes)
	add("rus", s.rus)
	add("bus", s.bus)
	add("tagnet-node", s.scheduler)
	if s.decision != "" {
		add("decision-node", s.decision)
	}
	add("discipline", c.Discipline)
	if c.What == happenCutSoon {
		add("silence", c.What.silence())
	}
	lost := 1
	if c.Who == roleTwo {
		lost = 2
	}
	add("readout-loss", fmt.Sprintf("at-least %d of %d", s.rus-lost, s.rus))
	add("builder-loss", fmt.Sprintf("at-least %d of %d", s.bus-lost, s.bus))
	add("duration", "10m") // it is stopped before
	add("sources", 2*s.rus)
	add("fragment-size", 40)
	add("packing", 20)
	add("rate", 4000)
	add("verify", "full")
	if c.Discipline == "push" {
		add("slots", 64) // who is back builds the MEPs behind all credits: with thousands of slots only 20 s later
	}
	return set
}

// readoutVictims and builderVictims are the nodes struck with a unit of the kind.
func (c faultCase) readoutVictims() []string { return c.struck(c.Layout.readouts()) }
func (c faultCase) builderVictims() []string { return c.struck(c.Layout.builders()) }

func (c faultCase) struck(nodes []string) []string {
	return slices.DeleteFunc(nodes, func(n string) bool { return !slices.Contains(c.Victims, n) })
}

// victimBuilders and otherBuilders are the indexes of the builder units that are struck, and of those that are not.
func (c faultCase) victimBuilders() []int { return c.builderIndexes(true) }
func (c faultCase) otherBuilders() []int  { return c.builderIndexes(false) }

func (c faultCase) builderIndexes(struck bool) (out []int) {
	for i, n := range c.Layout.builders() {
		if slices.Contains(c.Victims, n) == struck {
			out = append(out, i)
		}
	}
	return out
}

// A rightOutcome is what must be true of a row.
type rightOutcome struct {
	Standstill time.Duration // of the others at most, beside what they show without a fault
	ReturnTime time.Duration // until the struck are back, after the fault is over; 0: they do not come back
	Verdicts   []string
}

// Bounds of the issue that asked for this table: who stands still holds up nobody for longer than a quarter of a
// second; a scheduler is replaced 2 s after the end of its process; of a host of which nothing is heard, units are
// replaced 2 s after the silence that the run bears. For a readout unit that stands still the others wait by decision,
// since its fragments are needed, and in a tag ring for a builder unit, too, since a readout unit keeps a tag until its
// write has its outcome: until it goes on, or its links are given up, after nine tenths of that silence.
const (
	boundNothing   = 250 * time.Millisecond
	boundStop      = 500 * time.Millisecond
	boundProcess   = time.Second
	boundScheduler = 2 * time.Second
	boundReturn    = 15 * time.Second
)

// right is the right outcome of a row.
func (r faultRow) right() rightOutcome {
	out := rightOutcome{Standstill: boundProcess, ReturnTime: boundReturn, Verdicts: []string{"DEGRADED"}}
	switch r.What {
	case happenStop1:
		out.Standstill, out.Verdicts = boundStop, []string{"GOOD"}
	case happenStop10, happenDiskFull: // the units may wait, or be lost
		out.Standstill, out.Verdicts = boundStop, []string{"GOOD", "DEGRADED"}
	case happenCut, happenCutSoon:
		out.Standstill = r.What.silence() + boundScheduler
	case happenTerm:
		out.ReturnTime = 0
	}
	isWaitedFor := r.Who == roleReadout || r.Who == roleFolded || r.Who == roleTwo ||
		strings.HasPrefix(r.Discipline, "tagring")
	if isWaitedFor && (r.What == happenStop1 || r.What == happenStop10) {
		out.Standstill += min(r.What.duration(), r.What.silence()*9/10)
	}
	switch {
	case r.Who == roleControl:
		out.Standstill, out.Verdicts, out.ReturnTime = boundNothing, []string{"GOOD"}, 0
	case r.Who == roleScheduler || r.Who == roleHeads:
		if r.Who == roleHeads && r.What == happenTerm { // the node waits for the control, which comes back to stop the run
			out.Verdicts = []string{"GOOD", "DEGRADED"}
		}
		switch r.What {
		case happenStop10, happenCut, happenCutSoon:
			out.Standstill = r.What.silence() + boundScheduler
			if r.Who == roleHeads { // the control makes the successor when it is back
				out.Standstill += r.What.duration()
			}
		default:
			out.Standstill = boundScheduler
		}
	case r.Who == roleReadout && r.What == happenStop10:
		out.Verdicts = []string{"DEGRADED"}
	}
	return out
}

// A measuredRow is what was found in the run of a row.
type measuredRow struct {
	Standstill   time.Duration // the longest of any builder unit that was not struck
	Usual        time.Duration // the same before the fault
	ReturnTime   time.Duration // from the fault until the struck are back
	Back         bool          // they are back
	Verdict, End string
	Triggered    uint64
	Found        uint64 // events in the files, each once
	Missing      uint64 // fragments that lack in these events
	Lacking      []string
	Sentence     string // of the control; empty: it said nothing
	Problems     []string
}

// judge says what is wrong with a row.
func (c faultCase) judge(m *measuredRow) (wrong []string) {
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	wrong = append(wrong, m.Problems...)
	right := c.right()
	if !slices.Contains(right.Verdicts, m.Verdict) {
		add("the verdict is %s, and not %s", cmp.Or(m.Verdict, "missing"), strings.Join(right.Verdicts, " or "))
	}
	if !slices.Contains([]string{"stopped", "interrupted"}, m.End) {
		add("the run did not go on: its end is %q", m.End)
	}
	if bound := right.Standstill + 2*m.Usual; m.Standstill > bound {
		add("the others stood still for %s, and not %s at most", formatDuration(m.Standstill), formatDuration(bound))
	}
	if bound := c.What.duration() + right.ReturnTime; right.ReturnTime > 0 && (!m.Back || m.ReturnTime > bound) {
		add("what was struck is not back after %s", formatDuration(bound))
	}
	if m.Found < m.Triggered {
		add("%d events are lost", m.Triggered-m.Found)
	}
	for _, n := range m.Lacking {
		if !slices.Contains(c.readoutVictims(), n) {
			add("fragments of %s are missing, which nothing struck", n)
		}
	}
	if m.Verdict != "GOOD" && m.Sentence == "" {
		add("the control said nothing")
	}
	return wrong
}
