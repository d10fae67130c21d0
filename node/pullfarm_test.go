package node_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ringlet/builderunit"
	"ringlet/event/placing"
	"ringlet/readoutunit"
	"ringlet/shmem"
	"ringlet/tagnet"
	tagcore "ringlet/tagnet/core"
	"ringlet/transport"
)

// farm is an event builder of the discipline pull, made of its cores alone: TagNet's as the event manager, and those of
// the builder and readout units. One thing happens at a time, in any order that the caller likes, and each is checked.
type farm struct {
	t interface {
		Helper()
		Fatalf(string, ...any)
	}
	cfg     farmConfig
	core    *tagcore.Allocator
	rus     []*farmRU
	bus     []*farmBU
	meps    []farmMEP
	last    int // builder unit that got the last token
	stopped int // 1 + the builder unit that finishes nothing; 0: none

	said *strings.Builder // nil where nobody listens
}

type farmConfig struct {
	rus, bus, slots int
	meps            int // that the input has; 0: no end
	pull            builderunit.Pull
	accept          func(mep uint64) bool
	size            func(mep uint64, ru int) uint32 // of the one MFP of a part, bytes
	rejection       readoutunit.RejectionPolicy     // what readout units give up by decisions, of which they hear
	losesDecisions  bool                            // they may miss some
}

type farmRU struct {
	*readoutunit.Transfers
	tokens    []tagnet.Tokens // that are on their way
	requested []uint64        // MEPs, in the order in which they were asked for
	writes    []uint64        // numbers of places whose writes are in place and have no outcome

	retained
}

type farmBU struct {
	asm        *builderunit.Assembler
	order      []int                // readout units, in the order in which they are to be asked
	roiUnits   int                  // how many of them before a decision
	open       int                  // parts asked for that are not in place
	progressed []slotProgress       // for the finisher
	judged     []int                // slots with regions that somebody is to decide on
	held       []tagcore.Feedback   // not told yet
	sent       [][]tagcore.Feedback // on its way to TagNet
}

type slotProgress struct {
	slot     int
	progress builderunit.Progress
}

// farmMEP is what should be known of a MEP.
type farmMEP struct {
	bu, slot  int
	sized     int // readout units that announced
	requested int
	parts     []string // by readout unit: "", announced, asked, landed, done
	outcome   tagcore.Outcome
}

func newFarm(t *testing.T, cfg farmConfig) *farm {
	f := &farm{t: t, cfg: cfg, last: -1}
	tc := tagcore.Config{
		Slots:        cfg.slots,
		Packing:      1,
		LookAhead:    cfg.slots,
		NoSlotPolicy: tagcore.Skip,
		Loose:        true,
		Rules:        tagcore.Rules{TurnOrder: tagcore.ByDemand},
	}
	for i := range cfg.rus {
		tc.RUs = append(tc.RUs, fmt.Sprint("ru", i))
		f.rus = append(f.rus, &farmRU{
			Transfers: openTransfers("pull", readoutunit.DisciplineConfig{BUs: cfg.bus, SlotsPerBU: cfg.slots}),
			retained:  newRetained(cfg),
		})
	}
	for j := range cfg.bus {
		tc.BUs = append(tc.BUs, fmt.Sprint("bu", j))
		p := cfg.pull
		p.FirstUnit = j % cfg.rus
		f.bus = append(f.bus, newFarmBU(cfg, p))
	}
	var err error
	if f.core, err = tagcore.NewAllocator(tc); err != nil {
		t.Fatal(err)
	}
	f.core.Start()
	return f
}

// newFarmBU knows by itself in which order the readout units are to be asked.
func newFarmBU(cfg farmConfig, p builderunit.Pull) *farmBU {
	b := &farmBU{asm: builderunit.NewAssembler(cfg.rus, cfg.slots, 1<<16, p)}
	var rest []int
	for i := range cfg.rus {
		if ru := (p.FirstUnit + i) % cfg.rus; slices.Contains(p.RegionUnits, ru) {
			b.order = append(b.order, ru)
		} else {
			rest = append(rest, ru)
		}
	}
	if b.roiUnits = len(b.order); b.roiUnits == 0 {
		b.roiUnits = cfg.rus
	}
	b.order = append(b.order, rest...)
	return b
}

func (f *farm) say(format string, args ...any) {
	if f.said != nil {
		fmt.Fprintf(f.said, format+"\n", args...)
	}
}

func (f *farm) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatalf("%v", err)
	}
}

// read lets every readout unit hold the MEPs below one.
func (f *farm) read(to uint64) {
	for i := range f.rus {
		f.must(f.core.ApplyUpdate(i, tagcore.Update{ReadBelow: to, Events: to, InputEnded: f.cfg.meps > 0 &&
			to == uint64(f.cfg.meps)}))
	}
	f.issue()
}

// issue sends tokens to all readout units.
func (f *farm) issue() {
	var batch tagcore.Batch
	batch.Reset(f.core.NextCycle(), f.core.PlacesPerCycle())
	f.core.Issue(&batch)
	for i := range batch.Len() {
		for place := range batch.PlacesPerCycle {
			if t, ok := batch.Token(i, place); ok {
				f.say("TagNet gives MEP %d to bu%d, slot %d", t.MEP, t.BU, t.Slot)
				f.meps = append(f.meps, farmMEP{bu: int(t.BU), slot: int(t.Slot), parts: make([]string, f.cfg.rus)})
				f.last = int(t.BU)
			}
		}
	}
	for _, u := range f.rus {
		u.tokens = append(u.tokens, tagnet.Tokens{Batch: batch, Released: f.core.Released(),
			HeldUp: slices.Clone(f.core.HeldUp())})
	}
}

// deliverTokens gives a readout unit the next tokens that are on their way, which it announces.
func (f *farm) deliverTokens(ru int) {
	u := f.rus[ru]
	t := u.tokens[0]
	u.tokens = u.tokens[1:]
	u.putAside(&t)
	if len(t.HeldUp) > 0 {
		t.Released = t.HeldUp[0]
	}
	u.Release(t.Released)
	u.freeReleased()
	defer u.freeReleased()
	for i := range t.Len() {
		f.must(u.AddCycle(&t.Batch, i))
		for _, bu := range u.VisitOrder() {
			if tok, ok := t.Token(i, bu); ok {
				f.announce(ru, &tok)
				u.rejected.AddToken(tok.MEP, tok.BU, tok.Slot)
			}
		}
	}
}

func (f *farm) announce(ru int, t *tagcore.Token) {
	b, m := f.bus[t.BU], &f.meps[t.MEP]
	f.checkHeld(ru, t.MEP)
	m.parts[ru] = "announced"
	m.sized++
	ready, err := b.asm.Announce(&placing.Announce{
		RU:          uint16(ru),
		StreamCount: 1,
		Slot:        t.Slot,
		Attempt:     uint32(t.Attempt),
		MEP:         t.MEP,
		Entries:     []placing.Entry{{Size: f.cfg.size(t.MEP, ru)}},
	})
	f.must(err)
	if ready != (m.sized == f.cfg.rus) {
		f.t.Fatalf("MEP %d: sized %v, after %d announcements", t.MEP, ready, m.sized)
	}
	f.request(int(t.BU))
}

// ref is the window of a part; all of an exploration must give the same one the same name.
func ref(mep uint64, ru int) shmem.Ref {
	return shmem.Ref{Window: uint32(ru) + 1, Gen: uint32(mep) + 1}
}

// request lets a builder unit ask for all that it wants now.
func (f *farm) request(bu int) {
	b := f.bus[bu]
	for slot, ru, ok := b.asm.NextRequest(); ok; slot, ru, ok = b.asm.NextRequest() {
		mep := b.asm.SlotMEP(slot).MEP
		m := &f.meps[mep]
		if want := b.order[m.requested]; ru != want || m.parts[ru] != "announced" || m.slot != slot || m.bu != bu {
			f.t.Fatalf("bu%d asks ru%d for MEP %d of slot %d, where ru%d is next: %+v", bu, ru, mep, slot, want, m)
		}
		for older := range mep {
			if x := &f.meps[older]; x.bu == bu && x.outcome == 0 && x.sized == f.cfg.rus && x.requested < b.roiUnits {
				f.t.Fatalf("bu%d asks for MEP %d before MEP %d", bu, mep, older)
			}
		}
		f.checkHeld(ru, mep)
		m.parts[ru] = "asked"
		m.requested++
		if b.open++; f.cfg.pull.RequestCredit > 0 && b.open > f.cfg.pull.RequestCredit {
			f.t.Fatalf("bu%d has %d requests out", bu, b.open)
		}
		f.say("bu%d asks ru%d for MEP %d", bu, ru, mep)
		_, size := b.asm.PartRange(slot, ru)
		r := ref(mep, ru)
		b.asm.RecordGrant(slot, ru, r)
		f.must(f.rus[ru].ApplyGrant(bu, &placing.Grant{
			Slot:    uint32(slot),
			Attempt: 1,
			MEP:     mep,
			Window:  r.Window,
			Gen:     r.Gen,
			Length:  uint32(size),
		}))
		f.rus[ru].requested = append(f.rus[ru].requested, mep)
	}
}

// write lets a readout unit write the part that was asked for first; it lands at once.
func (f *farm) write(ru int) {
	u := f.rus[ru]
	turn, n := u.Next()
	if turn != readoutunit.Send {
		f.t.Fatalf("ru%d %s", ru, turn)
	}
	t := *u.TransferAt(n)
	if t.MEP != u.requested[0] {
		f.t.Fatalf("ru%d writes MEP %d, where MEP %d was asked for first", ru, t.MEP, u.requested[0])
	}
	f.checkHeld(ru, t.MEP)
	if t.MEP < u.gone {
		u.copies = append(u.copies, t.MEP)
	}
	u.requested = u.requested[1:]
	u.Serve(n, 1, nil)
	u.writes = append(u.writes, n)
	f.say("ru%d writes MEP %d to bu%d", ru, t.MEP, t.BU)
	b, m := f.bus[t.BU], &f.meps[t.MEP]
	m.parts[ru] = "landed"
	b.open--
	before := b.asm.Stats().PartsInPlace
	for _, l := range b.asm.ApplyPlacements(ru, []transport.Placement{{
		Ref: t.Ref, Length: t.GrantedBytes, Imm: placing.Immediate(t.MEP, t.Attempt, t.Slot),
	}}, nil) {
		b.progressed = append(b.progressed, slotProgress{int(l.Slot), l.Progress})
	}
	if b.asm.Stats().PartsInPlace != before+1 {
		f.t.Fatalf("the part of ru%d of MEP %d is not all there", ru, t.MEP)
	}
	f.request(int(t.BU))
}

// complete gives a readout unit the outcome of its oldest write.
func (f *farm) complete(ru int) {
	u := f.rus[ru]
	t := *u.TransferAt(u.writes[0])
	if !slices.Contains(u.copies, t.MEP) {
		f.checkHeld(ru, t.MEP) // until then the link may send it again
	}
	f.must(u.Complete(u.writes[:1]))
	u.writes = u.writes[1:]
	f.meps[t.MEP].parts[ru] = "done"
	u.freeReleased()
}

// finish lets a builder unit's finisher take the MEP that was complete first.
func (f *farm) finish(bu int) {
	b := f.bus[bu]
	l := b.progressed[0]
	b.progressed = b.progressed[1:]
	mep := b.asm.SlotMEP(l.slot)
	m := &f.meps[mep.MEP]
	if l.progress != builderunit.CompletedMEP {
		f.say("bu%d has MEP %d judged", bu, mep.MEP)
		b.judged = append(b.judged, l.slot)
		return
	}
	f.say("bu%d has built MEP %d", bu, mep.MEP)
	b.asm.Finish([]uint32{uint32(l.slot)}, 0, 0)
	m.outcome = tagcore.Built
	f.outcome(bu, l.slot, mep.MEP)
}

// decide gives a builder unit the decision on the region that has been judged for the longest time.
func (f *farm) decide(bu int) {
	b := f.bus[bu]
	slot := b.judged[0]
	b.judged = b.judged[1:]
	mep := b.asm.SlotMEP(slot).MEP
	if f.cfg.accept(mep) {
		f.say("bu%d keeps MEP %d", bu, mep)
		b.asm.Accept(slot)
		f.request(bu)
		return
	}
	f.say("bu%d rejects MEP %d", bu, mep)
	b.asm.Reject(slot)
	f.meps[mep].outcome = tagcore.Rejected
	f.outcome(bu, slot, mep)
}

// outcome records that a builder unit is done with a MEP.
func (f *farm) outcome(bu, slot int, mep uint64) {
	b, m := f.bus[bu], &f.meps[mep]
	b.held = append(b.held, tagcore.Feedback{
		MEP:     mep,
		Slot:    uint32(slot),
		Events:  1,
		Attempt: 1,
		Outcome: m.outcome,
	})
	if b.asm.HoldOutcome() {
		return
	}
	f.say("bu%d asks TagNet for %d", bu, len(b.held))
	b.sent = append(b.sent, b.held)
	b.held = nil
}

// deliverFeedback gives TagNet what a builder unit told first.
func (f *farm) deliverFeedback(bu int) {
	b := f.bus[bu]
	for _, o := range b.sent[0] {
		f.must(f.core.ApplyFeedback(bu, o))
	}
	b.sent = b.sent[1:]
	f.issue()
}

// steps are the names of all that can happen now.
func (f *farm) steps() (out []step) {
	for i, u := range f.rus {
		if len(u.tokens) > 0 {
			out = append(out, step{f.deliverTokens, i})
		}
		if turn, _ := u.Next(); turn == readoutunit.Send {
			out = append(out, step{f.write, i})
		}
		if len(u.writes) > 0 {
			out = append(out, step{f.complete, i})
		}
		out = f.decisionSteps(out, i)
	}
	for j, b := range f.bus {
		if len(b.progressed) > 0 && j != f.stopped-1 {
			out = append(out, step{f.finish, j})
		}
		if len(b.judged) > 0 {
			out = append(out, step{f.decide, j})
		}
		if len(b.sent) > 0 {
			out = append(out, step{f.deliverFeedback, j})
		}
	}
	return out
}

type step struct {
	do   func(int)
	unit int
}

// checkEnd holds, where nothing more can happen, that everything has.
func (f *farm) checkEnd() {
	c := f.core.Registers().Counters
	if f.core.State() != tagcore.Drained || len(f.meps) != f.cfg.meps || c.Built+c.Rejected != c.Issued {
		f.t.Fatalf("nothing more can happen, and TagNet is %s with %d of %d MEPs issued: %+v", f.core.State(), len(f.meps),
			f.cfg.meps, c)
	}
	var unasked, rest uint64
	for i, u := range f.rus {
		if u.OpenTransfers() > 0 {
			f.t.Fatalf("ru%d has %d transfers open at the end", i, u.OpenTransfers())
		}
		unasked += u.UnrequestedTransfers()
	}
	for j, b := range f.bus {
		if s := b.asm.Stats(); len(b.held) > 0 || b.open > 0 || len(b.asm.AppendUnfinished(nil)) > 0 ||
			s.RejectedPlacements+s.RefusedAnnouncements+s.IncompleteMEPs > 0 {
			f.t.Fatalf("bu%d is not at its end: %+v", j, s)
		}
		rest += b.asm.Stats().UnrequestedParts
	}
	if unasked != rest {
		f.t.Fatalf("%d parts were not asked for, the readout units let go %d", rest, unasked)
	}
	for mep := range f.meps {
		want := tagcore.Built
		if len(f.cfg.pull.RegionUnits) > 0 && !f.cfg.accept(uint64(mep)) {
			want = tagcore.Rejected
		}
		if got := f.meps[mep].outcome; got != want {
			f.t.Fatalf("MEP %d is %s, not %s", mep, got, want)
		}
	}
}
