package main

import (
	"fmt"
	"slices"
	"strings"
)

// A unitLayout says which node has which units: readout units are on the first nodes, builder units on the last, as the
// program places them.
type unitLayout struct {
	nodes, rus, bus int
	decision        string // node with the decision unit, with or without other units; empty: there is none
	scheduler       string
}

func name(i int) string { return fmt.Sprintf("n%d", i) }

func names(from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, name(i))
	}
	return out
}

func (s unitLayout) members() []string  { return names(0, s.nodes) }
func (s unitLayout) readouts() []string { return names(0, s.rus) }
func (s unitLayout) builders() []string { return names(s.nodes-s.bus, s.nodes) }

// isRole says whether the second word of a kind of fault says which nodes it strikes.
func (s unitLayout) isRole(word string) bool {
	return slices.Contains([]string{"builder", "readout", "folded", "scheduler", "decision", "spare"}, word)
}

// nodesOf are the nodes of a role; builder and readout are those without the other unit, spare are those without any.
func (s unitLayout) nodesOf(role string) []string {
	rus, bus := s.readouts(), s.builders()
	without := func(from, without []string) []string {
		return slices.DeleteFunc(slices.Clone(from), func(n string) bool { return slices.Contains(without, n) })
	}
	folded := without(rus, without(rus, bus))
	switch role {
	case "builder":
		return without(bus, rus)
	case "readout":
		return without(rus, bus)
	case "folded":
		return folded
	case "scheduler":
		return []string{s.scheduler}
	case "decision":
		return slices.DeleteFunc([]string{s.decision}, func(n string) bool { return n == "" })
	}
	return names(s.nodes, nodeCount)
}

// unitLayouts of five nodes: units apart, folded, some of each, with spare nodes, and with the decision unit alone.
var unitLayouts = []unitLayout{
	{nodes: 5, rus: 2, bus: 3},
	{nodes: 5, rus: 3, bus: 2},
	{nodes: 5, rus: 1, bus: 4},
	{nodes: 5, rus: 5, bus: 5},
	{nodes: 4, rus: 4, bus: 4},
	{nodes: 5, rus: 3, bus: 4},
	{nodes: 4, rus: 2, bus: 2},
	{nodes: 3, rus: 3, bus: 3},
	{nodes: 5, rus: 2, bus: 2, decision: "n2"},
}

func (d *dice) shape() unitLayout {
	s := unitLayouts[d.IntN(len(unitLayouts))]
	s.scheduler = name(0)
	if d.chance(40) {
		s.scheduler = name(d.IntN(s.nodes))
	}
	if s.decision == "" && d.chance(25) {
		s.decision = name(d.IntN(s.nodes))
	}
	return s
}

// drawSettings draws the settings of a run.
func (d *dice) drawSettings(s unitLayout, env env) (set []string, p policy) {
	add := func(name string, value any) { set = append(set, fmt.Sprintf("%s=%v", name, value)) }
	d.addCommonSettings(s, add)
	d.addDataSettings(s, add)
	p = d.addDisciplineSettings(s, add)
	d.addFilterSettings(s, p, add)
	d.network(env, add)
	p.Durability = d.pick("memory", "file", "file", "disk")
	add("durability", p.Durability)
	add("format", d.pick("mep", "mdf"))
	add("segment-size", d.pick("1MiB", "4MiB", "64MiB"))
	add("segment-time", d.pick("1s", "2s", "10s", "10m"))
	add("verify", d.pick("crc", "full"))
	return set, p
}

// wildLosses draws the policies of a run that its faults may end.
func (d *dice) wildLosses(s unitLayout, place outputPlace) (set []string) {
	add := func(name string, value any) { set = append(set, fmt.Sprintf("%s=%v", name, value)) }
	atLeast := func(n, of int) string { return fmt.Sprintf("at-least %d of %d", max(1, n), of) }
	add("builder-loss", d.pick("essential", atLeast(1, s.bus), atLeast(s.bus-1, s.bus), "expendable"))
	add("readout-loss", d.pick("essential", "essential", atLeast(s.rus-1, s.rus), "expendable"))
	if d.chance(15) {
		add("recovery", "2 in 1m")
	}
	if s.nodes < nodeCount && place == sharedFiles && d.chance(30) {
		add("spares", "auto")
	}
	return set
}

// addCommonSettings draws the settings of a run of every plan: the units, no end by itself, and a seed.
func (d *dice) addCommonSettings(s unitLayout, add func(string, any)) {
	add("nodes", s.nodes)
	add("rus", s.rus)
	add("bus", s.bus)
	add("tagnet-node", s.scheduler)
	add("duration", "0s")
	add("seed", 1+d.Uint64N(1<<32))
}

// addDataSettings draws 2 to 12 MB a second in 20 to 200 MEPs, so that reading a run of some seconds is fast.
func (d *dice) addDataSettings(s unitLayout, add func(string, any)) {
	sources, size := s.rus+d.IntN(2*s.rus+1), 20+d.IntN(400) // mostly no multiple of the units
	event := sources * (size + 16)
	rate := (2_000_000 + d.IntN(10_000_000)) / event
	add("sources", sources)
	add("fragment-size", size)
	add("fragment-model", d.pick("lhcb", "poisson", "constant"))
	add("rate", rate)
	add("packing", max(1, rate/(20+d.IntN(180))))
}

// addDisciplineSettings draws a discipline and its settings.
func (d *dice) addDisciplineSettings(s unitLayout, add func(string, any)) (p policy) {
	discipline := d.pick("shift", "shift", "push", "tagring", "tagring-wait", "pull", "free")
	add("discipline", discipline)
	switch discipline {
	case "shift":
		p.Succession = true
		end := d.pick("none", "central", "tournament", "dissemination")
		add("phase-end", end)
		if end != "none" && d.chance(50) { // else the default, which depends on the hosts
			add("phase-slack", d.pick("0", "1", "3"))
		}
	case "free":
		p.Succession = true
	case "push": // its readout units assign MEPs by number: no other rule goes with it
		return p
	case "pull":
		p.Succession = true
		if s.rus > 1 && d.chance(30) {
			p.RoI = true
			add("roi", "0:0.5")
		}
	}
	if d.chance(30) {
		add("empty-place", d.pick("wait", "skip"))
	}
	if !p.RoI && d.chance(10) {
		p.Overload = "discard"
		add("overload", p.Overload)
		add("slots", 8)
		add("debug.look-ahead", 8)
	}
	if d.chance(30) {
		add("next", "demand")
	}
	return p
}

// addFilterSettings draws a filter and a decision unit for some runs; no event is dropped by them.
func (d *dice) addFilterSettings(s unitLayout, p policy, add func(string, any)) {
	if !p.RoI && d.chance(30) {
		add("filter", "share:0.3")
	}
	if s.decision == "" {
		return
	}
	add("decision-node", s.decision)
	if d.chance(50) {
		add("decision-timeout", d.pick("5ms", "100ms", "2s"))
	}
}

// network draws a carrier, mostly one over a network, since the others have no packets to lose.
func (d *dice) network(env env, add func(string, any)) {
	carriers := []string{
		"quic", "quic", "quic", "quic", "quic-go", "quic-go", "stream", "stream",
		"local", "auto", "local+quic-go", "local+stream",
	}
	t := carriers[d.IntN(len(carriers))]
	add("transport", t)
	if !env.Network && (t == "quic" || t == "quic-go") && d.chance(30) {
		add("debug.drop", "0.02") // the only loss of packets without a network namespace
	}
}

// summary is the main settings in a line of the log.
func (r plannedRun) summary() string {
	v := map[string]string{}
	for _, s := range r.Settings {
		name, value, _ := strings.Cut(s, "=")
		v[name] = value
	}
	judged := ""
	if v["filter"] != "" {
		judged = ", filter"
	}
	if v["decision-node"] != "" {
		judged += ", decisions on " + v["decision-node"]
	}
	kept := string(r.Place)
	if r.Place != nowhere {
		kept += ", " + v["durability"] + ", " + v["format"]
	}
	if v["spares"] != "" {
		judged += ", spares"
	}
	if r.MustGoOn {
		judged += ", must go on"
	}
	return fmt.Sprintf("%s %s, %s+%s on %s, %s, %s+%s%s", v["discipline"], v["transport"], v["rus"], v["bus"], v["nodes"],
		kept, v["readout-loss"], v["builder-loss"], judged)
}
