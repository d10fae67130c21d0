package readoutunit

// RejectionPolicy says what a readout unit gives up since it learns that events were rejected. The zero value: nothing,
// and everything stays until the scheduler has its outcome. It may be given up only where nobody fetches it again:
// builder units ask for what they want, and a run does not tolerate the loss of one (docs/design/054-decisions.md).
type RejectionPolicy struct {
	// Packing is the number of events of a MEP; 0: nothing is given up.
	Packing int
	// IncludesWritten says that parts which were written may go, too, as soon as their writes have their outcome: whatever
	// is rejected reaches no output. Else only those go that were never asked for, since what a builder unit has of a MEP
	// counts when its output has it.
	IncludesWritten bool
}

// Rejections is the pure core of what a readout unit gives up by decisions: MEP after MEP, from the lowest one that it
// has on. It does no I/O and takes no locks; its owner calls it under one.
//
//	AddToken ─► (announced, perhaps written) ─► MarkRejected ─► Release: what is below may go
type Rejections struct {
	rule     RejectionPolicy
	meps     []rejectableMEP // MEP k in place k mod n; nil: nothing is given up
	firstMEP uint64          // MEPs below are gone

	rejectedFrom, rejectedTo uint64 // events: the last row of rejected ones without a gap

	stats RejectionStats
}

// rejectableMEP is what is known of a MEP.
type rejectableMEP struct {
	mepPlusOne uint64 // 1 + its number; another: nothing is known
	slot       uint32
	bu         uint16
	hasToken   bool // its token went there
	rejected   bool // all its events were
}

// RejectionStats counts what was given up.
type RejectionStats struct {
	FreedMEPs  uint64 `count:"rejected_meps_freed" help:"MEPs given up since all their events were rejected, before the scheduler told their outcome"`
	FreedMFPs  uint64 `count:"rejected_mfps_freed" help:"MFPs of these MEPs"`
	FreedBytes uint64 `count:"rejected_bytes_freed" unit:"bytes" help:"bytes of these MFPs"`
}

// NewRejections makes the core of a unit that holds so many MEPs at most.
func NewRejections(rule RejectionPolicy, held int) *Rejections {
	r := &Rejections{rule: rule}
	if rule.Packing > 0 {
		r.meps = make([]rejectableMEP, held)
	}
	return r
}

// entry is the place of a MEP, cleared if another had it; nil where the MEP cannot be held.
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

// AddToken takes where the token of a MEP went.
func (r *Rejections) AddToken(mep uint64, bu uint16, slot uint32) {
	if r.meps == nil {
		return
	}
	if m := r.entry(mep); m != nil {
		m.bu, m.slot, m.hasToken = bu, slot, true
	}
}

// MarkRejected takes that events in a row were rejected by a builder unit's result. What it took before may be followed
// by a gap, or come again from a decision unit that is back.
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

// Release takes below which MEP the scheduler has all outcomes, and returns below which MEP nothing is needed.
// endTransfer ends what is still to be done by a token, and says whether nothing is; size is the size of a part.
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

// Stats are the counters so far, but for the MFPs.
func (r *Rejections) Stats() RejectionStats { return r.stats }
