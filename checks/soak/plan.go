package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// nodeCount of the cluster: n0 to n4.
const nodeCount = 5

// env is what the machine and the flags allow. A plan depends on it: repeat a run with the same env.
type env struct {
	Network bool   // hosts are network namespaces: their cables can be pulled
	Filter  bool   // the switch between them can drop and delay packets
	Mounts  bool   // each host has its own files, and disks can be filled
	Short   bool   // runs are short, for a check of a minute
	Chain   bool   // the plan of the chain
	Pauses  bool   // the plan of the pauses
	Hostile bool   // one hostile run
	Faults  bool   // the table of faults
	Python  string // interpreter for a user's filters; empty: there is none
}

// A kind of fault; the summary lists faults by this text.
type kind string

// Kinds of faults. kill is SIGKILL, stop is SIGSTOP until SIGCONT, term is SIGTERM; the second word is a unit of the
// process that gets the signal. A process that has ended is restarted at once.
const (
	killBuilder   kind = "kill builder"
	killReadout   kind = "kill readout"
	killScheduler kind = "kill scheduler"
	killFolded    kind = "kill folded" // a node with both units
	killTwo       kind = "kill two"    // nodes at the same moment
	killSpare     kind = "kill spare"  // a node that is no member; it may have a member's units
	killDecision  kind = "kill decision"
	killFilter    kind = "kill filter"
	killControl   kind = "kill control"
	killEverybody kind = "kill all"
	stopBuilder   kind = "stop builder"
	stopReadout   kind = "stop readout"
	stopScheduler kind = "stop scheduler"
	stopFolded    kind = "stop folded"
	stopTwo       kind = "stop two"
	stopDecision  kind = "stop decision"
	stopControl   kind = "stop control"
	termBuilder   kind = "term builder"
	termReadout   kind = "term readout"
	termScheduler kind = "term scheduler"
	termFolded    kind = "term folded"
	termDecision  kind = "term decision"
	termControl   kind = "term control"
	exclude       kind = "exclude" // and include afterwards
	move          kind = "move"    // the units of a node to a spare, and back
	cut           kind = "cut"     // a host, both ways
	cutIn         kind = "cut in"  // what is sent to a host
	cutOut        kind = "cut out" // what a host sends
	cutPair       kind = "cut one way"
	cutControl    kind = "cut control" // the host of the control, both ways
	loss          kind = "loss"
	reorder       kind = "reorder"
	shrink        kind = "shrink" // full packets of UDP vanish
	reset         kind = "reset"  // every packet of TCP is answered with a reset
	diskFull      kind = "disk full"
)

// A fault begins At after the command start, and ends Duration later; Duration is zero for an instantaneous fault.
type fault struct {
	Kind            kind
	At, Duration    time.Duration
	Node            string // node with the fault; empty for the control, and for all
	Second          string // with killTwo and stopTwo: the other node; with move: the spare
	UnreachablePeer string // with cutPair: node that Node cannot reach
	Percent         int    // of packets, with loss and reorder
}

// String is the fault in a line of the log.
func (f fault) String() string {
	out := string(f.Kind)
	if f.Node != "" {
		out += " " + f.Node
	}
	if f.Second != "" {
		out += " " + f.Second
	}
	if f.UnreachablePeer != "" {
		out += " to " + f.UnreachablePeer
	}
	if f.Percent != 0 {
		out += fmt.Sprintf(" %d %%", f.Percent)
	}
	out += " at " + formatDuration(f.At)
	if f.Duration != 0 {
		out += " for " + formatDuration(f.Duration)
	}
	return out
}

func formatDuration(d time.Duration) string { return d.Round(10 * time.Millisecond).String() }

// plannedRun is one run of the plan.
type plannedRun struct {
	Index      int
	Layout     unitLayout
	Settings   []string // name=value, as load takes them
	Place      outputPlace
	Policy     policy
	FilterName string        // name of filter processes; empty: there are none
	Length     time.Duration // time after which it is stopped; if it must go on, when the struck are back
	Faults     []fault       // by time
	MustGoOn   bool          // its policies bear its faults
}

// policy is the settings that the judge must know.
type policy struct {
	Durability string // memory, file, disk
	Overload   string // discard: events may be lost on purpose
	RoI        bool   // events may be rejected on purpose
	Succession bool   // another node can take over the scheduler
	// how many units may be lost at the same time, of a run that must go on
	ReadoutsLost, BuildersLost int
}

// A place of an output.
type outputPlace string

// Places. Each is a directory of the same path on every host.
const (
	sharedFiles    outputPlace = "shared" // the same files on every host
	perHostFiles   outputPlace = "own"    // different files on each host
	smallDiskFiles outputPlace = "small"  // the same on a small disk, which a fault can fill
)

// planRun makes the run of this index. It depends on its arguments alone.
func planRun(seed uint64, index int, env env) plannedRun {
	if env.Chain {
		return planChain(seed, index, env)
	}
	if env.Pauses {
		return planPauses(seed, index, env)
	}
	d := &dice{rand.New(rand.NewPCG(seed, uint64(index)))}
	r := plannedRun{Index: index, Length: d.between(2500*time.Millisecond, 6500*time.Millisecond)}
	if env.Short {
		r.Length = d.between(1500*time.Millisecond, 3*time.Second)
	}
	r.Layout = d.shape()
	goOn := index%faultlessEvery != 0 && d.chance(goingOnPercent)
	var kinds []kind
	if index%faultlessEvery != 0 && !goOn {
		kinds = d.kinds(env, r.Layout)
	}
	r.Place = d.place(env, kinds)
	r.Settings, r.Policy = d.drawSettings(r.Layout, env)
	if goOn {
		d.goOn(&r, env)
	} else {
		r.Settings = append(r.Settings, d.wildLosses(r.Layout, r.Place)...)
	}
	for _, k := range kinds {
		r.Faults = append(r.Faults, d.fault(k, r.Layout, r.Length))
	}
	slices.SortStableFunc(r.Faults, func(a, b fault) int { return int(a.At - b.At) })
	return r
}

// mustEndGood says whether the run must end GOOD: it must tolerate all its faults.
func (r plannedRun) mustEndGood() bool {
	return !slices.ContainsFunc(r.Faults, func(f fault) bool { return !f.mustBeTolerated() })
}

// mustBeTolerated says whether a run must tolerate the fault without any loss and still end GOOD.
func (f fault) mustBeTolerated() bool {
	switch f.Kind {
	case killControl, termControl, reorder:
		return true
	case stopControl, cutControl:
		return f.Duration <= time.Second
	case loss:
		return f.Percent <= 5
	case cut, cutIn, cutOut, cutPair, reset:
		return f.Duration <= 300*time.Millisecond
	case stopBuilder, stopReadout, stopFolded, stopTwo, stopScheduler, stopDecision:
		return f.Duration <= 300*time.Millisecond
	case killSpare: // it has units only after another fault
		return true
	}
	return false
}

// faultWeights are the relative frequencies of the kinds.
var faultWeights = []struct {
	kind                   kind
	weight                 int
	network, filter, mount bool // needs a network, a filter in it, mounts
}{
	{kind: killBuilder, weight: 8}, {kind: killReadout, weight: 6}, {kind: killFolded, weight: 12},
	{kind: killScheduler, weight: 8}, {kind: killTwo, weight: 5}, {kind: killSpare, weight: 5},
	{kind: killControl, weight: 5}, {kind: killEverybody, weight: 1},
	{kind: stopBuilder, weight: 4}, {kind: stopReadout, weight: 4}, {kind: stopFolded, weight: 6},
	{kind: stopScheduler, weight: 4}, {kind: stopTwo, weight: 3}, {kind: stopControl, weight: 2},
	{kind: termBuilder, weight: 4}, {kind: termReadout, weight: 3}, {kind: termFolded, weight: 6},
	{kind: termScheduler, weight: 1}, {kind: termControl, weight: 2},
	{kind: exclude, weight: 5}, {kind: move, weight: 8},
	{kind: killDecision, weight: 8}, {kind: stopDecision, weight: 6}, {kind: termDecision, weight: 2},
	{kind: cut, weight: 4, network: true},
	{kind: cutIn, weight: 3, filter: true}, {kind: cutOut, weight: 3, filter: true},
	{kind: cutPair, weight: 4, filter: true}, {kind: cutControl, weight: 2, network: true},
	{kind: loss, weight: 4, filter: true}, {kind: reorder, weight: 4, filter: true},
	{kind: shrink, weight: 3, filter: true}, {kind: reset, weight: 4, filter: true},
	{kind: diskFull, weight: 4, mount: true},
}

// dice are the random numbers of a plan.
type dice struct{ *rand.Rand }

func (d *dice) between(from, to time.Duration) time.Duration { return from + d.durationUpTo(to-from) }
func (d *dice) durationUpTo(most time.Duration) time.Duration {
	return time.Duration(d.Int64N(int64(most) + 1))
}
func (d *dice) pick(choices ...string) string { return choices[d.IntN(len(choices))] }
func (d *dice) chance(percent int) bool       { return d.IntN(100) < percent }

// faultlessEvery: one run of the plan in faultlessEvery has no fault.
const faultlessEvery = 8

// kinds draws up to four faults.
func (d *dice) kinds(env env, s unitLayout) []kind {
	all := d.possibleKinds(env, s)
	out := make([]kind, 1+d.IntN(4))
	for i := range out {
		out[i] = all[d.IntN(len(all))]
	}
	return out
}

// possibleKinds are the kinds that can be made, each as often as its weight.
func (*dice) possibleKinds(env env, s unitLayout) (all []kind) {
	for _, w := range faultWeights {
		_, who, _ := strings.Cut(string(w.kind), " ")
		nobody := s.isRole(who) && len(s.nodesOf(who)) == 0 || w.kind == move && s.nodes == nodeCount
		if w.network && !env.Network || w.filter && !env.Filter || w.mount && !env.Mounts || nobody {
			continue
		}
		all = append(all, slices.Repeat([]kind{w.kind}, w.weight)...)
	}
	return all
}

func (d *dice) place(env env, kinds []kind) outputPlace {
	switch {
	case slices.Contains(kinds, diskFull):
		return smallDiskFiles
	case slices.Contains(kinds, move): // the spare is to write to the same files
		return sharedFiles
	case env.Mounts && d.chance(50):
		return perHostFiles
	}
	return sharedFiles
}

// fault draws when a fault of kind k comes in a run of that length, how long it lasts, and which node it hits.
func (d *dice) fault(k kind, s unitLayout, length time.Duration) fault {
	f := fault{Kind: k, At: d.durationUpTo(length + 300*time.Millisecond)}
	_, who, _ := strings.Cut(string(k), " ")
	switch {
	case s.isRole(who):
		f.Node = d.pick(s.nodesOf(who)...)
	case who == "filter":
		f.Node = d.pick("filter0", "filter1")
	case who == "two":
		two := d.Perm(s.nodes)
		f.Node, f.Second = name(two[0]), name(two[1])
	}
	switch k {
	case stopBuilder, stopReadout, stopFolded, stopTwo, stopScheduler, stopDecision, stopControl, cutControl:
		f.Duration = d.drawOutage()
	case exclude:
		f.Node, f.Duration = d.pick(s.builders()...), d.between(200*time.Millisecond, 2*time.Second)
	case move:
		f.Node, f.Duration = d.pick(s.members()...), d.between(time.Second, 6*time.Second)
		f.Second = d.pick(s.nodesOf("spare")...)
	case diskFull:
		f.Node, f.Duration = d.pick(s.builders()...), d.between(300*time.Millisecond, 3*time.Second)
	case cut, cutIn, cutOut, cutPair, reset, shrink:
		f.Node, f.Duration = d.pick(s.members()...), d.drawOutage()
	case loss, reorder:
		f.Node, f.Duration, f.Percent = d.pick(s.members()...), d.between(500*time.Millisecond, 3*time.Second), 1+d.IntN(5)
	}
	if k == cutPair {
		f.UnreachablePeer = d.pick(slices.DeleteFunc(s.members(), func(n string) bool { return n == f.Node })...)
	}
	return f
}

// drawOutage draws how long a fault cuts a process or a host off: mostly less than 2 s; in three of ten cases 2 to 7 s,
// which can be longer than links, gossip or run control tolerate.
func (d *dice) drawOutage() time.Duration {
	switch d.IntN(10) {
	case 0, 1, 2, 3:
		return d.between(10*time.Millisecond, 300*time.Millisecond)
	case 4, 5, 6:
		return d.between(300*time.Millisecond, 2*time.Second)
	default:
		return d.between(2*time.Second, 7*time.Second)
	}
}
