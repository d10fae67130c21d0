package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/testkit/transcript"
)

// TestTranscripts plays every transcript in testdata with the core.
func TestTranscripts(t *testing.T) {
	transcript.Play(t, func(t *testing.T) transcript.Answer {
		p := &player{t: t, tokens: map[uint64]Token{}}
		return func(command string) string { return p.say(strings.Fields(command)) }
	})
}

type player struct {
	t      *testing.T
	core   *Allocator
	batch  Batch
	tokens map[uint64]Token // issued last, by MEP
}

// say gives one command to the core and tells its answer, each line ended.
func (p *player) say(w []string) string {
	if w[0] == "view" {
		core, err := NewAllocator(p.view(w))
		p.core = core
		return complaint(err)
	}
	switch unit, rest := w[0], w[1:]; {
	case strings.HasPrefix(unit, "ru") && rest[0] == "goes":
		return complaint(p.core.applyReach(p.number(unit), p.reach(rest[1:])))
	case strings.HasPrefix(unit, "ru"):
		return complaint(p.core.ApplyUpdate(p.number(unit), p.update(rest)))
	case strings.HasPrefix(unit, "bu"):
		return complaint(p.core.ApplyFeedback(p.number(unit), p.feedback(rest)))
	}
	switch strings.Join(w[:min(2, len(w))], " ") {
	case "start":
		p.core.Start()
	case "cut":
		return p.cut()
	case "issue":
		return p.issue()
	case "show":
		return p.show()
	case "show groups":
		return p.groups()
	case "pause":
		return complaint(p.core.Pause())
	case "resume":
		return complaint(p.core.Resume())
	case "drain":
		p.core.Drain(0)
	case "drain to":
		p.core.Drain(uint64(p.number(w[2])))
	case "show triggers":
		r := p.core.Registers()
		return fmt.Sprintf("%d taken, %d refused, %d wait; at most %d did\n", r.Counters.Triggers, r.Counters.TriggersRefused,
			r.Triggers.GetNow(), r.Triggers.GetMax())
	case "hand triggers": // hand triggers 3 as 7
		n, err := p.core.triggerByHand(uint64(p.number(w[2])), uint64(p.number(w[4])))
		return complaint(err) + fmt.Sprintf("%d taken\n", n)
	case "show queues":
		return p.queues()
	case "clear by":
		p.core.clearRegisters(w[2], 7)
	case "abandon":
		return fmt.Sprintf("%d abandoned\n", p.core.abandon())
	default:
		return p.membership(w)
	}
	return ""
}

func (p *player) membership(w []string) string {
	switch {
	case w[0] == "exclude" && strings.HasPrefix(w[1], "bu"):
		n, err := p.core.ExcludeBU(p.number(w[1]), false)
		return complaint(err) + fmt.Sprintf("%d to be issued again\n", n)
	case w[0] == "exclude":
		return complaint(p.core.ExcludeRU(p.number(w[1])))
	case w[0] == "include" && strings.HasPrefix(w[1], "ru"):
		return complaint(p.core.includeRU(p.number(w[1])))
	case w[0] == "absences":
		var out strings.Builder
		for _, a := range p.core.absences {
			fmt.Fprintf(&out, "ru%d %s: from cycle %d, MEP %d\n", a.RU,
				map[bool]string{false: "gone", true: "back"}[a.Rejoined], a.FirstCycle, a.FirstMEP)
		}
		return out.String()
	case w[0] == "knows":
		return complaint(p.core.ackAbsences(p.number(w[1]), uint64(p.number(w[2])), len(p.core.absences)))
	case w[0] == "include":
		return complaint(p.core.IncludeBU(p.number(w[1])))
	}
	return "not understood\n"
}

// view reads e.g. "view of 2 RUs and 3 BUs with 4 slots, look-ahead 2, policy skip".
func (p *player) view(w []string) Config {
	cfg := Config{Packing: 10}
	for i := range w {
		w[i] = strings.TrimRight(w[i], ",")
	}
	for i, s := range w {
		switch s {
		case "RUs":
			cfg.RUs = names("ru", p.number(w[i-1]))
		case "BUs":
			cfg.BUs = names("bu", p.number(w[i-1]))
		case "slots":
			cfg.Slots = p.number(w[i-1])
		case "look-ahead":
			cfg.LookAhead = p.number(w[i+1])
		case "attempts":
			cfg.MaxAttempts = p.number(w[i+1])
		case "first":
			cfg.FirstMEP = uint64(p.number(w[i+1]))
		case "end":
			cfg.EndMEP = uint64(p.number(w[i+1]))
		case "skip":
			if w[i-1] == "policy" {
				cfg.NoSlotPolicy = Skip
			}
		case "trigger":
			cfg.Trigger, cfg.Packing = w[i+1], 1
		case "live":
			cfg.Live = true
		case "whole":
			cfg.CompleteEventsOnly = true
		case "events":
			cfg.MaxEvents = uint64(p.number(w[i-1]))
		case "loose":
			cfg.Loose = true
		}
		p.rule(&cfg.Rules, w[i:])
	}
	return cfg
}

// rule reads e.g. "groups 0+1;2+3", "busy-group skip", "next ratio 2:1:1", "partitions 0;1+2".
func (p *player) rule(r *Rules, w []string) {
	numbers := func(text, sep string) (out []int) {
		for s := range strings.SplitSeq(text, sep) {
			out = append(out, p.number(s))
		}
		return out
	}
	sets := func(text string) (out [][]int) {
		for s := range strings.SplitSeq(text, ";") {
			out = append(out, numbers(s, "+"))
		}
		return out
	}
	switch w[0] {
	case "groups":
		r.Groups = sets(w[1])
	case "partitions":
		r.TurnSets = sets(w[1])
	case "busy-group":
		r.BusyGroupPolicy, _ = ParsePolicy(w[1])
	case "next":
		r.TurnOrder, _ = ParseTurnOrder(w[1])
		if r.TurnOrder == ByRatio {
			r.Ratio = numbers(w[2], ":")
		}
	}
}

// update reads "has read 7", "has read 7 with 65 events", "ends at 7", "ends at 7 with 65 events".
func (p *player) update(w []string) Update {
	u := Update{ReadBelow: uint64(p.number(w[2])), InputEnded: w[0] == "ends"}
	if p.core.cutter != nil && u.ReadBelow <= p.core.cutter.nextMEP {
		u.Events = p.core.cutter.eventsBelow(u.ReadBelow)
	} else {
		u.Events = (u.ReadBelow - p.core.cfg.FirstMEP) * uint64(p.core.cfg.Packing)
	}
	if i := slices.Index(w, "with"); i > 0 {
		u.Events = uint64(p.number(w[i+1]))
	}
	return u
}

// reach reads "from 0 to 7 flush 5 overdue 3 over".
func (p *player) reach(w []string) (r Reach) {
	for i, s := range w {
		switch s {
		case "from":
			r.FirstUncut = uint64(p.number(w[i+1]))
		case "to":
			r.CompleteBelow = uint64(p.number(w[i+1]))
		case "flush":
			r.FlushBelow = uint64(p.number(w[i+1]))
		case "overdue":
			r.OverdueBelow = uint64(p.number(w[i+1]))
		case "over":
			r.Ended = true
		}
	}
	return r
}

func (p *player) cut() string {
	c := p.core.cutter
	from := c.nextMEP
	p.core.cutMEPs()
	var out strings.Builder
	for k := from; k < c.nextMEP; k++ {
		cut := c.cutOf(k)
		fmt.Fprintf(&out, "MEP %d: %d events from %d\n", k, cut.Events, cut.FirstEvent)
	}
	if c.cutsOver {
		out.WriteString("over\n")
	}
	return out.String()
}

// feedback reads "built 3", and "built 3 attempt 1 slot 2 events 9", what is not said being right.
func (p *player) feedback(w []string) Feedback {
	mep := uint64(p.number(w[1]))
	t := p.tokens[mep]
	f := Feedback{
		MEP:     mep,
		Slot:    t.Slot,
		Attempt: t.Attempt,
		Events:  uint32(p.core.eventCount(mep)),
	}
	f.Outcome = map[string]Outcome{"built": Built, "discarded": Discarded, "rejected": Rejected}[w[0]]
	for i := 2; i+1 < len(w); i += 2 {
		n := p.number(w[i+1])
		switch w[i] {
		case "attempt":
			f.Attempt = uint8(n)
		case "slot":
			f.Slot = uint32(n)
		case "events":
			f.Events = uint32(n)
		}
	}
	return f
}

func (p *player) issue() string {
	p.batch.Reset(p.core.NextCycle(), p.core.PlacesPerCycle())
	p.core.Issue(&p.batch)
	var out strings.Builder
	for i := range p.batch.Len() {
		fmt.Fprintf(&out, "cycle %d:", p.batch.FirstCycle+uint64(i))
		for place := range p.batch.PlacesPerCycle {
			t, ok := p.batch.Token(i, place)
			switch {
			case !ok:
				out.WriteString(" -")
				continue
			case t.Attempt > 1:
				fmt.Fprintf(&out, " %d(attempt %d)→bu%d/%d", t.MEP, t.Attempt, t.BU, t.Slot)
			default:
				fmt.Fprintf(&out, " %d→bu%d/%d", t.MEP, t.BU, t.Slot)
			}
			p.tokens[t.MEP] = t
		}
		out.WriteString("\n")
	}
	fmt.Fprintf(&out, "waits for %s\n", p.core.waitReason)
	return out.String()
}

func (p *player) show() string {
	r := p.core.Registers()
	c := r.Counters
	held := ""
	if meps := p.core.heldUp.meps; len(meps) > 0 {
		held = fmt.Sprintf(" but %d", meps)
	}
	return fmt.Sprintf("%s: %d issued, %d again, %d built, %d discarded, %d abandoned, %d in flight; "+
		"released %d%s; %d of %d events built\n", p.core.State(), c.Issued, c.Reissued, c.Built, c.Discarded, c.Abandoned,
		r.InFlight, r.Released, held, c.EventsBuilt, c.EventsIssued)
}

func (p *player) groups() string {
	var out strings.Builder
	r := p.core.Registers()
	for i, g := range r.Groups {
		fmt.Fprintf(&out, "group %d: %d running, at most %d; %d tokens, %d turns lost\n", i, g.Running, g.Most, g.Tokens,
			g.Skips)
	}
	return out.String()
}

func (p *player) queues() string {
	var out strings.Builder
	r := p.core.Registers()
	show := func(name string, d *tagnetv1.Depth) {
		fmt.Fprintf(&out, "%s: %d of %d, at most %d; rose to marks %d, full %d, usage %#x\n", name, d.Now, d.Capacity, d.Max,
			d.Crossed, d.Full, d.Usage)
	}
	show("cycles", r.Cycles)
	for _, b := range r.Bus {
		show(b.Name, b.Used)
	}
	if c := r.Cleared; c != nil {
		fmt.Fprintf(&out, "cleared by %s at %d, when %d were built\n", c.User, c.AtNs, c.Counters.Built)
	}
	return out.String()
}

func complaint(err error) string {
	if err == nil {
		return ""
	}
	var in *inputError
	if errors.As(err, &in) {
		return fmt.Sprintf("refused as %s: %s: %s\n", in.Reason.String(), in.Unit, in.Detail)
	}
	return fmt.Sprintf("refused: %v\n", err)
}

func (p *player) number(word string) int { return transcript.Number(p.t, word) }
