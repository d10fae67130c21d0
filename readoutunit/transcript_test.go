package readoutunit

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ringlet/event/placing"
	"ringlet/tagnet"
	"ringlet/tagnet/core"
	"ringlet/testkit/transcript"
)

// TestTranscripts plays every transcript in testdata with the cores of all readout units of a view.
func TestTranscripts(t *testing.T) {
	transcript.Play(t, func(t *testing.T) transcript.Answer {
		p := &player{t: t}
		tagRing := &tagRingPlayer{player: p}
		return func(command string) string {
			w := strings.Fields(command)
			switch {
			case strings.HasPrefix(command, "ring of"):
				return tagRing.open(w)
			case tagRing.w != nil:
				return tagRing.say(w)
			}
			return p.say(w)
		}
	})
}

// player drives the cores of all readout units of one view.
type player struct {
	t     *testing.T
	units []*actor
	bus   int
	cycle uint64
	gen   uint32
}

// actor is one readout unit: its two cores, and the writes it has under way, in whatever discipline.
type actor struct {
	*Transfers
	ru        int
	seat      int // in the shift
	retention *Retention
	bursts    *burstPool
	sent      []*burst
}

func (u *actor) isShift() bool {
	_, is := u.order.(*shift)
	return is
}

// say gives one command to the units and tells their answer, each line ended.
func (p *player) say(w []string) string {
	if w[0] == "view" {
		return p.view(w)
	}
	who := p.units
	if strings.HasPrefix(w[0], "ru") {
		who, w = who[p.number(w[0]):][:1], w[1:]
	}
	var out strings.Builder
	for _, u := range who {
		if answer := p.runCommand(u, w); answer != "" {
			fmt.Fprintf(&out, "ru%d %s\n", u.ru, answer)
		}
	}
	if w[0] == "cycle" && out.Len() == 0 {
		p.cycle++
	}
	return out.String()
}

// view reads e.g. "view of 2 RUs and 3 BUs with 4 slots", "... in free order", "... in pulled order", "... seated 0/0
// -/- 1/1", "... and standing windows", "... in rounds of 3".
func (p *player) view(w []string) string {
	rus, slots := 0, 0
	for i, s := range w {
		switch s {
		case "RUs":
			rus = p.number(w[i-1])
		case "BUs":
			p.bus = p.number(w[i-1])
		case "slots":
			slots = p.number(w[i-1])
		}
	}
	for ru := range rus {
		u := &actor{
			seat:      ru,
			Transfers: newShift(ru, SeatsInOrder(rus, p.bus), p.bus, slots, false),
			ru:        ru,
			retention: newRetention(p.t, 1, 8, 64),
			bursts:    newBurstPool(p.bus),
		}
		switch at := slices.Index(w, "seated"); {
		case slices.Contains(w, "pulled"):
			u.Transfers = newPulled(p.bus, slots)
		case slices.Contains(w, "free"):
			u.Transfers = newFree(p.bus, slots)
		case at >= 0:
			seats := p.seats(w[at+1:])
			u.Transfers, u.seat = newShift(ru, seats, p.bus, slots, false), slices.Index(seats.RUs, ru)
		}
		if slices.Contains(w, "standing") {
			u.enablePreGranted()
		}
		if at := slices.Index(w, "rounds"); at >= 0 {
			u.setMaxCycles(p.number(w[at+2]))
		}
		p.units = append(p.units, u)
	}
	if u := p.units[0]; u.isShift() {
		_, phases := u.progress()
		return fmt.Sprintf("%d phases to a cycle\n", phases)
	}
	return ""
}

// seats reads readout and builder unit of each seat, e.g. "0/0 -/- 1/1".
func (p *player) seats(w []string) Seats {
	var s Seats
	unit := func(word string) int {
		if word == "-" {
			return Dummy
		}
		return p.number(word)
	}
	for _, seat := range w {
		ru, bu, _ := strings.Cut(seat, "/")
		s.RUs, s.BUs = append(s.RUs, unit(ru)), append(s.BUs, unit(bu))
	}
	return s
}

func (p *player) runCommand(u *actor, w []string) string {
	switch w[0] {
	case "read": // read up to 4
		return u.read(uint64(p.number(w[3])))
	case "cycle": // cycle 0/0 - 2/1: MEP and slot at each place
		return p.newCycle(u, w[1:])
	case "windows": // windows of bu0 from slot 0: 7 8
		return p.windows(u, w)
	case "grant": // grant of bu1: MEP 2 slot 0
		return p.grant(u, w)
	case "sends":
		return u.sends()
	case "write": // write is done, write 3 is done
		return p.done(u, w)
	case "without": // without bu1: it is excluded; what was said before is withdrawn
		u.Withdraw(core.Withdrawal{BU: uint16(p.number(w[1])), BeforeCycle: p.cycle})
		return u.leftovers()
	case "full", "room": // full to bu1: the link takes no more; room to bu1: it does again
		u.setLinkFull(p.number(w[2]), w[0] == "full")
		return ""
	case "loses": // loses bu1: the link to it is down
		bu := p.number(w[1])
		u.markLost(bu)
		u.bursts.abandon(bu)
		u.sent = slices.DeleteFunc(u.sent, func(b *burst) bool { return b.BU == bu })
		return u.leftovers()
	case "confirms":
		x, ok := u.nextQuiesced()
		if !ok {
			return "confirms nothing"
		}
		return fmt.Sprintf("confirms exclusion %d", x.Number)
	case "has":
		return fmt.Sprintf("has %d transfers open, %d were never asked for", u.OpenTransfers(), u.UnrequestedTransfers())
	case "advances":
		return u.advances()
	case "released": // released 3, released 6 but 1 4
		t := tagnet.Tokens{Released: uint64(p.number(w[1]))}
		for _, mep := range w[min(3, len(w)):] {
			t.HeldUp = append(t.HeldUp, uint64(p.number(mep)))
		}
		u.retention.copyHeldUp(t.HeldUp)
		u.Release(lowestNeeded(&t))
		u.bursts.release(t.Released)
		u.retention.freeBelow(u.bursts.lowestNeeded())
		return u.holds()
	case "phase":
		answer := u.sends()
		if len(u.sent) > 0 {
			p.done(u, nil)
		}
		if action, _ := u.Next(); action == AdvancePhase {
			u.AdvancePhase(max(1, u.cyclesAhead()))
		}
		return answer
	}
	return "does not understand"
}

func (u *actor) leftovers() string {
	l := u.WithdrawalStats
	return fmt.Sprintf("has %d transfers open and %d writes left; %d tokens are withdrawn, %d writes failed, %d grants "+
		"came late",
		u.OpenTransfers(), u.orphanedWrites(), l.WithdrawnTokens, l.FailedWrites, l.LateGrants)
}

func (u *actor) read(to uint64) string {
	for u.retention.heldTo < to {
		_, _, sizes, ok := u.retention.reserve(1)
		if !ok {
			return "has no buffer"
		}
		sizes[0] = placing.EntrySize + 4
		u.retention.commit(1)
	}
	return ""
}

func (u *actor) holds() string {
	var kept []string
	from, to := u.retention.heldFrom, u.retention.heldTo
	for mep := range from {
		if u.retention.heldUpPart(mep) != nil {
			kept = append(kept, fmt.Sprint(mep))
		}
	}
	if from < to {
		kept = append(kept, fmt.Sprintf("%d to %d", from, to-1))
	}
	if len(kept) == 0 {
		return "keeps nothing"
	}
	return "keeps MEPs " + strings.Join(kept, ", ")
}

func (p *player) windows(u *actor, w []string) string {
	m := placing.PreGrants{FirstSlot: uint32(p.number(strings.TrimSuffix(w[5], ":")))}
	for _, s := range w[6:] {
		m.Refs = append(m.Refs, placing.Ref{Window: uint32(p.number(s)), Gen: 1})
	}
	if err := u.applyPreGrants(p.number(w[2]), &m); err != nil {
		return "refuses: " + err.Error()
	}
	return ""
}

func (p *player) newCycle(u *actor, w []string) string {
	var c []core.Token
	for _, s := range w {
		if s == "-" {
			c = append(c, none)
			continue
		}
		mep, slot, _ := strings.Cut(s, "/")
		slot, attempt, again := strings.Cut(slot, "#")
		t := newToken(uint64(p.number(mep)), uint32(p.number(slot)))
		if again {
			t.Attempt = uint8(p.number(attempt))
		}
		c = append(c, t)
	}
	if err := u.AddCycle(batch(p.cycle, c), 0); err != nil {
		return "refuses: " + err.Error()
	}
	return ""
}

func (p *player) grant(u *actor, w []string) string {
	p.gen++
	g := placing.Grant{
		Window:  7,
		Gen:     p.gen,
		Length:  4,
		Attempt: 1,
	}
	bu := p.number(w[2])
	for i := 3; i+1 < len(w); i += 2 {
		n := p.number(w[i+1])
		switch w[i] {
		case "MEP":
			g.MEP = uint64(n)
		case "slot":
			g.Slot = uint32(n)
		case "attempt":
			g.Attempt = uint32(n)
		}
	}
	if err := u.ApplyGrant(bu, &g); err != nil {
		return "refuses: " + err.Error()
	}
	return ""
}

func (u *actor) sends() string {
	action, n := u.Next()
	switch action {
	case WaitToken:
		return "has no cycle"
	case AdvancePhase:
		return u.silent()
	}
	if !u.isShift() && action != Send {
		return action.String()
	}
	t := u.TransferAt(n)
	bu := t.BU
	if action != Send {
		return fmt.Sprintf("waits for bu%d to grant MEP %d, which is %s", bu, t.MEP, t.Stage)
	}
	b := u.bursts.open(int(bu))
	var out []string
	b.Places = u.Serve(n, maxBurst, b.Places)
	for _, n := range b.Places {
		t := u.TransferAt(n)
		part, err := u.retention.lookUp(t.MEP)
		if err != nil {
			return err.Error()
		}
		b.add(t, part)
		out = append(out, fmt.Sprintf("MEP %d to bu%d, slot %d", t.MEP, bu, t.Slot))
	}
	u.sent = append(u.sent, b)
	return "writes " + strings.Join(out, "; ")
}

// silent says why a phase of the shift has nothing to send.
func (u *actor) silent() string {
	s := u.order.(*shift)
	phase, phases := u.progress()
	if s.buByPhase[phase] == Dummy {
		return fmt.Sprintf("is silent: place %d is no builder unit's", targetSeat(u.seat, phase, phases))
	}
	return fmt.Sprintf("is silent: bu%d's place is empty", s.buByPhase[phase])
}

// done is told of one write, by its number among those under way, or of all.
func (p *player) done(u *actor, w []string) string {
	from, to := 0, len(u.sent)
	if len(w) > 1 && w[1] != "is" {
		from = p.number(w[1])
		to = from + 1
	}
	for _, b := range u.sent[from:to] {
		if _, err := u.bursts.complete(uint64(b.id)); err != nil {
			return err.Error()
		}
		if err := u.Complete(b.Places); err != nil {
			return err.Error()
		}
	}
	u.retention.freeBelow(u.bursts.lowestNeeded())
	u.sent = append(u.sent[:from], u.sent[to:]...)
	return fmt.Sprintf("has %d transfers open", u.OpenTransfers())
}

func (u *actor) advances() string {
	u.AdvancePhase(max(1, u.cyclesAhead()))
	return ""
}

func (p *player) number(word string) int { return transcript.Number(p.t, word) }
