package tagnet

import (
	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet/core"
)

// The words of packed lists (docs/format/tagnet.md).

// flagBit is the bit for Rejoined or Lost in the first word of an absence or a withdrawal.
const flagBit = 1 << 63

// returnedBit is the bit for Returned in the first word of a withdrawal.
const returnedBit = 1 << 62

const wordsPerAbsence = 3

func flagged(index uint16, flag bool) uint64 {
	if flag {
		return uint64(index) | flagBit
	}
	return uint64(index)
}

// appendAbsences appends absences in their form on the wire.
func appendAbsences(words []uint64, all []core.Absence) []uint64 {
	for _, a := range all {
		words = append(words, flagged(a.RU, a.Rejoined), a.FirstCycle, a.FirstMEP)
	}
	return words
}

// decodeAbsences decodes consecutive absences; false if words are none.
func decodeAbsences(words []uint64) (all []core.Absence, ok bool) {
	if len(words)%wordsPerAbsence != 0 {
		return nil, false
	}
	for ; len(words) > 0; words = words[wordsPerAbsence:] {
		ru := words[0] &^ flagBit
		if ru > 1<<16-1 {
			return nil, false
		}
		all = append(all, core.Absence{
			RU:         uint16(ru),
			Rejoined:   words[0] != ru,
			FirstCycle: words[1],
			FirstMEP:   words[2],
		})
	}
	return all, true
}

// appendWithdrawals appends withdrawals in their form on the wire.
func appendWithdrawals(words []uint64, all []core.Withdrawal) []uint64 {
	for _, w := range all {
		word := flagged(w.BU, w.Lost)
		if w.Returned {
			word |= returnedBit
		}
		words = append(words, word, w.BeforeCycle)
	}
	return words
}

// decodeWithdrawals decodes consecutive withdrawals, of two words each; false if words are none.
func decodeWithdrawals(words []uint64, places int) (all []core.Withdrawal, ok bool) {
	if len(words)%2 != 0 {
		return nil, false
	}
	for ; len(words) > 0; words = words[2:] {
		bu := words[0] &^ (flagBit | returnedBit)
		w := core.Withdrawal{
			BU:          uint16(bu),
			Lost:        words[0]&flagBit != 0,
			Returned:    words[0]&returnedBit != 0,
			BeforeCycle: words[1],
		}
		if bu >= uint64(places) || w.Lost && w.Returned {
			return nil, false
		}
		all = append(all, w)
	}
	return all, true
}

// decodeTags decodes consecutive tags; false if words are none.
func decodeTags(words []uint64) (tags []core.Tag, ok bool) {
	for ok = true; ok && len(words) > 0; {
		var t core.Tag
		if t, words, ok = core.ParseTag(words); ok {
			tags = append(tags, t)
		}
	}
	return tags, ok
}

// decodeCuts decodes consecutive cuts from event end on; false if words are none.
func decodeCuts(words []uint64, end uint64) ([]core.Cut, bool) {
	if len(words)%2 != 0 {
		return nil, false
	}
	var cuts []core.Cut
	for i := 0; i < len(words); i += 2 {
		first, n := words[i], words[i+1]
		if first < end || n < 1 || n > 1<<16-1 || first > core.NoMEP-n {
			return nil, false
		}
		cuts = append(cuts, core.Cut{FirstEvent: first, Events: uint32(n)})
		end = first + n
	}
	return cuts, true
}

func decodeReach(m *tagnetv1.Reach) *core.Reach {
	if m == nil {
		return nil
	}
	return &core.Reach{
		FirstUncut:    m.GetFrom(),
		CompleteBelow: m.GetTo(),
		FlushBelow:    m.GetFlush(),
		OverdueBelow:  m.GetOverdue(),
		Ended:         m.GetOver(),
	}
}

func decodeCutPosition(m *tagnetv1.CutPosition) *core.CutPosition {
	if m == nil {
		return nil
	}
	return &core.CutPosition{MEP: m.GetMep(), EventsBefore: m.GetEventsBefore(), End: m.GetEnd()}
}

func cutPositionMessage(p *core.CutPosition) *tagnetv1.CutPosition {
	if p == nil {
		return nil
	}
	return &tagnetv1.CutPosition{Mep: p.MEP, EventsBefore: p.EventsBefore, End: p.End}
}

func decodeUnbuilt(m *tagnetv1.Unbuilt) core.Unbuilt {
	return core.Unbuilt{
		Discarded:       m.GetDiscarded(),
		EventsDiscarded: m.GetEventsDiscarded(),
		Rejected:        m.GetRejected(),
		EventsRejected:  m.GetEventsRejected(),
		Abandoned:       m.GetAbandoned(),
		EventsAbandoned: m.GetEventsAbandoned(),
	}
}

// unbuiltMessage is nil if there are none.
func unbuiltMessage(u *core.Unbuilt) *tagnetv1.Unbuilt {
	if *u == (core.Unbuilt{}) {
		return nil
	}
	return &tagnetv1.Unbuilt{
		Discarded:       u.Discarded,
		EventsDiscarded: u.EventsDiscarded,
		Rejected:        u.Rejected,
		EventsRejected:  u.EventsRejected,
		Abandoned:       u.Abandoned,
		EventsAbandoned: u.EventsAbandoned,
	}
}

func decodeTriggerTotals(m *tagnetv1.TriggerTotals) core.TriggerTotals {
	return core.TriggerTotals{Taken: m.GetTaken(), Refused: m.GetRefused(), Lost: m.GetLost()}
}

// triggerTotalsMessage is nil if there are none.
func triggerTotalsMessage(t core.TriggerTotals) *tagnetv1.TriggerTotals {
	if t == (core.TriggerTotals{}) {
		return nil
	}
	return &tagnetv1.TriggerTotals{Taken: t.Taken, Refused: t.Refused, Lost: t.Lost}
}

// appendCuts appends cuts in their form on the wire.
func appendCuts(words []uint64, cuts []core.Cut) []uint64 {
	for _, c := range cuts {
		words = append(words, c.FirstEvent, uint64(c.Events))
	}
	return words
}

func reachMessage(r *core.Reach) *tagnetv1.Reach {
	if r == nil {
		return nil
	}
	return &tagnetv1.Reach{
		From:    r.FirstUncut,
		To:      r.CompleteBelow,
		Flush:   r.FlushBelow,
		Overdue: r.OverdueBelow,
		Over:    r.Ended,
	}
}

// listLengthsMatch tells that each list of a message has one element per entry, or, where allowed, one element for all
// entries.
func listLengthsMatch(m *tagnetv1.FeedbackBatch) bool {
	n := len(m.Meps)
	one := func(k int) bool { return k == n || k == 1 && n > 0 }
	return len(m.Slots) == n && one(len(m.Events)) && one(len(m.HeldUs)) && one(len(m.Outcomes))
}

// expandConsecutive makes the MEPs of n places from those of the first cycle: each place has the MEP of the cycle
// before plus one cycle's width.
func expandConsecutive(first []uint64, n int) []uint64 {
	all := make([]uint64, n)
	width := copy(all, first)
	for i := width; i < n; i++ {
		all[i] = all[i-width] + uint64(width)
	}
	return all
}

func placedTokensMessage(all []core.PlacedToken) *tagnetv1.PlacedTokens {
	m, live := &tagnetv1.PlacedTokens{}, false
	for _, t := range all {
		m.Meps, m.Slots = append(m.Meps, t.MEP), append(m.Slots, core.PackSlot(t.Attempt, t.Slot))
		m.Bus, m.Cycles = append(m.Bus, uint32(t.BU)), append(m.Cycles, t.Cycle)
		m.Events, live = append(m.Events, t.Events), live || t.Events > 0
	}
	if !live {
		m.Events = nil
	}
	return m
}

// decodePlacedTokens decodes tokens for builder units below bus; false if the message is none.
func decodePlacedTokens(m *tagnetv1.PlacedTokens, bus int) (all []core.PlacedToken, ok bool) {
	n := len(m.GetMeps())
	if len(m.GetSlots()) != n || len(m.GetBus()) != n || len(m.GetCycles()) != n ||
		len(m.GetEvents()) != n && len(m.GetEvents()) != 0 {
		return nil, false
	}
	for i, mep := range m.GetMeps() {
		if m.Bus[i] >= uint32(bus) || mep == core.NoMEP {
			return nil, false
		}
		attempt, slot := core.UnpackSlot(m.Slots[i])
		all = append(all, core.PlacedToken{Token: core.Token{MEP: mep, Slot: slot, BU: uint16(m.Bus[i]), Attempt: attempt},
			Cycle: m.Cycles[i]})
		if len(m.Events) > 0 {
			all[i].Events = m.Events[i]
		}
	}
	return all, true
}

func recallMessage(r *core.Recall) *tagnetv1.Recall {
	m := &tagnetv1.Recall{
		Absent:      appendAbsences(nil, r.Absences),
		NextCycle:   r.NextCycle,
		Released:    r.Released,
		HeldUp:      r.HeldUp,
		Unbuilt:     unbuiltMessage(&r.Unbuilt),
		Triggers:    triggerTotalsMessage(r.Triggers),
		TokenCount:  r.TokenCount,
		Tokens:      placedTokensMessage(r.Tokens),
		Withdrawn:   appendWithdrawals(nil, r.Withdrawals),
		Entries:     r.Entries,
		Built:       r.Totals.Built,
		EventsBuilt: r.Totals.EventsBuilt,
		Discarded:   r.Totals.Discarded,
		Rejected:    r.Totals.Rejected,

		Cuts:         appendCuts(nil, r.Cuts),
		NextCut:      cutPositionMessage(r.NextCut),
		CutsOver:     r.CutsOver,
		EventsBefore: r.EventsBefore,
	}
	for _, f := range r.Outcomes {
		m.Meps, m.Slots = append(m.Meps, f.MEP), append(m.Slots, core.PackSlot(f.Attempt, f.Slot))
		m.Events, m.Outcomes = append(m.Events, f.Events), append(m.Outcomes, byte(f.Outcome))
	}
	return m
}

// decodeRecall decodes what a unit knows, and checks it against the view; false if it is impossible.
func decodeRecall(m *tagnetv1.Recall, view *core.Config) (*core.Recall, bool) {
	if m == nil {
		return nil, true
	}
	r := &core.Recall{
		NextCycle:  m.GetNextCycle(),
		Released:   m.GetReleased(),
		HeldUp:     m.GetHeldUp(),
		Unbuilt:    decodeUnbuilt(m.GetUnbuilt()),
		Triggers:   decodeTriggerTotals(m.GetTriggers()),
		TokenCount: m.GetTokenCount(),
		Entries:    m.GetEntries(),
		Totals: core.OutcomeTotals{Built: m.GetBuilt(), EventsBuilt: m.GetEventsBuilt(), Discarded: m.GetDiscarded(),
			Rejected: m.GetRejected()},
		NextCut:      decodeCutPosition(m.GetNextCut()),
		CutsOver:     m.GetCutsOver(),
		EventsBefore: m.GetEventsBefore(),
	}
	var absences, withdrawals, tokens, cuts bool
	r.Absences, absences = decodeAbsences(m.GetAbsent())
	r.Withdrawals, withdrawals = decodeWithdrawals(m.GetWithdrawn(), len(view.BUs))
	r.Tokens, tokens = decodePlacedTokens(m.GetTokens(), len(view.BUs))
	r.Cuts, cuts = decodeCuts(m.GetCuts(), 0)
	n := len(m.GetMeps())
	if !absences || !withdrawals || !tokens || !cuts || len(m.GetSlots()) != n || len(m.GetEvents()) != n ||
		len(m.GetOutcomes()) != n {
		return nil, false
	}
	for i, mep := range m.GetMeps() {
		attempt, slot := core.UnpackSlot(m.Slots[i])
		r.Outcomes = append(r.Outcomes, core.Feedback{MEP: mep, Slot: slot, Events: m.Events[i], Attempt: attempt,
			Outcome: core.Outcome(m.Outcomes[i])})
	}
	return r, r.Fits(view)
}
