package readoutunit

import (
	"fmt"
	"sort"
	"strings"
	"testing"

	"ringlet/event/placing"
	"ringlet/internal/testkit/transcript"
	"ringlet/tagnet"
)

// quotaPlayer drives the core of one readout unit whose parts are placed by quota. The MEPs from the released ones on are held.
type quotaPlayer struct {
	t      *testing.T
	core   *QuotaSchedule
	bursts map[int]*Burst
	cycle  uint64
}

// view reads e.g. "view by quota of 1 RUs and 2 BUs with 2 slots".
func (p *quotaPlayer) view(w []string) string {
	n := map[string]int{}
	for i, s := range w[1:] {
		if s == "RUs" || s == "BUs" || s == "slots" {
			n[s] = transcript.Number(p.t, w[i])
		}
	}
	p.core, p.bursts = NewQuotaSchedule(0, n["RUs"], n["BUs"], n["slots"]), map[int]*Burst{}
	return p.windows()
}

func (p *quotaPlayer) windows() string {
	if p.core.Granted() {
		return "has every window\n"
	}
	lacks := 0
	for _, n := range p.core.missing {
		lacks += n
	}
	return fmt.Sprintf("lacks %d windows\n", lacks)
}

func (p *quotaPlayer) say(w []string) string {
	switch w[0] {
	case "windows": // windows of bu0 from slot 0: 7 8
		return p.standing(w)
	case "cycle": // cycle 0/0 - 2/1: MEP and slot at each place
		return p.newCycle(w[1:])
	case "sends":
		return p.sends()
	case "write": // write 0 is done
		b, err := p.core.Complete(uint64(transcript.Number(p.t, w[1])))
		if err != nil {
			return "refuses: " + err.Error() + "\n"
		}
		if b == nil {
			return "waits for the rest of it\n"
		}
	case "without": // without bu1: it is excluded; what was said before is withdrawn
		bu := transcript.Number(p.t, w[1])
		if b := p.bursts[bu]; b != nil {
			p.core.Discard(b)
			delete(p.bursts, bu)
		}
		p.core.Withdraw(tagnet.Withdrawal{BU: uint16(bu), Before: p.cycle})
		return p.leftovers()
	case "loses": // loses bu1: the link to it is down
		p.core.Lose(transcript.Number(p.t, w[1]))
		return p.leftovers()
	case "settles":
		x, ok := p.core.Settled()
		return fmt.Sprintf("settles exclusion %d: %v\n", x.Number, ok)
	case "released": // released 3
		p.core.Release(uint64(transcript.Number(p.t, w[1])))
	default:
		return "does not understand\n"
	}
	return fmt.Sprintf("needs MEPs from %d on, %d transfers open\n", p.core.Needed(), p.core.Transfers())
}

func (p *quotaPlayer) leftovers() string {
	l := p.core.Leftovers()
	return p.windows() + fmt.Sprintf("needs MEPs from %d on, %d transfers open; %d tokens are withdrawn, %d of them were sent\n",
		p.core.Needed(), p.core.Transfers(), l.Withdrawn, l.Failed)
}

func (p *quotaPlayer) standing(w []string) string {
	m := placing.Standing{First: uint32(transcript.Number(p.t, strings.TrimSuffix(w[5], ":")))}
	for _, s := range w[6:] {
		m.Refs = append(m.Refs, placing.Ref{Window: uint32(transcript.Number(p.t, s)), Gen: 1})
	}
	if err := p.core.Standing(transcript.Number(p.t, w[2]), &m); err != nil {
		return "refuses: " + err.Error() + "\n"
	}
	return p.windows()
}

func (p *quotaPlayer) newCycle(w []string) string {
	var c []tagnet.Token
	for _, s := range w {
		if s == "-" {
			c = append(c, none)
			continue
		}
		mep, slot, _ := strings.Cut(s, "/")
		c = append(c, tok(uint64(transcript.Number(p.t, mep)), uint32(transcript.Number(p.t, slot))))
	}
	b := batch(p.cycle, c)
	if err := p.core.Cycles(b); err != nil {
		return "refuses: " + err.Error() + "\n"
	}
	p.cycle++
	for bu, mep := range b.MEPs {
		if mep == tagnet.NoMEP {
			continue
		}
		if p.bursts[bu] == nil {
			p.bursts[bu] = p.core.Open(bu, p.core.Needed())
		}
		if _, err := p.core.Add(p.bursts[bu], mep, b.Slots[bu], []byte{0}); err != nil {
			return "refuses: " + err.Error() + "\n"
		}
	}
	return ""
}

func (p *quotaPlayer) sends() string {
	var order []int
	for bu := range p.bursts {
		order = append(order, bu)
	}
	sort.Ints(order)
	var out strings.Builder
	for _, bu := range order {
		b := p.bursts[bu]
		delete(p.bursts, bu)
		fmt.Fprintf(&out, "write %d to bu%d:", p.core.Send(b), bu)
		for _, piece := range b.Pieces {
			mep, attempt, slot := placing.ParseImmediate(piece.Imm)
			fmt.Fprintf(&out, " MEP %d#%d in slot %d by window %d", mep, attempt, slot, piece.Ref.Window)
		}
		out.WriteString("\n")
	}
	return out.String()
}
