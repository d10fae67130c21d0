package builderunit

import (
	"fmt"
	"strings"
	"testing"

	"ringlet/event/placing"
	"ringlet/shmem"
	"ringlet/testkit/transcript"
)

// TestTranscripts plays every transcript in testdata with the assembler.
func TestTranscripts(t *testing.T) {
	transcript.Play(t, func(t *testing.T) transcript.Answer {
		p := &player{t: t}
		return func(command string) string { return p.say(strings.Fields(command)) }
	})
}

type player struct {
	t          *testing.T
	asm        *Assembler
	preGranted *preGrantedPlayer
	rus        int
}

// after is the number that follows a word, or def.
func (p *player) after(w []string, word string, def int) int {
	for i := range w[:len(w)-1] {
		if w[i] == word {
			return p.number(w[i+1])
		}
	}
	return def
}

func (p *player) say(w []string) string {
	slot := 0
	if len(w) > 1 {
		slot = p.after(w, "slot", 0)
	}
	switch {
	case p.preGranted != nil || w[0] == "standing":
		if p.preGranted == nil {
			p.preGranted = &preGrantedPlayer{player: p}
		}
		return p.preGranted.say(slot, w)
	case w[0] == "assembler": // assembler of 2 slots of 4096 bytes for 3 RUs
		p.rus = p.number(w[8])
		pull := Pull{}
		if ru := p.after(w, "interest", -1); ru >= 0 { // , of interest ru1
			pull.RegionUnits = []int{ru}
		}
		p.asm = NewAssembler(p.rus, p.number(w[2]), p.number(w[5]), pull)
	case strings.HasPrefix(w[0], "ru") && w[1] == "announces":
		return p.announce(p.number(w[0]), slot, w)
	case strings.HasPrefix(w[0], "ru"): // ru0 wrote 100 bytes to slot 0
		ref := shmem.Ref{Window: uint32(p.number(w[0])), Gen: uint32(p.after(w, "generation", 1))}
		switch placed(p.asm, slot, p.number(w[0]), ref, uint32(p.number(w[2]))) {
		case CompletedMEP:
			return fmt.Sprintf("slot %d is whole\n", slot)
		case CompletedRegion:
			return fmt.Sprintf("the region of slot %d is in place\n", slot)
		}
	case w[0] == "keep", w[0] == "reject": // keep MEP 7 attempt 1 slot 1
		return p.decide(slot, w)
	case w[0] == "tell": // tell of slot 1
		p.asm.Reject(slot)
	case w[0] == "withdraw":
		remaining := p.asm.withdrawSlots(func(slot int) {})
		return fmt.Sprintf("%d are left\n", remaining)
	case w[0] == "finish":
		finish(p.asm, slot)
	case w[0] == "abandon":
		p.asm.abandonSlot(slot)
	case w[0] == "show":
		return p.show()
	case w[0] == "places":
		return p.places(slot)
	default:
		return "not understood\n"
	}
	return ""
}

// announce reads "ru1 announces MEP 4 slot 0: 100 200", with "attempt", "from" (first stream) and "of" (streams) where
// they are not the obvious.
func (p *player) announce(ru, slot int, w []string) string {
	m := placing.Announce{
		RU:          uint16(ru),
		Slot:        uint32(slot),
		MEP:         uint64(p.after(w, "MEP", 0)),
		Attempt:     uint32(p.after(w, "attempt", 1)),
		FirstStream: uint16(p.after(w, "from", 0)),
	}
	colon := len(w)
	for i := range w {
		if strings.HasSuffix(w[i], ":") {
			colon = i + 1
		}
	}
	for _, s := range w[colon:] {
		m.Entries = append(m.Entries, placing.Entry{Size: uint32(p.number(s))})
	}
	m.StreamCount = uint16(p.after(w[:colon], "of", len(m.Entries)))
	ready, err := p.asm.Announce(&m)
	if err != nil {
		return fmt.Sprintf("refused: %v\n", err)
	}
	if !ready {
		return ""
	}
	return p.requestParts() + fmt.Sprintf("the MEP has %d bytes\n", p.asm.SlotMEP(slot).Size)
}

// requestParts has the parts asked for that are to be asked for now.
func (p *player) requestParts() string {
	var out strings.Builder
	for slot, ru, ok := p.asm.NextRequest(); ok; slot, ru, ok = p.asm.NextRequest() {
		off, size := p.asm.PartRange(slot, ru)
		p.asm.RecordGrant(slot, ru, shmem.Ref{Window: uint32(ru), Gen: 1})
		fmt.Fprintf(&out, "ru%d may write [%d, %d)\n", ru, off, off+size)
	}
	return out.String()
}

// decide takes a decision on a region, if it is one that the slot waits for.
func (p *player) decide(slot int, w []string) string {
	if !p.asm.awaitsDecision(slot, uint64(p.after(w, "MEP", 0)), uint32(p.after(w, "attempt", 1))) {
		return "nobody waits for that\n"
	}
	if w[0] == "reject" {
		p.asm.markRejecting(slot)
		return ""
	}
	p.asm.Accept(slot)
	return p.requestParts()
}

func (p *player) places(slot int) string {
	var out strings.Builder
	for _, x := range p.asm.appendMFPPlaces(slot, nil, true) {
		fmt.Fprintf(&out, "source %d: [%d, %d)\n", x.Source, x.Offset, x.Offset+x.Size)
	}
	return out.String()
}

func (p *player) show() string {
	s, rejected := p.asm.Stats(), ""
	if s.RejectedMEPs > 0 {
		rejected = fmt.Sprintf("; %d rejected, %d parts and %d bytes of them spared", s.RejectedMEPs, s.UnrequestedParts,
			s.SparedBytes)
	}
	return fmt.Sprintf("%d announcements, %d refused; %d grants, %d strays; %d MEPs of %d MFPs and %d bytes, %d "+
		"incomplete; unfinished %v%s\n",
		s.Announcements, s.RefusedAnnouncements, s.WindowsGranted, s.RejectedPlacements, s.BuiltMEPs, s.PlacedMFPs,
		s.BuiltBytes, s.IncompleteMEPs, p.asm.AppendUnfinished(nil), rejected)
}

func (p *player) number(word string) int { return transcript.Number(p.t, word) }
