package tagnet

import (
	"slices"
	"sort"
	"sync"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet/core"
)

// maxConsecutivePerMessage is how many tokens a message may have if each takes 4 bytes: the MEPs of all cycles follow
// from those of the first. See core.MaxTokensPerNotice.
const maxConsecutivePerMessage = 3 * core.MaxTokensPerNotice

// maxOldNotices bounds the notices kept for builder units and for a control that follows later. A view of 100 units
// with an incident for each and a thousand pauses has fewer; the log drops the oldest first.
const maxOldNotices = 4096

// noticeLog keeps the notices of a Core. The owner writes it; one sender for each unit, and one for each control that
// follows, reads it at its own position. A sender that finds many notices sends them together: this is the batching,
// which needs no timer.
type noticeLog struct {
	// Immutable after newNoticeLog.

	term uint64
	keep int // how many cycles the log keeps at least

	mu sync.Mutex // guards the rest

	kept    []core.Notice // kept[head:] are in order, without a gap; what was appended never changes
	head    int
	cycles  int           // of kept[head:]
	old     []core.Notice // earlier notices for builder units or the control, the last maxOldNotices
	lost    uint64        // sequence number of the newest notice that was dropped from old
	changed chan struct{} // closed by the next notice for the control, and by close
	closed  bool
}

// newNoticeLog makes a log that keeps at least the last keep cycles, and never fewer than 64. If a stream needs notices
// that the log no longer keeps, the cycles that it missed are complete.
func newNoticeLog(term uint64, keep int) *noticeLog {
	return &noticeLog{term: term, keep: max(64, keep), changed: make(chan struct{})}
}

// append adds notices, and returns the audiences that they are for.
func (l *noticeLog) append(all []core.Notice) (who core.Audience) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range all {
		who |= all[i].For
		l.kept = append(l.kept, all[i])
		l.cycles += all[i].Len()
	}
	for n := len(l.kept) - l.head; n > 1; n-- {
		first := &l.kept[l.head]
		if l.cycles-first.Len() < l.keep && n <= l.keep+maxOldNotices {
			break
		}
		if first.For&(core.ForBuilders|core.ForControl) != 0 {
			l.old = append(l.old, *first)
		}
		l.cycles -= first.Len()
		l.head++
	}
	if 2*l.head >= len(l.kept) { // so each moves at most once per notice dropped
		l.kept, l.head = slices.Clone(l.kept[l.head:]), 0
	}
	if n := len(l.old) - maxOldNotices; n > 0 {
		n = max(n, maxOldNotices/2)
		l.lost, l.old = l.old[n-1].Sequence, slices.Clone(l.old[n:])
	}
	if who&core.ForControl != 0 {
		l.wakeFollowers()
	}
	return who
}

// wakeFollowers wakes the senders to controls. mu is held.
func (l *noticeLog) wakeFollowers() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// close tells the followers that no more notices will come.
func (l *noticeLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		close(l.changed)
	}
}

// last is the newest notice.
func (l *noticeLog) last() core.Notice {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept[len(l.kept)-1]
}

// from returns the kept notices from a sequence number on. complete tells that none for the audience is missing.
func (l *noticeLog) from(next uint64, who core.Audience) (all []core.Notice, complete bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fromLocked(next, who)
}

func (l *noticeLog) fromLocked(next uint64, who core.Audience) (all []core.Notice, complete bool) {
	kept := l.kept[l.head:]
	first := kept[0].Sequence
	if next >= first {
		return kept[min(next-first, uint64(len(kept))):], true
	}
	at := sort.Search(len(l.old), func(i int) bool { return l.old[i].Sequence >= next })
	return append(slices.Clone(l.old[at:]), kept...), next > l.lost && who&core.ForReadouts == 0
}

// follow returns the notices for the control from a sequence number on, the channel that the next one closes, and
// whether no more will come.
func (l *noticeLog) follow(next uint64) (out []core.Notice, changed <-chan struct{}, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, _ := l.fromLocked(next, core.ForControl) // a control accepts a gap
	for i := range all {
		if all[i].For&core.ForControl != 0 {
			out = append(out, all[i])
		}
	}
	return out, l.changed, l.closed
}

// reader is the position of a unit's stream in the log. One goroutine owns it.
type reader struct {
	log   *noticeLog
	who   core.Audience
	ru    int           // index of a readout unit
	known []core.Notice // the snapshot, as far as it has not been sent
	next  uint64        // sequence number of the next notice

	answered      bool       // a message has been sent
	taken         uint64     // as last sent
	heldUpChanges uint64     // as last sent
	state         core.State // as last sent
}

// message is the next message for the stream, nil if there is nothing worth a message. ok is false if the log no longer
// has the stream's next notice. The first message goes at once.
func (r *reader) message(taken uint64) (m *tagnetv1.Notices, ok bool) {
	news := r.known
	if len(news) == 0 {
		var complete bool
		if news, complete = r.log.from(r.next, r.who); !complete {
			return nil, false
		}
		worth := func(n core.Notice) bool { return n.For&r.who != 0 }
		if r.answered && !(r.who == core.ForBuilders && taken != r.taken) && !slices.ContainsFunc(news, worth) {
			return nil, true
		}
	}
	r.answered, r.taken = true, taken
	if r.who == core.ForBuilders {
		m = r.forBuilder(news)
	} else {
		m = r.forReadout(news)
	}
	m.Taken = taken
	return m, true
}

// passed moves the reader past the first n notices, and writes the new position into the message.
func (r *reader) passed(news []core.Notice, n int, m *tagnetv1.Notices) {
	r.known = r.known[min(n, len(r.known)):]
	if n > 0 {
		if news[n-1].Sequence == 0 {
			return // part of a snapshot that goes on in the next message
		}
		r.next = max(r.next, news[n-1].Sequence+1)
	}
	m.Term, m.Next = r.log.term, r.next
}

func (r *reader) forBuilder(news []core.Notice) *tagnetv1.Notices {
	if len(news) == 0 && r.state == 0 { // the first answer, without news
		r.state = r.log.last().State
	}
	m := &tagnetv1.Notices{}
	for i := range news {
		m.Absent, r.state = appendAbsences(m.Absent, news[i].Absences), news[i].State
		if v := news[i].Valid; v != nil {
			m.Valid = placedTokensMessage(v.Tokens)
		}
	}
	m.State = tagnetv1.State(r.state)
	r.passed(news, len(news), m)
	return m
}

func (r *reader) forReadout(news []core.Notice) *tagnetv1.Notices {
	n, cycles, consecutive := fit(news)
	if n == 0 { // an answer without news
		last := r.log.last()
		last.FirstCycle, last.Absences, last.Withdrawals = last.FirstCycle+uint64(last.Len()), nil, nil
		if last.CutsAt != nil {
			last.CutsAt = new(last.CutsAt.After(last.Cuts))
		}
		last.Cuts, last.Tags, last.MEPs, last.Slots, last.Sequence = nil, nil, nil, nil, r.next-1
		news, n = []core.Notice{last}, 1
	}
	end := &news[n-1]
	m := &tagnetv1.Notices{
		FirstCycle: news[0].FirstCycle,
		Released:   end.Released,
		State:      tagnetv1.State(end.State),
		Places:     uint32(end.PlacesPerCycle),
		CutsOver:   end.CutsOver,
		Unbuilt:    unbuiltMessage(&end.Unbuilt),
		Triggers:   triggerTotalsMessage(end.Triggers),
		CutsAt:     cutPositionMessage(news[0].CutsAt),
	}
	if len(news[0].Earlier) > 0 {
		m.Earlier = placedTokensMessage(news[0].Earlier)
	}
	if end.EndKnown {
		m.End = &end.EndMEP
	}
	if r.heldUpChanges != end.HeldUpChanges {
		r.heldUpChanges, m.HeldUp = end.HeldUpChanges, &tagnetv1.HeldUp{Meps: end.HeldUp}
	}
	for i := range news[:n] {
		v := &news[i]
		m.Absent = appendAbsences(m.Absent, v.Absences)
		m.Withdrawn = appendWithdrawals(m.Withdrawn, v.Withdrawals)
		m.Cuts = appendCuts(m.Cuts, v.Cuts)
		if v.FirstRU == r.ru {
			for i := range v.Tags {
				m.Tags = v.Tags[i].AppendWords(m.Tags)
			}
		}
		m.Slots = join(m.Slots, v.Slots, cycles*v.PlacesPerCycle)
		switch {
		case !consecutive:
			m.Meps = join(m.Meps, v.MEPs, cycles*v.PlacesPerCycle)
		case len(m.Meps) == 0 && len(v.MEPs) > 0:
			m.Meps = v.MEPs[:v.PlacesPerCycle:v.PlacesPerCycle]
		}
	}
	r.passed(news, n, m)
	return m
}

// fit returns how many of the notices fit into one message, and how many cycles they have. consecutive tells that there
// are two cycles or more, and that each place has the MEP of the cycle before plus one cycle's width.
func fit(news []core.Notice) (n, cycles int, consecutive bool) {
	var before []uint64 // MEPs of the preceding cycle
	tokens, cuts, follows := 0, 0, true
	for ; n < len(news); n++ {
		v := &news[n]
		f, last := followsOn(before, &v.Batch)
		f = f && follows
		tokens, cuts = tokens+len(v.MEPs), cuts+len(v.Cuts)
		if n > 0 && (cuts > core.MaxCutsPerNotice || tokens > maxConsecutivePerMessage ||
			!f && tokens > core.MaxTokensPerNotice) {
			break
		}
		before, follows, cycles = last, f, cycles+v.Len()
	}
	return n, cycles, follows && cycles > 1
}

// followsOn tells that each cycle of a batch is consecutive to the one before it (see fit), and returns the MEPs of the
// last.
func followsOn(before []uint64, b *core.Batch) (bool, []uint64) {
	width := b.PlacesPerCycle
	for i := range b.Len() {
		now := b.MEPs[i*width:][:width]
		for j, mep := range now {
			if before != nil && (mep != before[j]+uint64(width) || mep == core.NoMEP) {
				return false, now
			}
		}
		before = now
	}
	return true, before
}

// join appends list to to. It returns list itself, shared, if list is all that there will be.
func join[T any](to, list []T, total int) []T {
	if len(list) == total {
		return list
	}
	if to == nil && len(list) > 0 {
		to = make([]T, 0, total)
	}
	return append(to, list...)
}
