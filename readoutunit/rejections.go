package readoutunit

// RejectionPolicy says which parts a readout unit frees because their events were rejected. The zero value: none, and
// each part stays until the scheduler has the outcome of its MEP. A part may be freed only if no builder unit will
// fetch it again: in runs in which builder units request what they want, and which do not tolerate the loss of one
// (docs/design/054-decisions.md).
type RejectionPolicy struct {
	// Packing is the number of events of a MEP; 0: no part is freed early.
	Packing int
	// IncludesWritten says that parts which were written may be freed, too, as soon as their writes have their outcome: no
	// rejected event reaches an output. Otherwise only parts are freed that were never requested, since the rest of such a
	// MEP counts only when the builder unit's output has it.
	IncludesWritten bool
}

// Rejections is the pure core of what a readout unit frees because of decisions: MEP after MEP, from the lowest one
// that it holds on. It does no I/O and takes no locks; its owner calls it under a lock.
//
//	AddToken ─► (announced, perhaps written) ─► MarkRejected ─► Release: parts below may be freed
type Rejections struct {
	rule     RejectionPolicy
	meps     []rejectableMEP // MEP k at index k mod length; nil: no part is freed early
	firstMEP uint64          // MEPs below are freed

	rejectedFrom, rejectedTo uint64 // events: the last rejected ones without a gap

	stats RejectionStats
}

// rejectableMEP is what is known of one MEP.
type rejectableMEP struct {
	mepPlusOne uint64 // 1 + its number; another number: nothing is known of the MEP
	slot       uint32
	bu         uint16
	hasToken   bool // it has a token, which named bu and slot
	rejected   bool // all its events were rejected
}

// RejectionStats counts what was freed early.
type RejectionStats struct {
	FreedMEPs  uint64 `count:"rejected_meps_freed" help:"MEPs given up early, since all their events were rejected"`
	FreedMFPs  uint64 `count:"rejected_mfps_freed" help:"MFPs of these MEPs"`
	FreedBytes uint64 `count:"rejected_bytes_freed" unit:"bytes" help:"bytes of these MFPs"`
}

// NewRejections makes the core for a readout unit that holds at most held MEPs.
func NewRejections(rule RejectionPolicy, held int) *Rejections {
	r := &Rejections{rule: rule}
	if rule.Packing > 0 {
		r.meps = make([]rejectableMEP, held)
	}
	return r
}

// entry is the entry of a MEP, cleared if another MEP had it; nil if the unit cannot hold the MEP.
func (r *Rejections) entry(mep uint64) *rejectableMEP {
	if n := uint64(len(r.meps)); mep < r.firstMEP || mep-r.firstMEP >= n {
		return nil
	}
	m := &r.meps[mep%uint64(len(r.meps))]
	if m.mepPlusOne != mep+1 {
		*m = rejectableMEP{mepPlusOne: mep + 1}
	}
	return m
}

// AddToken notes the builder unit and the slot in the token of a MEP.
func (r *Rejections) AddToken(mep uint64, bu uint16, slot uint32) {
	if r.meps == nil {
		return
	}
	if m := r.entry(mep); m != nil {
		m.bu, m.slot, m.hasToken = bu, slot, true
	}
}

// MarkRejected notes that builder units' results rejected events events from first on. There may be a gap after the
// last call's events, and a decision unit that is back may send events again.
func (r *Rejections) MarkRejected(first, events uint64) {
	if r.meps == nil {
		return
	}
	if first != r.rejectedTo {
		r.rejectedFrom, r.rejectedTo = first, first
	}
	packing := uint64(r.rule.Packing)
	mep := max(r.rejectedTo/packing, (r.rejectedFrom+packing-1)/packing, r.firstMEP)
	r.rejectedTo += events
	for ; mep < r.rejectedTo/packing; mep++ {
		m := r.entry(mep)
		if m == nil {
			return // MEPs that the unit cannot hold
		}
		m.rejected = true
	}
}

// Release takes the MEP below which the scheduler has all outcomes, and returns the MEP below which no part is needed.
// endTransfer ends the transfer of a token, and tells whether its part is no longer needed; size is the size of a part
// in bytes.
func (r *Rejections) Release(released uint64, endTransfer func(bu int, slot uint32, mep uint64, written bool) bool,
	size func(mep uint64) int) uint64 {
	r.firstMEP = max(r.firstMEP, released)
	if r.meps == nil {
		return r.firstMEP
	}
	for {
		m := r.entry(r.firstMEP)
		if m == nil || !m.hasToken || !m.rejected || !endTransfer(int(m.bu), m.slot, r.firstMEP, r.rule.IncludesWritten) {
			return r.firstMEP
		}
		r.stats.FreedMEPs++
		r.stats.FreedBytes += uint64(size(r.firstMEP))
		r.firstMEP++
	}
}

// Stats are the counters so far, except for the MFPs.
func (r *Rejections) Stats() RejectionStats { return r.stats }
