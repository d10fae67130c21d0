package tagnet

import (
	"math"
	"slices"
	"sync"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// maxTokensPerMessage keeps a message of 12 bytes a token below 32 KiB. gRPC's pool has nothing between that and
// buffers of 1 MiB, which it clears whole every time: with 48 KiB a tenth of all time went there (measured 2026-11-21,
// gRPC 1.85).
const maxTokensPerMessage = 2560

// maxConsecutivePerMessage is the same for tokens that need 4 bytes, since all MEPs but the first cycle's follow from
// those.
const maxConsecutivePerMessage = 3 * maxTokensPerMessage

// tokenLog is the scheduler's output, written once by the owner and read by one sender per readout unit, each at its
// own position. A sender that finds much takes much: that is the batching, and no timer is needed for it.
type tokenLog struct {
	// Immutable after newTokenLog.

	placesPerCycle int
	minReleaseStep uint64 // MEPs by which the watermark must have moved to be worth a message of its own
	cycleMask      uint64 // cycles kept - 1
	maxTags        int    // tags under way

	mu sync.Mutex // guards the rest

	meps              []uint64
	slots             []uint32
	nextCycle         uint64 // number of the next cycle
	watermark         watermark
	heldUp            []uint64 // of watermark, its own
	state             State
	idle              bool   // nothing in flight that anybody waits for: the watermark will not move by itself
	releasedPublished uint64 // MEPs that were released when the readers were last to look

	tags          []Tag        // that set out last: those that the first readout unit may not have received are among them
	launchedCount uint64       // tags that ever set out
	returnedCount uint64       // tags that the last readout unit has given back and that were taken
	withdrawals   []Withdrawal // since the beginning
	cuts          cutLog
	absences      []Absence // likewise
}

// watermark is the released watermark with its exceptions.
type watermark struct {
	releasedBelow uint64   // every MEP below is released,
	heldUp        []uint64 // but these
	heldUpChanges uint64   // of heldUp
}

// releasedCount is how many MEPs are, counted from 0.
func (m *watermark) releasedCount() uint64 { return m.releasedBelow - uint64(len(m.heldUp)) }

// newTokenLog makes a log for so many cycles at least: a stream that is further behind has missed cycles that are
// complete without it.
func newTokenLog(places, ahead, step int, first uint64, tags int) *tokenLog {
	cycles := 64
	for cycles < ahead {
		cycles <<= 1
	}
	return &tokenLog{
		placesPerCycle:    places,
		minReleaseStep:    uint64(max(places, step)),
		cycleMask:         uint64(cycles - 1),
		meps:              make([]uint64, cycles*places),
		slots:             make([]uint32, cycles*places),
		watermark:         watermark{releasedBelow: first},
		releasedPublished: first,
		state:             Idle,
		idle:              true,
		maxTags:           tags,
	}
}

// publish appends the cycles of a batch and sets what goes with them. It reports whether a reader may find that worth a
// message.
func (l *tokenLog) publish(b *Batch, m watermark, state State, idle bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range b.Len() {
		at := int((b.FirstCycle+uint64(i))&l.cycleMask) * l.placesPerCycle
		copy(l.meps[at:at+l.placesPerCycle], b.MEPs[i*l.placesPerCycle:])
		copy(l.slots[at:at+l.placesPerCycle], b.Slots[i*l.placesPerCycle:])
	}
	released := m.releasedCount()
	changed := b.Len() > 0 || l.state != state || released-l.releasedPublished >= l.minReleaseStep || idle &&
		(!l.idle || l.watermark.releasedCount() != released)
	l.nextCycle = b.FirstCycle + uint64(b.Len())
	if m.heldUpChanges != l.watermark.heldUpChanges {
		l.heldUp = append(l.heldUp[:0], m.heldUp...)
	}
	m.heldUp = l.heldUp
	l.watermark, l.state, l.idle = m, state, idle
	if changed {
		l.releasedPublished = released
	}
	return changed
}

// publishTags adds tags for the first readout unit, the exclusions so far for all, and how many tags have come back.
// The cycles of the tokens of the tags have been published. A tag that has not been received is under way, and so are
// all that set out after it: no more are kept.
func (l *tokenLog) publishTags(tags []Tag, withdrawn []Withdrawal, returned uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tags = append(l.tags, tags...)
	if n := len(l.tags) - l.maxTags; n > 0 {
		l.tags = l.tags[:copy(l.tags, l.tags[n:])]
	}
	l.launchedCount += uint64(len(tags))
	l.withdrawals, l.returnedCount = withdrawn, returned
}

// updateCuts tells whether there is anything about cuts to tell.
func (l *tokenLog) updateCuts(c *cutter, released uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cuts.update(c, released)
}

func (l *tokenLog) currentState() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// setAbsences sets the absences so far. Cycles that they concern are published after it.
func (l *tokenLog) setAbsences(absences []Absence) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.absences = absences
}

// absencesFrom are the absences behind the first n.
func (l *tokenLog) absencesFrom(n int) []Absence {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.absences[n:]
}

// reader is the position of one stream in the log. One goroutine owns it.
type reader struct {
	tokenLog      *tokenLog
	next          uint64 // cycle
	released      uint64 // MEPs, as last sent
	heldUpChanges uint64 // of what is held up, as last sent
	state         State  // as last sent; zero before the first message

	isFirstRU       bool   // it belongs to the first readout unit, which launches tags
	isLastRU        bool   // it belongs to the last one, which gives them back
	tagsSent        uint64 // as many were sent
	withdrawalsSent int    // as many exclusions were sent
	cutsSent        uint64 // as many were sent
	cutsOver        bool   // as last sent
	absencesSent    int    // as many absences were sent
}

// readerFrom is the reader of a stream that goes on where an earlier one of the same unit has broken; nil is the
// beginning. False: what the unit says it has had was never sent. One that lacks what is not kept any more finds that
// out with its first nextMessage. A unit that rejoined has nothing from before its rejoin.
func (l *tokenLog) readerFrom(received *tagnetv1.Position, rejoin rejoinPoint) (*reader, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &reader{
		tokenLog: l,
		next:     max(received.GetCycles(), rejoin.absence.FirstCycle),
		tagsSent: received.GetTags(),
		cutsSent: received.GetCuts(),
		withdrawalsSent: int(min(received.GetWithdrawn(),
			math.MaxInt32)),
		absencesSent: int(min(received.GetAbsent(), math.MaxInt32)),
	}
	if l.cuts.live {
		r.cutsSent += rejoin.cutsBefore
	}
	return r, r.next <= l.nextCycle && r.tagsSent <= l.launchedCount && r.withdrawalsSent <= len(l.withdrawals) &&
		r.cutsSent <= l.cuts.count && r.absencesSent <= len(l.absences)
}

// nextMessage returns the next message for the stream, nil if there is nothing worth one, and false if the stream has
// fallen out of the log. A watermark alone is worth a message when so many more MEPs are released that they make a
// step, or when nothing is in flight.
func (r *reader) nextMessage() (*tagnetv1.TokenBatch, bool) {
	l := r.tokenLog
	l.mu.Lock()
	defer l.mu.Unlock()
	behind := l.nextCycle - r.next
	if behind > l.cycleMask+1 || !l.cuts.contains(r.cutsSent) || r.isFirstRU &&
		l.launchedCount-r.tagsSent > uint64(len(l.tags)) {
		return nil, false
	}
	moved := l.watermark.releasedCount() - r.released
	if behind == 0 && l.state == r.state && moved < l.minReleaseStep && (moved == 0 || !l.idle) &&
		r.withdrawalsSent == len(l.withdrawals) && r.absencesSent == len(l.absences) && !l.cuts.hasNews(r) &&
		!(r.isFirstRU && r.tagsSent < l.launchedCount) {
		return nil, true
	}
	cycles := min(behind, uint64(max(1, maxConsecutivePerMessage/l.placesPerCycle)))
	consecutive := l.isConsecutive(r.next, cycles)
	if !consecutive {
		cycles = min(cycles, uint64(max(1, maxTokensPerMessage/l.placesPerCycle)))
	}
	m := &tagnetv1.TokenBatch{
		FirstCycle: r.next,
		Released:   l.watermark.releasedBelow,
		State:      tagnetv1.State(l.state),
		Places:     uint32(l.placesPerCycle),
	}
	// The watermark and the state belong to the end of the log; with more to come the state is not told yet, so that
	// "drained" is the last word.
	if cycles < behind {
		m.State = tagnetv1.State(Running)
	}
	if r.heldUpChanges != l.watermark.heldUpChanges {
		m.HeldUp = &tagnetv1.HeldUp{Meps: slices.Clone(l.heldUp)}
	}
	if cycles > 0 {
		if consecutive {
			at := int(r.next&l.cycleMask) * l.placesPerCycle
			m.Meps = slices.Clone(l.meps[at : at+l.placesPerCycle])
		} else {
			m.Meps = make([]uint64, 0, int(cycles)*l.placesPerCycle)
		}
		m.Slots = make([]uint32, 0, int(cycles)*l.placesPerCycle)
	}
	for from, to := r.next, r.next+cycles; from < to; {
		run := min(to-from, l.cycleMask+1-from&l.cycleMask) // up to where the log begins anew
		at, n := int(from&l.cycleMask)*l.placesPerCycle, int(run)*l.placesPerCycle
		if !consecutive {
			m.Meps = append(m.Meps, l.meps[at:at+n]...)
		}
		m.Slots = append(m.Slots, l.slots[at:at+n]...)
		from += run
	}
	r.appendTagRing(m, cycles == behind)
	l.cuts.appendTo(r, m)
	r.next += cycles
	r.released, r.heldUpChanges, r.state = l.watermark.releasedCount(), l.watermark.heldUpChanges, State(m.State)
	return m, true
}

// isConsecutive tells that in each of the cycles every place has the MEP that follows by one cycle the one it had in
// the cycle before. mu is held.
func (l *tokenLog) isConsecutive(first, cycles uint64) bool {
	if cycles < 2 {
		return false
	}
	width := uint64(l.placesPerCycle)
	before := l.meps[int(first&l.cycleMask)*l.placesPerCycle:][:width]
	for c := first + 1; c < first+cycles; c++ {
		now := l.meps[int(c&l.cycleMask)*l.placesPerCycle:][:width]
		for j, mep := range now {
			if mep != before[j]+width || mep == NoMEP {
				return false
			}
		}
		before = now
	}
	return true
}

// appendTagRing adds to a message what a ring of tags needs. Tags go behind the last of the cycles, since their tokens
// are among them. mu of the log is held.
func (r *reader) appendTagRing(m *tagnetv1.TokenBatch, last bool) {
	l := r.tokenLog
	for i := range l.withdrawals[r.withdrawalsSent:] {
		m.Withdrawn = l.withdrawals[r.withdrawalsSent+i].appendWords(m.Withdrawn)
	}
	r.withdrawalsSent = len(l.withdrawals)
	m.Absent, r.absencesSent = encodeAbsences(l.absences[r.absencesSent:]), len(l.absences)
	if r.isFirstRU && last {
		for i := len(l.tags) - int(l.launchedCount-r.tagsSent); i < len(l.tags); i++ {
			m.Tags = l.tags[i].AppendWords(m.Tags)
		}
		r.tagsSent = l.launchedCount
	}
	if r.isLastRU {
		m.Returned = l.returnedCount
	}
}
