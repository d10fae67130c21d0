package tagnet

import (
	"slices"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// maxCutsPerMessage keeps a message of 16 bytes a cut below 32 KiB; see maxTokensPerMessage.
const maxCutsPerMessage = 1024

// cutLog is the cuts as the streams of readout units tell them. They are numbered from 0, as the MEPs are from the
// first of the run.
type cutLog struct {
	kept     []Cut  // the last ones
	count    uint64 // how many there ever were
	cutsOver bool
	live     bool // there are cuts at all
}

// update adds the cuts that are new, and forgets those of MEPs that every readout unit has had. It tells whether there
// is anything to tell.
func (l *cutLog) update(c *cutter, released uint64) bool {
	if c == nil {
		return false
	}
	count := c.nextMEP - c.firstMEP
	changed := l.count != count || l.cutsOver != c.cutsOver
	for ; l.count < count; l.count++ {
		l.kept = append(l.kept, c.cuts[(c.firstMEP+l.count)&c.mask])
	}
	l.cutsOver = c.cutsOver
	if n := released - c.firstMEP - min(released-c.firstMEP, l.firstKept()); n > 0 && 2*n >= uint64(len(l.kept)) {
		l.kept = slices.Delete(l.kept, 0, int(min(n, uint64(len(l.kept)))))
	}
	return changed
}

// firstKept is the number of the first cut that is kept.
func (l *cutLog) firstKept() uint64 { return l.count - uint64(len(l.kept)) }

// contains tells whether the cuts from a number on are kept.
func (l *cutLog) contains(from uint64) bool { return from >= l.firstKept() }

// hasNews tells whether a reader is to hear of cuts.
func (l *cutLog) hasNews(r *reader) bool { return r.cutsSent < l.count || l.cutsOver != r.cutsOver }

// appendTo adds to a message what a reader has not heard.
func (l *cutLog) appendTo(r *reader, m *tagnetv1.TokenBatch) {
	n := min(l.count-r.cutsSent, maxCutsPerMessage)
	for _, c := range l.kept[r.cutsSent-l.firstKept():][:n] {
		m.Cuts = append(m.Cuts, c.FirstEvent, uint64(c.Events))
	}
	r.cutsSent += n
	m.CutsOver = l.cutsOver && r.cutsSent == l.count
	r.cutsOver = m.CutsOver
}

// decodeCuts reads the words of cuts, which begin behind an event; false: they are none.
func decodeCuts(words []uint64, end uint64) ([]Cut, bool) {
	if len(words)%2 != 0 {
		return nil, false
	}
	var cuts []Cut
	for i := 0; i < len(words); i += 2 {
		first, n := words[i], words[i+1]
		if first < end || n < 1 || n > 1<<16-1 || first > noEvent-n {
			return nil, false
		}
		cuts = append(cuts, Cut{first, uint32(n)})
		end = first + n
	}
	return cuts, true
}

func decodeReach(m *tagnetv1.Reach) *Reach {
	if m == nil {
		return nil
	}
	return &Reach{
		FirstUncut:    m.GetFrom(),
		CompleteBelow: m.GetTo(),
		FlushBelow:    m.GetFlush(),
		OverdueBelow:  m.GetOverdue(),
		Ended:         m.GetOver(),
	}
}

func reachMessage(r *Reach) *tagnetv1.Reach {
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
