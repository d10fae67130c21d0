package node_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ringlet/builderunit"
	"ringlet/testkit/cases"
	"ringlet/testkit/transcript"
)

// TestPullTranscripts plays the transcripts in testdata with a farm.
func TestPullTranscripts(t *testing.T) {
	transcript.Play(t, func(t *testing.T) transcript.Answer {
		p := &pullPlayer{t: t}
		return p.say
	})
}

type pullPlayer struct {
	t *testing.T
	f *farm
}

func (p *pullPlayer) say(command string) string {
	w := strings.Fields(command)
	switch {
	case w[0] == "farm":
		p.farm(w)
	case w[0] == "all" && w[1] == "read": // all read up to 6
		p.f.read(uint64(p.number(w[len(w)-1])))
	case w[0] == "show":
		p.show()
	case w[0] == "all" && w[1] == "write": // one part each, if it was asked for one
		for ru := range p.f.rus {
			p.write(ru)
		}
	case w[1] == "writes":
		p.write(p.number(w[0]))
	case w[1] == "goes" && w[2] == "on":
		if bu := p.number(w[0]); len(p.f.bus[bu].progressed) == 0 {
			p.f.say("bu%d waits for parts", bu)
		} else {
			p.f.finish(bu)
		}
	case w[1] == "is" && w[2] == "answered":
		p.f.decide(p.number(w[0]))
	default:
		return "not understood\n"
	}
	p.deliverAll()
	defer p.f.said.Reset()
	return p.f.said.String()
}

func (p *pullPlayer) write(ru int) {
	if len(p.f.rus[ru].requested) == 0 {
		p.f.say("ru%d was not asked", ru)
		return
	}
	p.f.write(ru)
	p.f.complete(ru)
}

// deliverAll lets messages arrive, which take no time in a transcript.
func (p *pullPlayer) deliverAll() {
	for moved := true; moved; {
		moved = false
		for j, b := range p.f.bus {
			if len(b.sent) > 0 {
				p.f.deliverFeedback(j)
				moved = true
			}
		}
		for i, u := range p.f.rus {
			if len(u.tokens) > 0 {
				p.f.deliverTokens(i)
				moved = true
			}
		}
	}
}

// farm reads "farm of 3 RUs and 3 BUs with 2 slots, credit 1, groups of 2, interest ru0 ru2, accepting 0 3".
func (p *pullPlayer) farm(w []string) {
	cfg := farmConfig{size: func(uint64, int) uint32 { return 20 }}
	var accepted []int
	for i := 1; i < len(w); i++ {
		switch word := strings.TrimSuffix(w[i], ","); word {
		case "RUs":
			cfg.rus = p.number(w[i-1])
		case "BUs":
			cfg.bus = p.number(w[i-1])
		case "slots":
			cfg.slots = p.number(w[i-1])
		case "credit":
			cfg.pull.RequestCredit = p.number(w[i+1])
		case "groups":
			cfg.pull.SlotsPerRelease = p.number(w[i+2])
		case "interest":
			for _, ru := range w[i+1:] {
				if !strings.HasPrefix(ru, "ru") {
					break
				}
				cfg.pull.RegionUnits = append(cfg.pull.RegionUnits, p.number(ru))
			}
		case "accepting":
			for _, mep := range w[i+1:] {
				accepted = append(accepted, p.number(mep))
			}
			i = len(w)
		}
	}
	cfg.accept = func(mep uint64) bool { return slices.Contains(accepted, int(mep)) }
	p.f = newFarm(p.t, cfg)
	p.f.said = &strings.Builder{}
}

func (p *pullPlayer) show() {
	c := p.f.core.Registers().Counters
	p.f.say("TagNet: %d MEPs issued, %d built, %d rejected", c.Issued, c.Built, c.Rejected)
	for j, b := range p.f.bus {
		s := b.asm.Stats()
		p.f.say("bu%d: %d requests, at most %d at a time; %d MEPs built, %d rejected with %d MFPs here and %d never asked "+
			"for", j, s.WindowsGranted,
			s.OutstandingRequestsHigh, s.BuiltMEPs, s.RejectedMEPs, s.RejectedMFPs, s.UnrequestedMFPs)
	}
	for i, u := range p.f.rus {
		p.f.say("ru%d: %d transfers open, %d never asked for", i, u.OpenTransfers(), u.UnrequestedTransfers())
	}
}

func (p *pullPlayer) number(word string) int { return transcript.Number(p.t, word) }

// TestPullAtRandom takes farms of all sizes through random orders of what can happen: never more requests than the
// credit, each part asked for at most once and in turn, every MEP one outcome, and an end.
func TestPullAtRandom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := farmConfig{
			rus:   rapid.IntRange(1, 5).Draw(rt, "rus"),
			bus:   rapid.IntRange(1, 4).Draw(rt, "bus"),
			slots: rapid.IntRange(1, 4).Draw(rt, "slots"),
			meps:  rapid.IntRange(0, 20).Draw(rt, "meps") + 1,
		}
		cfg.pull = builderunit.Pull{
			RequestCredit: rapid.IntRange(0, 6).Draw(rt, "credit"), SlotsPerRelease: rapid.IntRange(0, cfg.slots).Draw(rt,
				"group"),
		}
		for ru := range cfg.rus - 1 {
			if rapid.Bool().Draw(rt, "of interest") {
				cfg.pull.RegionUnits = append(cfg.pull.RegionUnits, ru)
			}
		}
		accept := builderunit.AcceptShare(rapid.Float64Range(0, 1).Draw(rt, "share"), rapid.Uint64().Draw(rt, "seed"))
		cfg.accept = func(mep uint64) bool { return accept(mep) }
		sizes := rapid.SliceOfN(rapid.Uint32Range(20, 4000), 7, 7).Draw(rt, "sizes")
		cfg.size = func(mep uint64, ru int) uint32 { return sizes[(int(mep)+3*ru)%7] }
		f := newFarm(t, cfg)
		f.t = rt
		for to := 1; to <= cfg.meps || len(f.steps()) > 0; {
			steps := f.steps()
			if to <= cfg.meps && (len(steps) == 0 || rapid.IntRange(0, 9).Draw(rt, "read") == 0) {
				f.read(uint64(to))
				to++
				continue
			}
			s := rapid.SampledFrom(steps).Draw(rt, "step")
			s.do(s.unit)
		}
		f.checkEnd()
	})
}

// TestPullStoppedBuilder holds that a builder unit which finishes nothing keeps what it has asked for and disturbs
// nobody, however long it takes, and that it goes on when it can.
func TestPullStoppedBuilder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := farmConfig{
			rus:    rapid.IntRange(1, 3).Draw(rt, "rus"),
			bus:    3,
			slots:  rapid.IntRange(1, 4).Draw(rt, "slots"),
			meps:   100,
			accept: func(mep uint64) bool { return mep%3 != 0 },
			size:   func(uint64, int) uint32 { return 20 },
		}
		cfg.pull = builderunit.Pull{RequestCredit: rapid.IntRange(1, 3).Draw(rt, "credit"),
			SlotsPerRelease: rapid.IntRange(1, cfg.slots).Draw(rt, "group")}
		if cfg.rus > 1 && rapid.Bool().Draw(rt, "with interest") {
			cfg.pull.RegionUnits = []int{1}
		}
		f := newFarm(t, cfg)
		f.t, f.stopped = rt, 2
		f.read(uint64(cfg.meps))
		f.atRandom(rt)
		var over, its int
		for _, m := range f.meps {
			switch {
			case m.outcome != 0:
				over++
			case m.bu == f.stopped-1:
				its++
			}
		}
		if over+its != cfg.meps || its > cfg.slots {
			rt.Fatalf("%d of %d MEPs are over, bu%d has %d", over, cfg.meps, f.stopped-1, its)
		}
		f.stopped = 0
		f.atRandom(rt)
		f.checkEnd()
	})
}

// atRandom lets things happen until nothing more can.
func (f *farm) atRandom(rt *rapid.T) {
	seed := rapid.Uint64().Draw(rt, "order")
	rng := rand.New(rand.NewPCG(seed, 0))
	for steps := f.steps(); len(steps) > 0; steps = f.steps() {
		s := steps[rng.IntN(len(steps))]
		s.do(s.unit)
	}
}

// TestEveryPullInterleaving walks through all orders in which tokens, writes, their outcomes, decisions and feedback of
// a small farm can happen: with two slots, which are given back together, and with one that is used again after MEPs
// that were rejected or accepted.
func TestEveryPullInterleaving(t *testing.T) {
	for _, credit := range []int{1, 2}[:cases.Count(2, 1)] {
		for slots, roi := range map[int][]int{1: {1}, 2: nil} {
			cfg := farmConfig{
				rus:   2,
				bus:   2,
				slots: slots,
				meps:  5 - slots,
				pull: builderunit.Pull{RequestCredit: credit, SlotsPerRelease: slots,
					RegionUnits: roi},
				accept: func(mep uint64) bool { return mep == 1 },
				size:   func(uint64, int) uint32 { return 20 },
			}
			t.Run(fmt.Sprintf("credit %d, %d slots, interest %v", credit, slots, roi),
				func(t *testing.T) { exploreAll(t, cfg) })
		}
	}
}

// exploreAll explores from each state that was not seen before. A state is come to again by doing again what led to it.
func exploreAll(t *testing.T, cfg farmConfig) {
	seen := map[string]bool{}
	ends := 0
	todo := [][]int{nil}
	for len(todo) > 0 {
		path := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		f := newFarm(t, cfg)
		f.read(uint64(cfg.meps))
		for _, choice := range path {
			s := f.steps()[choice]
			s.do(s.unit)
		}
		k := f.key()
		if seen[k] {
			continue
		}
		seen[k] = true
		steps := f.steps()
		if len(steps) == 0 {
			f.checkEnd()
			ends++
		}
		for choice := range steps {
			todo = append(todo, append(slices.Clone(path), choice))
		}
	}
	if ends == 0 {
		t.Fatal("no way leads to an end")
	}
	t.Logf("%d states, %d ends", len(seen), ends)
}

// key is the state without what only counts.
func (f *farm) key() string {
	var b strings.Builder
	fmt.Fprint(&b, f.meps, f.last, f.core.Released())
	for _, u := range f.rus {
		fmt.Fprint(&b, "|", len(u.tokens), u.requested, u.writes)
		if f.cfg.rejection.Packing > 0 {
			fmt.Fprint(&b, "|", u.decidedBelow, u.gone, u.UnrequestedTransfers())
		}
		for _, t := range u.tokens {
			fmt.Fprint(&b, t.Released)
		}
	}
	for _, bu := range f.bus {
		fmt.Fprint(&b, "|", bu.progressed, bu.judged, bu.held, bu.sent)
	}
	return b.String()
}
