package readoutunit

import (
	"fmt"
	"slices"
	"strings"

	"ringlet/tagnet/core"
	"ringlet/testkit/transcript"
)

// tagRingPlayer tells what happens in a whole tag ring.
type tagRingPlayer struct {
	*player
	w *tagRingWorld
}

// open reads e.g. "ring of 3 RUs and 3 BUs with 2 slots", "... without by-pass".
func (p *tagRingPlayer) open(w []string) string {
	cfg := core.Config{Slots: 2, BypassBusyRUs: !slices.Contains(w, "without"), NoSlotPolicy: core.Skip}
	for i, s := range w {
		switch s {
		case "RUs":
			cfg.RUs = unitNames("ru", p.number(w[i-1]))
		case "BUs":
			cfg.BUs = unitNames("bu", p.number(w[i-1]))
		case "slots", "slot":
			cfg.Slots = p.number(w[i-1])
		}
	}
	p.w = newTagRingWorld(p.t, cfg)
	return ""
}

func (p *tagRingPlayer) say(w []string) string {
	switch {
	case w[0] == "large": // large are the parts of ru1 for MEP 0
		ru, mep := p.number(w[5]), uint64(p.number(w[8]))
		p.w.size = func(r int, m uint64) float64 {
			if r == ru && m == mep {
				return 5
			}
			return 1
		}
		return ""
	case w[0] == "read": // read up to 3
		p.w.read(uint64(p.number(w[3])), false)
		return p.scheduler()
	case w[0] == "exclude":
		p.w.exclude(p.number(w[1]))
		return p.scheduler()
	case w[0] == "end":
		p.w.core.Drain(0)
		return fmt.Sprintf("the scheduler is %s\n", p.w.core.State())
	case w[0] == "tags":
		return p.tags()
	case strings.HasPrefix(w[0], "bu"):
		return p.builder(p.number(w[0]), w[1:])
	case strings.HasPrefix(w[0], "ru"):
		return p.readout(p.number(w[0]), w[1:])
	case w[0] == "all": // all take tokens
		var out strings.Builder
		for ru := range p.w.rus {
			out.WriteString(p.readout(ru, []string{"takes", "tokens"}))
		}
		return out.String()
	case strings.Join(w[:3], " ") == "the tag returns":
		return p.returns()
	case strings.Join(w[:2], " ") == "there returns":
		// there returns a tag of MEP 0 for bu0 slot 1 in loop 2 served by 0 1
		return p.invented(w[2:])
	}
	return "not understood\n"
}

// scheduler tells what it has just issued and launched.
func (p *tagRingPlayer) scheduler() string {
	var out strings.Builder
	for i := range p.w.batch.Len() {
		for bu := range p.w.batch.PlacesPerCycle {
			if t, ok := p.w.batch.Token(i, bu); ok {
				fmt.Fprintf(&out, "token: MEP %d to bu%d, slot %d%s\n", t.MEP, bu, t.Slot, attempt(t.Attempt))
			}
		}
	}
	for i := range p.w.tags {
		t := &p.w.tags[i]
		if t.Loop == 0 {
			fmt.Fprintf(&out, "tag of MEP %d sets out to bu%d%s\n", t.MEP, p.w.bu(t.TokenPlace), attempt(t.Attempt))
		} else {
			fmt.Fprintf(&out, "tag of MEP %d goes round again, loop %d, served by %s\n", t.MEP, t.Loop, p.served(t))
		}
	}
	return out.String()
}

func attempt(n uint8) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(", attempt %d", n)
}

func (p *tagRingPlayer) served(t *core.Tag) string {
	var who []string
	for ru := range p.w.rus {
		if t.Served.Contains(ru) {
			who = append(who, fmt.Sprint("ru", ru))
		}
	}
	if len(who) == 0 {
		return "nobody"
	}
	return strings.Join(who, " ")
}

// readout lets a readout unit take tokens or a tag, write, or hear that its write is done.
func (p *tagRingPlayer) readout(ru int, w []string) string {
	at, n := len(p.w.passing[ru+1]), len(p.w.rus)
	before := p.w.rus[ru].TagOrder().BypassedTags()
	out := ""
	switch strings.Join(w, " ") {
	case "takes tokens":
		for len(p.w.tokens[ru]) > 0 {
			p.w.must(p.w.deliverTokens(ru))
		}
		for i := 0; i < len(p.w.grants); {
			p.w.deliverGrant(i)
		}
	case "takes the tag":
		if _, err := p.w.deliverTag(ru); err != nil {
			return fmt.Sprintf("ru%d refuses: %v\n", ru, err)
		}
	case "writes":
		action, _ := p.w.rus[ru].Next()
		place, ok := p.w.send(ru)
		if !ok {
			return fmt.Sprintf("ru%d %v\n", ru, action)
		}
		b := p.w.meps[place]
		return fmt.Sprintf("ru%d writes MEP %d to bu%d, slot %d\n", ru, b.MEP, b.BU, b.Slot)
	case "is done":
		i := slices.IndexFunc(p.w.writes, func(x ringWrite) bool { return x.ru == ru })
		if i < 0 {
			return fmt.Sprintf("ru%d writes nothing\n", ru)
		}
		p.w.done(i)
	default:
		return "not understood\n"
	}
	passed := p.w.rus[ru].TagOrder().BypassedTags() - before
	for i := range p.w.passing[ru+1][at:] {
		t := &p.w.passing[ru+1][at+i]
		how, to := "", fmt.Sprintf("to ru%d", ru+1)
		switch {
		case passed > 0 && !t.Served.Contains(ru):
			how, passed = " unserved", passed-1
		case !t.Served.Contains(ru):
			how = " without having to serve it"
		}
		if ru+1 == n {
			to = "back to the scheduler"
		}
		out += fmt.Sprintf("ru%d passes the tag of MEP %d%s %s\n", ru, t.MEP, how, to)
	}
	return out
}

// returns gives the scheduler the next tag from the last readout unit.
func (p *tagRingPlayer) returns() string {
	t, err := p.w.returnTag()
	if err != nil {
		return fmt.Sprintf("refused: %v\n", err)
	}
	if t.Served.Len() == len(p.w.rus) {
		return fmt.Sprintf("tag of MEP %d is as it should be\n", t.MEP) + p.scheduler()
	}
	return fmt.Sprintf("tag of MEP %d was served by %s\n", t.MEP, p.served(&t)) + p.scheduler()
}

// invented gives the scheduler a tag of which a part is wrong.
func (p *tagRingPlayer) invented(w []string) string {
	t := core.Tag{Attempt: 1}
	ru := len(p.w.rus) - 1
	for i, word := range w[:len(w)-1] {
		switch next := w[i+1]; word {
		case "MEP":
			t.MEP = uint64(p.number(next))
		case "place":
			t.TokenPlace = uint64(p.number(next))
		case "slot":
			t.Slot = uint32(p.number(next))
		case "loop":
			t.Loop = uint8(p.number(next))
		case "from":
			ru = p.number(next)
		case "by":
			for _, who := range w[i+1:] {
				t.Served.Add(p.number(who))
			}
		}
	}
	if err := p.w.core.ReturnTag(ru, &t); err != nil {
		return fmt.Sprintf("refused: %v\n", err)
	}
	return "is as it should be\n"
}

// builder tells the scheduler that a builder unit has built a MEP.
func (p *tagRingPlayer) builder(bu int, w []string) string { // bu0 has built MEP 0
	mep := uint64(p.number(w[3]))
	i := slices.IndexFunc(p.w.complete, func(place uint64) bool {
		return p.w.bu(place) == bu &&
			p.w.meps[place].MEP == mep
	})
	if i < 0 {
		return fmt.Sprintf("bu%d does not have all of MEP %d\n", bu, mep)
	}
	p.w.reportBuilt(i)
	return p.scheduler()
}

// tags tells the state of the tag ring.
func (p *tagRingPlayer) tags() string {
	reg := p.w.core.Registers()
	g := reg.GetCounters().GetTags()
	out := fmt.Sprintf("%d launched, %d returned, %d under way, %d waiting", g.GetLaunched(), g.GetReturned(),
		reg.GetTags().GetNow(), g.GetWaiting())
	for _, x := range []struct {
		n    uint64
		what string
	}{{g.GetVoid(), "void"}, {g.GetDropped(), "dropped"}, {g.GetOvertaken(), "overtaken"}} {
		if x.n > 0 {
			out += fmt.Sprintf(", %d %s", x.n, x.what)
		}
	}
	for loop, n := range g.GetLoops() {
		if loop > 0 && n > 0 {
			out += fmt.Sprintf(", %d in loop %d", n, loop)
		}
	}
	return out + fmt.Sprintf("; the scheduler is %s\n", p.w.core.State())
}

func (p *tagRingPlayer) number(word string) int { return transcript.Number(p.t, word) }
