package core

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestNeverTwiceInSuccession holds that no turn set has two MEPs in succession while another has an active builder
// unit, whatever the policies (TagNet-farm §III.B.2); and that a MEP still goes when all others are gone.
func TestNeverTwiceInSuccession(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newTurnSetModel(t)
		for range 60 {
			p.step(t)
		}
		p.finish(t)
	})
}

// turnSetModel is a view with turn sets, of which builder units are excluded and come back between MEPs.
type turnSetModel struct {
	core      *Allocator
	batch     Batch
	turnSetOf []uint16 // turn set of each builder unit
	out       []bool   // excluded
	busy      []placed // without outcome
	last      int      // turn set of the last MEP; -1: none yet
	active    int      // turn sets with an active builder unit
}

// placed is a token, and who has it.
type placed struct {
	Token
	bu int
}

func newTurnSetModel(t *rapid.T) *turnSetModel {
	bus := rapid.IntRange(2, 6).Draw(t, "bus")
	r := drawRules(t, bus)
	if len(r.TurnSets) == 0 {
		r.Groups, r.BusyGroupPolicy = nil, Wait
		cut := rapid.IntRange(1, bus-1).Draw(t, "cut")
		r.TurnSets = [][]int{upTo(bus)[:cut], upTo(bus)[cut:]}
	}
	p := &turnSetModel{out: make([]bool, bus), last: -1, core: newAllocator(t, Config{
		RUs:          names("ru", 1),
		BUs:          names("bu", bus),
		Slots:        rapid.IntRange(1, 3).Draw(t, "slots"),
		Packing:      1,
		NoSlotPolicy: rapid.SampledFrom([]Policy{Wait, Skip}).Draw(t, "empty place"),
		Rules:        r,
		Loose:        rapid.Bool().Draw(t, "loose"),
	})}
	p.turnSetOf, _ = setIndexOf("partition", r.TurnSets, bus)
	p.core.Start()
	return p
}

// step reads MEPs, ends one, excludes a builder unit or takes one back; then it looks at what is issued.
func (p *turnSetModel) step(t *rapid.T) {
	switch bu := rapid.IntRange(0, len(p.out)-1).Draw(t, "builder unit"); rapid.IntRange(0, 9).Draw(t, "what") {
	case 0:
		p.exclude(t, bu)
	case 1:
		if p.out[bu] {
			p.out[bu] = false
			must(t, p.core.IncludeBU(bu))
		}
	case 2, 3, 4:
		p.read(t, uint64(rapid.IntRange(1, 5).Draw(t, "more")))
	default:
		if n := len(p.busy); n > 0 {
			p.end(t, rapid.IntRange(0, n-1).Draw(t, "which"))
		}
	}
	p.issue(t)
}

// exclude leaves one builder unit at least.
func (p *turnSetModel) exclude(t *rapid.T, bu int) {
	remaining := 0
	for _, out := range p.out {
		if !out {
			remaining++
		}
	}
	if p.out[bu] || remaining == 1 {
		return
	}
	p.out[bu] = true
	_, err := p.core.ExcludeBU(bu, false)
	must(t, err)
	p.busy = slices.DeleteFunc(p.busy, func(b placed) bool { return b.bu == bu })
}

func (p *turnSetModel) read(t *rapid.T, more uint64) {
	at := p.core.nextMEP + more
	if at > p.core.readWatermark {
		must(t, p.core.ApplyUpdate(0, Update{ReadBelow: at, Events: at}))
	}
}

func (p *turnSetModel) end(t *rapid.T, i int) {
	b := p.busy[i]
	p.busy = slices.Delete(p.busy, i, i+1)
	must(t, p.core.ApplyFeedback(b.bu, b.built(1)))
}

// issue looks at all MEPs that go now, in the order in which they were chosen.
func (p *turnSetModel) issue(t *rapid.T) {
	turns := slices.Clone(p.core.chooser.nextTurn)
	p.batch.Reset(p.core.NextCycle(), p.core.PlacesPerCycle())
	p.core.Issue(&p.batch)
	p.active = 0
	seen := map[uint16]bool{}
	for bu, set := range p.turnSetOf {
		if !p.out[bu] && !seen[set] {
			seen[set] = true
			p.active++
		}
	}
	for cycle := range p.batch.Len() {
		p.cycle(t, cycle, turns)
	}
}

// cycle looks at one. MEPs of excluded builder units go first, and are not in the order of their numbers: with them the
// order of the choices is not to be seen, and only how many there are of each turn set is held.
func (p *turnSetModel) cycle(t *rapid.T, cycle int, turns []uint32) {
	var all []placed
	for bu := range p.batch.PlacesPerCycle {
		if tok, ok := p.batch.Token(cycle, bu); ok {
			all = append(all, placed{tok, bu})
		}
	}
	again := slices.ContainsFunc(all, func(b placed) bool { return b.Attempt > 1 })
	slices.SortFunc(all, func(a, b placed) int { return int(a.MEP) - int(b.MEP) })
	most := map[int]int{}
	for _, b := range all {
		set := int(p.turnSetOf[b.bu])
		most[set]++
		if !again && set == p.last && p.active > 1 {
			t.Fatalf("cycle %d: turn set %d has two MEPs in succession, the second is %d; turns were at %v", cycle, set,
				b.MEP, turns)
		}
		if p.active > 1 && most[set] > (len(all)+1)/2 {
			t.Fatalf("cycle %d: %d of %d MEPs for turn set %d", cycle, most[set], len(all), set)
		}
		p.last = set
	}
	if again {
		p.last = -1
	}
	p.busy = append(p.busy, all...)
}

// finish ends what is under way: whoever waits for another turn set does not wait for ever.
func (p *turnSetModel) finish(t *rapid.T) {
	before := p.core.nextMEP
	p.read(t, 3)
	for range 1000 {
		p.issue(t)
		if len(p.busy) == 0 && p.core.nextMEP == p.core.readWatermark {
			break
		}
		if len(p.busy) > 0 {
			p.end(t, 0)
		}
	}
	if len(p.busy) > 0 || p.core.nextMEP != p.core.readWatermark || p.core.nextMEP == before {
		t.Fatalf("%d MEPs under way, %d of %d issued: %v", len(p.busy), p.core.nextMEP, p.core.readWatermark,
			p.core.waitReason)
	}
}
