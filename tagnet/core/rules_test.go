package core

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

// drawRules draws any rules for a number of builder units.
func drawRules(t *rapid.T, bus int) (r Rules) {
	sets := func(what string, of [][]int) (out [][]int) {
		for _, members := range of {
			if i := rapid.IntRange(0, len(out)).Draw(t, what); i == len(out) {
				out = append(out, slices.Clone(members))
			} else {
				out[i] = append(out[i], members...)
			}
		}
		return out
	}
	var units [][]int
	for _, bu := range rapid.Permutation(upTo(bus)).Draw(t, "order") {
		units = append(units, []int{bu})
	}
	if rapid.Bool().Draw(t, "groups") {
		units = sets("group", units)
		r.Groups = units
		r.BusyGroupPolicy = rapid.SampledFrom([]Policy{Wait, Skip}).Draw(t, "busy group")
	}
	if rapid.Bool().Draw(t, "partitions") {
		r.TurnSets = sets("partition", units)
	}
	r.TurnOrder = rapid.SampledFrom([]TurnOrder{RoundRobin, ByRatio, ByDemand}).Draw(t, "next")
	if r.TurnOrder == ByRatio {
		r.Ratio = rapid.SliceOfN(rapid.IntRange(1, 7), bus, bus).Draw(t, "ratio")
	}
	return r
}

func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// TestChooserWithPlainRules holds the chooser to the cursor that stands in for it where the rules are plain: the same
// tokens in the same places, the same reasons to wait, the same counters.
func TestChooserWithPlainRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		cfg := m.core.cfg
		cfg.Rules, cfg.Loose = Rules{}, false
		var cores [2]*Allocator
		for i := range cores {
			core := newAllocator(t, cfg)
			core.Start()
			cores[i] = core
		}
		cores[1].chooser = newChooser(&cfg, cores[1].bus, &cores[1].groups)
		m.core = cores[0]
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			m.stepBoth(t, cores[1])
		}
	})
}

// stepBoth does one thing to both cores and compares.
func (m *model) stepBoth(t *rapid.T, other *Allocator) {
	switch rapid.IntRange(0, 4).Draw(t, "what") {
	case 0:
		ru := rapid.IntRange(0, len(m.read)-1).Draw(t, "ru")
		m.sendUpdate(t, ru, min(m.total, m.read[ru]+rapid.Uint64Range(0, 20).Draw(t, "more")))
		must(t, other.ApplyUpdate(ru, m.core.rus[ru].Update))
	case 1:
		bu := rapid.IntRange(0, len(m.out)-1).Draw(t, "bu")
		for _, c := range []*Allocator{m.core, other} {
			if m.out[bu] {
				_ = c.IncludeBU(bu)
			} else if _, err := c.ExcludeBU(bu, false); err != nil {
				t.Fatal(err)
			}
		}
		m.out[bu] = m.core.bus[bu].excluded
		for key := range m.owner {
			if key[0] == uint32(bu) {
				delete(m.owner, key)
			}
		}
	case 2, 3:
		if tok, ok := m.pick(t); ok {
			m.answer(t, tok, Built)
			f := Feedback{
				MEP:     tok.MEP,
				Slot:    tok.Slot,
				Attempt: tok.Attempt,
				Outcome: Built,
				Events:  uint32(other.eventCount(tok.MEP)),
			}
			must(t, other.ApplyFeedback(int(tok.BU), f))
		}
	}
	m.issue(t)
	var batch Batch
	batch.Reset(other.NextCycle(), other.PlacesPerCycle())
	other.Issue(&batch)
	if !slices.Equal(batch.MEPs, m.batch.MEPs) || !slices.Equal(batch.Slots, m.batch.Slots) {
		t.Fatalf("the chooser issues %v, the cursor %v", batch.MEPs, m.batch.MEPs)
	}
	if a, b := m.core.Registers(), other.Registers(); !proto.Equal(a, b) {
		t.Fatalf("the chooser's registers are\n%v\nthe cursor's\n%v", b, a)
	}
}

// TestRatio holds that after every turn each builder unit has had its share, rounded up or down, also when the number
// of builder units changes under way: then the count begins anew.
func TestRatio(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, maxWeight), 1, 12).Draw(t, "weights")
		n := len(weights)
		c := ruled(t, n, 64, Rules{TurnOrder: ByRatio, Ratio: weights})
		out := make([]bool, n)
		for range 3 {
			had, sum := make([]int, n), 0
			for bu := range n {
				if !out[bu] {
					sum += weights[bu]
				}
			}
			for turn := 1; turn <= 2*sum && sum > 0; turn++ {
				had[c.next(t)]++
				for bu, x := range had {
					if w := weights[bu]; !out[bu] && (x*sum > turn*w+sum-1 || x*sum < turn*w-sum+1) {
						t.Fatalf("builder unit %d of weight %d has %d of %d turns, the sum of weights is %d", bu, w, x, turn, sum)
					}
				}
			}
			bu := rapid.IntRange(0, n-1).Draw(t, "changes")
			if out[bu] = !out[bu]; out[bu] {
				_, _ = c.core.ExcludeBU(bu, false)
			} else {
				_ = c.core.IncludeBU(bu)
			}
		}
	})
}

// TestTurnsAreFair holds that round robin gives each group of a turn set, and each builder unit of a group, as many
// turns as the others, but for one, and each turn set too; and that by demand nobody with slots is forgotten.
func TestTurnsAreFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bus := rapid.IntRange(1, 9).Draw(t, "bus")
		r := drawRules(t, bus)
		if r.TurnOrder == ByRatio {
			r.TurnOrder, r.Ratio = RoundRobin, nil
		}
		c := ruled(t, bus, 4, r)
		had := make([]int, bus)
		for range 4 * bus * bus {
			had[c.next(t)]++
		}
		sum := func(members []int) (n int) {
			for _, bu := range members {
				n += had[bu]
			}
			return n
		}
		even := func(what string, sums []int) {
			if len(sums) > 0 && slices.Max(sums)-slices.Min(sums) > 1 {
				t.Fatalf("turns of the %s are uneven: %v", what, sums)
			}
		}
		turnSets, groups := r.TurnSets, r.Groups
		if turnSets == nil {
			turnSets = [][]int{upTo(bus)}
		}
		var turnsOfSets []int
		for _, turnSet := range turnSets {
			turnsOfSets = append(turnsOfSets, sum(turnSet))
			var ofGroups []int
			for _, group := range groups {
				if slices.Contains(turnSet, group[0]) {
					ofGroups = append(ofGroups, sum(group))
				}
			}
			if groups == nil {
				for _, bu := range turnSet {
					ofGroups = append(ofGroups, had[bu])
				}
			}
			if r.TurnOrder == RoundRobin {
				even("groups", ofGroups)
			}
		}
		even("partitions", turnsOfSets)
		for _, group := range groups {
			var each []int
			for _, bu := range group {
				each = append(each, had[bu])
			}
			even("builder units of a group", each)
		}
		if slices.Contains(had, 0) {
			t.Fatalf("somebody was forgotten: %v", had)
		}
	})
}

// oneAtATime is a loose view whose MEPs go one at a time, each built before the next.
type oneAtATime struct {
	core  *Allocator
	batch Batch
}

func ruled(t *rapid.T, bus, slots int, r Rules) *oneAtATime {
	core := newAllocator(t, Config{
		RUs:     names("ru", 1),
		BUs:     names("bu", bus),
		Slots:   slots,
		Packing: 1,
		Rules:   r,
		Loose:   true,
	})
	core.Start()
	return &oneAtATime{core: core}
}

// next issues a MEP, builds it and tells where.
func (o *oneAtATime) next(t *rapid.T) int {
	next := o.core.nextMEP + 1
	must(t, o.core.ApplyUpdate(0, Update{ReadBelow: next, Events: next}))
	o.batch.Reset(o.core.NextCycle(), o.core.PlacesPerCycle())
	if n := o.core.Issue(&o.batch); n != 1 {
		t.Fatalf("%d MEPs issued of 1", n)
	}
	for place := range o.batch.PlacesPerCycle {
		if tok, ok := o.batch.Token(0, place); ok {
			f := tok.built(1)
			must(t, o.core.ApplyFeedback(place, f))
			return place
		}
	}
	t.Fatal("no token")
	return 0
}
