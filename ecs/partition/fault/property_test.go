package fault

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ringlet/node/config"
)

// play is a run in which some nodes truly break, and those say whatever they like.
type play struct {
	t       *rapid.T
	core    *Core
	units   []Unit
	now     time.Time
	broken  map[string]bool
	stalled map[string]bool // they stand still now
	struck  bool
	out     []string // lost, in order
}

// TestNobodyInnocent holds, for any set of nodes that truly break and any words of nodes that are lost or that stood
// still: nobody else is lost or blamed, and no run ends that its policy would have kept.
func TestNobodyInnocent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPlay(t)
		soundReadouts, soundBuilders := 0, 0 // that stay
		for _, u := range p.units {
			if p.broken[u.Node] {
				continue
			}
			if u.Readout {
				soundReadouts++
			} else {
				soundBuilders++
			}
		}
		rus := soundReadouts + count(p.broken, "r")
		bus := soundBuilders + count(p.broken, "b")
		reading := config.LossPolicy{MinUnits: rapid.IntRange(1, rus).Draw(t, "least readout units")}
		builders := config.LossPolicy{MinUnits: rapid.IntRange(1, bus).Draw(t, "least builder units")}
		p.core.SetView(p.units, "", reading, builders)
		p.core.BeginRun()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			p.step()
		}
		tolerated := (soundReadouts == rus || reading.Tolerates(soundReadouts)) &&
			(soundBuilders == bus || builders.Tolerates(soundBuilders))
		if p.struck && tolerated {
			t.Fatalf("the run ends for %v, without %v", p.core.Cause(p.now), p.out)
		}
		p.checkGuilt()
	})
}

func count(names map[string]bool, of string) (n int) {
	for name := range names {
		if strings.HasPrefix(name, of) {
			n++
		}
	}
	return n
}

// checkGuilt checks who is at fault.
func (p *play) checkGuilt() {
	for _, x := range p.core.Losses() {
		p.mustBeBroken(x.Component, "lost")
	}
	for _, name := range p.out {
		p.mustBeBroken(name, "taken out")
	}
	if f := p.core.Cause(p.now); f != nil {
		for name := range strings.SplitSeq(f.Component, ", ") {
			if !strings.HasPrefix(name, "the link between") { // one end has broken: the other says so alone
				p.mustBeBroken(name, "the cause")
			}
		}
	}
}

func (p *play) mustBeBroken(name, how string) {
	if !p.broken[name] {
		p.t.Fatalf("%s is %s, and has not broken; %v have", name, how, p.broken)
	}
}

func newPlay(t *rapid.T) *play {
	op := config.Operation{Silence: rapid.SampledFrom([]time.Duration{2, 5, 20}).Draw(t, "silence") * time.Second}
	p := &play{t: t, core: New(false, op.Timeouts()), now: time.Unix(1000, 0), broken: map[string]bool{},
		stalled: map[string]bool{}}
	rus, bus := rapid.IntRange(1, 4).Draw(t, "readout units"), rapid.IntRange(1, 4).Draw(t, "builder units")
	for i := range rus + bus {
		u := Unit{Node: fmt.Sprintf("r%d", i), Readout: i < rus, Builder: i >= rus}
		if u.Builder {
			u.Node = fmt.Sprintf("b%d", i)
		}
		p.units = append(p.units, u)
		p.core.NoteReport(u.Node, p.now, false)
		if rapid.Bool().Draw(t, u.Node+" breaks") {
			p.broken[u.Node] = true
		}
	}
	return p
}

// pick draws a node for which a condition holds; empty if there is none.
func (p *play) pick(what string, of func(name string) bool) string {
	var names []string
	for _, u := range p.units {
		if of(u.Node) {
			names = append(names, u.Node)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return rapid.SampledFrom(names).Draw(p.t, what)
}

func (p *play) observe(x Observation) {
	act, f := p.core.Observe(x)
	switch act {
	case EndRun:
		p.struck = true
	case LoseUnit:
		p.out = append(p.out, f.Component)
	default:
	}
}

// step is half a second, in which everybody tells who does not stand still, and then one event.
func (p *play) step() {
	for range 3 {
		p.now = p.now.Add(200 * time.Millisecond)
		p.core.AwakeTime(p.now)
	}
	for _, u := range p.units {
		if !p.stalled[u.Node] {
			p.core.NoteReport(u.Node, p.now, false)
		}
	}
	switch rapid.IntRange(0, 3).Draw(p.t, "event") {
	case 0:
		p.stall()
	case 1:
		p.wake()
	case 2:
		p.observeStalled()
	default:
		p.lie(p.pick("a lost node", func(name string) bool { return p.core.PresenceOf(name).Lost }))
	}
}

// stall has a node stand still, or its process end.
func (p *play) stall() {
	if name := p.pick("stands still", func(name string) bool { return p.broken[name] }); name != "" {
		p.stalled[name] = true
	}
}

// wake has a node wake that stood still for some time; it may speak before anybody else does.
func (p *play) wake() {
	name := p.pick("wakes", func(name string) bool {
		return p.stalled[name] && p.now.Sub(p.core.nodes[name].lastReport) > p.core.timeouts.Missed+time.Second
	})
	if name == "" {
		return
	}
	p.stalled[name] = false
	p.core.NoteReport(name, p.now, false)
	p.lie(name)
}

// observeStalled has somebody sound see a node that stands still, in one of the ways there are.
func (p *play) observeStalled() {
	name := p.pick("is missed", func(name string) bool { return p.stalled[name] })
	by := p.pick("by", func(name string) bool { return !p.broken[name] })
	if name == "" {
		return
	}
	x := Observation{Fault: SeenByControl(name, SubsystemTransport, "it is missed")}
	x.Kind = rapid.SampledFrom([]Kind{ProcessEndSeen, ProcessVanished, Disconnected, SilentToControl}).Draw(p.t, "kind")
	if x.Kind == Disconnected && by != "" && rapid.Bool().Draw(p.t, "by a node") {
		x.ReportedBy = by
	}
	p.observe(x)
}

// lie has a node say anything of anybody.
func (p *play) lie(by string) {
	if by == "" {
		return
	}
	x := Observation{ReportedBy: by, LinkClosed: rapid.Bool().Draw(p.t, "closed")}
	x.Kind = rapid.SampledFrom([]Kind{Disconnected, ReportedByPeer}).Draw(p.t, "kind of lie")
	about := p.pick("about", func(string) bool { return true })
	subsystem := rapid.SampledFrom([]string{SubsystemTransport, "barrier", SubsystemScheduler, subsystemOutput}).Draw(p.t,
		"part")
	x.Fault = SeenByControl(about, subsystem, "it is at fault")
	if about == by {
		x.Kind = SelfReported
	}
	p.observe(x)
	if p.struck && !slices.ContainsFunc(p.core.fatalObservations,
		func(s Observation) bool { return p.broken[s.Component] }) {
		p.t.Fatalf("%s ends the run by its word on %s", by, about)
	}
}
