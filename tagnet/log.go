package tagnet

import (
	"slices"
	"sort"
	"sync"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet/core"
)

// maxConsecutivePerMessage is how many tokens a message may have that need 4 bytes each, since all MEPs but the first
// cycle's follow from those; see core.MaxTokensPerNotice.
const maxConsecutivePerMessage = 3 * core.MaxTokensPerNotice

// maxOldNotices bounds what is remembered for builder units and for a control that follows later. A view of 100 units
// with an incident for each and a thousand pauses has less; the oldest go first.
const maxOldNotices = 4096

// noticeLog keeps what a Core tells. It is written by the owner, and read by one sender for each unit and each control
// that follows, each at its own position. A sender that finds much takes much: that is the batching, and no timer is
// needed for it.
type noticeLog struct {
	// Immutable after newNoticeLog.

	term uint64
	keep int // cycles that are kept at least

	mu sync.Mutex // guards the rest

	kept    []core.Notice // in order and without a gap are kept[head:]; what was appended is never changed
	head    int
	cycles  int           // of kept[head:]
	old     []core.Notice // of those before, the last ones that builder units or the control are to be told
	lost    uint64        // sequence number of the newest of those that are not in old any more
	changed chan struct{} // closed when there is a newer one for the control, or no more will come
	closed  bool
}

// newNoticeLog makes a log that keeps so many cycles at least: a stream that is further behind has missed cycles that
// are complete without it.
func newNoticeLog(term uint64, keep int) *noticeLog {
	return &noticeLog{term: term, keep: max(64, keep), changed: make(chan struct{})}
}

// append adds notices, and tells for whom they are.
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
	if 2*l.head >= len(l.kept) { // each is moved once at most for each one that goes
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

// wakeFollowers wakes who waits for notices for the control. mu is held.
func (l *noticeLog) wakeFollowers() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// close tells that no more will come.
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

// from are the notices from a sequence number on that are kept for an audience, and whether none of its own is missing.
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

// follow returns the notices for the control from a sequence number on, what to wait for if there are none, and whether
// none will come any more.
func (l *noticeLog) follow(next uint64) (out []core.Notice, changed <-chan struct{}, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, _ := l.fromLocked(next, core.ForControl) // who follows takes a gap for what it is
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
	known []core.Notice // what the unit is to be told before the stream
	next  uint64        // sequence number of the next notice

	answered      bool       // the unit has been told something
	taken         uint64     // as last told
	heldUpChanges uint64     // likewise
	state         core.State // likewise
}

// message is the next message for the stream, nil if there is nothing worth one, and false if the stream has fallen out
// of the log. The first comes at once.
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

// passed notes that the unit is told of the first n notices, and says in the message how far it has come by that.
func (r *reader) passed(news []core.Notice, n int, m *tagnetv1.Notices) {
	r.known = r.known[min(n, len(r.known)):]
	if n > 0 {
		if news[n-1].Sequence == 0 {
			return // of what it is told at first there is more
		}
		r.next = max(r.next, news[n-1].Sequence+1)
	}
	m.Term, m.Next = r.log.term, r.next
}

func (r *reader) forBuilder(news []core.Notice) *tagnetv1.Notices {
	if len(news) == 0 && r.state == 0 { // an answer without news
		r.state = r.log.last().State
	}
	m := &tagnetv1.Notices{}
	for i := range news {
		m.Absent, r.state = appendAbsences(m.Absent, news[i].Absences), news[i].State
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
	}
	if r.heldUpChanges != end.HeldUpChanges {
		r.heldUpChanges, m.HeldUp = end.HeldUpChanges, &tagnetv1.HeldUp{Meps: end.HeldUp}
	}
	for i := range news[:n] {
		v := &news[i]
		m.Absent = appendAbsences(m.Absent, v.Absences)
		m.Withdrawn = appendWithdrawals(m.Withdrawn, v.Withdrawals)
		for _, c := range v.Cuts {
			m.Cuts = append(m.Cuts, c.FirstEvent, uint64(c.Events))
		}
		if r.who&core.ForFirstRU != 0 {
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

// fit tells how many of the notices go into one message, how many cycles they have, and whether these are two or more,
// in each of which every place has the MEP that follows by one cycle the one it had in the cycle before.
func fit(news []core.Notice) (n, cycles int, consecutive bool) {
	var before []uint64 // MEPs of the cycle before
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

// followsOn tells that each cycle of a batch follows the one before it, and what the last one has.
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

// join appends a list that may be shared, where it is not all that there will be.
func join[T any](to, list []T, total int) []T {
	if len(list) == total {
		return list
	}
	if to == nil && len(list) > 0 {
		to = make([]T, 0, total)
	}
	return append(to, list...)
}
