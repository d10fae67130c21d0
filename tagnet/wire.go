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
