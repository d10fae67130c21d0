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
	kept  []Cut  // the last ones
	count uint64 // how many there ever were
	over  bool
	live  bool // there are cuts at all
}

// update adds the cuts that are new, and forgets those of MEPs that every readout unit has had. It tells whether there
// is anything to tell.
func (l *cutLog) update(c *cutter, released uint64) bool {
	if c == nil {
		return false
	}
	count := c.next - c.first
	changed := l.count != count || l.over != c.over
	for ; l.count < count; l.count++ {
		l.kept = append(l.kept, c.cuts[(c.first+l.count)&c.mask])
	}
	l.over = c.over
	if n := released - c.first - min(released-c.first, l.firstKept()); n > 0 && 2*n >= uint64(len(l.kept)) {
		l.kept = slices.Delete(l.kept, 0, int(min(n, uint64(len(l.kept)))))
	}
	return changed
}

// firstKept is the number of the first cut that is kept.
func (l *cutLog) firstKept() uint64 { return l.count - uint64(len(l.kept)) }

// contains tells whether the cuts from a number on are kept.
func (l *cutLog) contains(from uint64) bool { return from >= l.firstKept() }

// hasNews tells whether a reader is to hear of cuts.
func (l *cutLog) hasNews(r *reader) bool { return r.cuts < l.count || l.over != r.cutsOver }

// appendTo adds to a message what a reader has not heard.
func (l *cutLog) appendTo(r *reader, m *tagnetv1.TokenBatch) {
	n := min(l.count-r.cuts, maxCutsPerMessage)
	for _, c := range l.kept[r.cuts-l.firstKept():][:n] {
		m.Cuts = append(m.Cuts, c.First, uint64(c.Events))
	}
	r.cuts += n
	m.CutsOver = l.over && r.cuts == l.count
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
		From:    m.GetFrom(),
		To:      m.GetTo(),
		Flush:   m.GetFlush(),
		Overdue: m.GetOverdue(),
		Over:    m.GetOver(),
	}
}

func reachMessage(r *Reach) *tagnetv1.Reach {
	if r == nil {
		return nil
	}
	return &tagnetv1.Reach{
		From:    r.From,
		To:      r.To,
		Flush:   r.Flush,
		Overdue: r.Overdue,
		Over:    r.Over,
	}
}
