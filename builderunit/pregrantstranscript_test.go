package builderunit

import (
	"fmt"
	"strings"

	"ringlet/event/placing"
	"ringlet/shmem"
	"ringlet/transport"
)

// preGrantedPlayer plays a transcript with an Assembler of pre-granted windows.
type preGrantedPlayer struct {
	*player
	asm    *Assembler
	before Stats
}

func (p *preGrantedPlayer) say(slot int, w []string) string {
	switch {
	case w[0] == "standing": // standing of 2 slots for 3 RUs 1 stream with blocks of 40
		return p.begin(w)
	case strings.HasPrefix(w[0], "ru"):
		return p.place(p.number(w[0]), slot, w)
	case w[0] == "finish":
		p.asm.Finish([]uint32{uint32(slot)}, uint64(p.rus), 0)
	case w[0] == "abandon":
		p.asm.abandonSlot(slot)
	case w[0] == "show":
		s := p.asm.Stats()
		return fmt.Sprintf("%d parts, %d strays; %d MEPs, %d incomplete; unfinished %v\n",
			s.PartsInPlace, s.RejectedPlacements, s.BuiltMEPs, s.IncompleteMEPs, p.asm.AppendUnfinished(nil))
	default:
		return "not understood\n"
	}
	return ""
}

func (p *preGrantedPlayer) begin(w []string) string {
	var blocks []int
	p.rus = p.after(w, "for", 0)
	for range p.rus {
		blocks = append(blocks, p.number(w[len(w)-1]))
	}
	l, err := placing.NewLayout(placing.EvenDivision(p.rus, p.after(w, "RUs", 1)), blocks)
	if err != nil {
		return err.Error() + "\n"
	}
	p.asm = newPreGrantedAssembler(l, p.number(w[2]))
	var out strings.Builder
	for ru := range p.rus {
		off, capacity := l.PartRange(ru)
		fmt.Fprintf(&out, "ru%d owns [%d, %d)\n", ru, off, off+capacity)
		for slot := range p.number(w[2]) {
			p.asm.RecordGrant(slot, ru, shmem.Ref{Window: uint32(ru), Gen: uint32(slot) + 1})
		}
	}
	p.before = p.asm.Stats()
	return out.String()
}

// place reads "ru1 placed 40 bytes of MEP 4 in slot 0", with "attempt", "window" (the slot whose window it wrote) and
// "from" (offset) where they are not the obvious.
func (p *preGrantedPlayer) place(ru, slot int, w []string) string {
	full := slotsOf(p.asm.ApplyPlacements(ru, []transport.Placement{{
		Ref:    shmem.Ref{Window: uint32(ru), Gen: uint32(p.after(w, "window", slot)) + 1},
		Offset: uint32(p.after(w, "from", 0)), Length: uint32(p.number(w[2])),
		Imm: placing.Immediate(uint64(p.after(w, "MEP", 0)), uint8(p.after(w, "attempt", 1)), uint32(slot)),
	}}, nil))
	before, s := p.before, p.asm.Stats()
	p.before = s
	for why := range rejectedPlacementKinds {
		if s.RejectedByReason[why] != before.RejectedByReason[why] {
			return fmt.Sprintf("stray: %s\n", why)
		}
	}
	if len(full) == 0 {
		return ""
	}
	m := p.asm.SlotMEP(slot)
	return fmt.Sprintf("slot %d is whole: MEP %d, attempt %d, %d bytes\n", full[0], m.MEP, m.Attempt, m.Size)
}
