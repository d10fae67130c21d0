package selection

import "time"

// maxExaminedPerSecond is how many fragments a Picker with a filter examines in a second, at most. One takes some 3 ns,
// so that a viewer costs the builder unit less than two thousandths of a processor.
const maxExaminedPerSecond = 500_000

// Picker decides which events of a stream of MEPs one viewer is shown. The share draws one event in Spec.Share, the
// filters exclude some of the drawn ones, and the rate bounds the rest. It is for one goroutine at a time, and reads no
// clock.
type Picker struct {
	sel       Selection
	rate      TokenBucket
	look      TokenBucket
	nextDrawn uint64 // position in the stream of the next event that the share draws
	blocks    blockPicker

	counts Counts
}

// Counts are cumulative.
type Counts struct {
	Picked  uint64
	Skipped uint64 // drawn by the share, but not examined: maxExaminedPerSecond was reached
}

// NewPicker makes a Picker that begins now, with the event at position at of the stream.
func NewPicker(sel Selection, now time.Time, at uint64) Picker {
	return Picker{
		sel:       sel,
		rate:      sel.NewBucket(now),
		look:      TokenBucket{rate: maxExaminedPerSecond, tokens: maxExaminedPerSecond, updatedAt: now},
		nextDrawn: at,
	}
}

// Counts so far.
func (p *Picker) Counts() Counts { return p.counts }

// NextDue is the time from which on the rate allows another event. Until then the caller need not call Pick.
func (p *Picker) NextDue() time.Time {
	if p.rate.tokens >= 1 {
		return p.rate.updatedAt
	}
	return p.rate.updatedAt.Add(time.Duration((1 - p.rate.tokens) / p.rate.rate * float64(time.Second)))
}

// Pick calls visit with the index of each event of a MEP that the viewer is shown, in rising order. at is the position
// of the MEP's first event in the stream; the caller may have left out MEPs before.
func (p *Picker) Pick(now time.Time, m *Packet, at uint64, visit func(i int)) {
	if p.sel.block > 0 {
		p.counts.Picked += p.blocks.pick(&p.sel, now, m, visit)
		return
	}
	share, n := p.sel.oneInEvents, uint64(m.NumEvents())
	if p.nextDrawn < at {
		p.nextDrawn += (at - p.nextDrawn + share - 1) / share * share
	}
	if p.nextDrawn >= at+n {
		return
	}
	first := p.nextDrawn - at
	drawn := (n-first-1)/share + 1
	p.nextDrawn += drawn * share
	if !p.rate.HasTokens(now, 1) {
		return
	}
	allowed, filters := uint64(p.rate.tokens), p.sel.needsExamining()
	if filters { // maxExaminedPerSecond bounds the events, and not the rate
		p.look.HasTokens(now, 1)
		allowed = uint64(p.look.tokens) / uint64(len(m.mfps))
	}
	begin := firstExamined(m.MEP, drawn, allowed)
	if filters {
		p.counts.Skipped += begin
	}
	for k := begin; k < drawn && p.rate.HasTokens(now, 1); k++ {
		i := int(first + k*share)
		if filters && !p.look.Consume(now, float64(len(m.mfps))) {
			p.counts.Skipped += drawn - k
			return
		}
		if filters && !p.sel.accepts(m, i) {
			continue
		}
		p.rate.Consume(now, 1)
		p.counts.Picked++
		visit(i)
	}
}

// blockPicker picks the blocks whose number is a multiple of 2^coarse. It raises coarse where that is more events than
// the rate allows, and lowers it where it is less than a quarter. So Pickers of several builder units, which do not
// know of each other, pick the same blocks, or some of them all and others every second or fourth.
type blockPicker struct {
	coarse uint8
	began  time.Time // when the counting of picked began
	picked float64
}

func (p *blockPicker) pick(sel *Selection, now time.Time, m *Packet, visit func(i int)) (picked uint64) {
	if p.began.IsZero() {
		p.began = now
	}
	d := now.Sub(p.began).Seconds()
	switch {
	case p.picked > 2*sel.rate*max(1, d) && p.coarse < 63: // at once, since a MEP may have many events
		p.coarse, p.began, p.picked = p.coarse+1, now, 0
	case d < 1:
	case p.picked > sel.rate*d && p.coarse < 63:
		p.coarse, p.began, p.picked = p.coarse+1, now, 0
	case p.picked < sel.rate*d/4 && p.coarse > 0:
		p.coarse, p.began, p.picked = p.coarse-1, now, 0
	default:
		p.began, p.picked = now, 0
	}
	first := m.firstEvent()
	for i := range m.NumEvents() {
		if (first+uint64(i))/sel.block&(1<<p.coarse-1) == 0 {
			visit(i)
			picked++
		}
	}
	p.picked += float64(picked)
	return picked
}

// firstExamined is the index of the first drawn event that Pick examines, if it may examine allowed of drawn ones. If
// that is not all, the index depends on the MEP's number: a viewer sees not only the first events of MEPs, and viewers
// of the same rate see the same events, so that they share a copy.
func firstExamined(mep, drawn, allowed uint64) uint64 {
	if allowed >= drawn {
		return 0
	}
	return min((mep+1)*0x9E3779B97F4A7C15>>32%drawn, drawn-allowed)
}

// TokenBucket is a token bucket. Its capacity is the tokens of one second, and at least one. It begins with one token
// and not full, so that the first n seconds have n times the rate.
type TokenBucket struct {
	rate      float64 // tokens a second
	tokens    float64
	updatedAt time.Time
}

// NewBucket is a bucket with the rate of a selection, for a caller that merges the events of several Pickers.
func (s *Selection) NewBucket(now time.Time) TokenBucket {
	b := TokenBucket{rate: s.rate, tokens: 1, updatedAt: now}
	if s.rate == maxRate { // the bound on what a viewer costs, not a rate that the user has asked for
		b.tokens = maxRate
	}
	return b
}

// HasTokens says whether there are that many tokens now. A time before the last one counts as the last one.
func (b *TokenBucket) HasTokens(now time.Time, tokens float64) bool {
	if d := now.Sub(b.updatedAt); d > 0 {
		b.tokens, b.updatedAt = min(max(1, b.rate), b.tokens+b.rate*d.Seconds()), now
	}
	return b.tokens >= tokens
}

// Consume removes that many tokens; if there are fewer, it takes none and returns false.
func (b *TokenBucket) Consume(now time.Time, tokens float64) bool {
	if !b.HasTokens(now, tokens) {
		return false
	}
	b.tokens -= tokens
	return true
}
