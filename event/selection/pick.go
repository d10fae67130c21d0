package selection

import "time"

// maxExaminedPerSecond is how many fragments a Picker with a filter looks at in a second, at most. Looking at one takes
// some 3 ns, so that a viewer costs the builder unit less than two thousandths of a processor.
const maxExaminedPerSecond = 500_000

// Picker decides which events of a stream of MEPs are shown to one viewer: of one event in share those that pass the
// filters, and of those no more than the rate allows. It is for one goroutine at a time, and reads no clock.
type Picker struct {
	sel       Selection
	rate      TokenBucket
	look      TokenBucket
	nextDrawn uint64 // position of the next event that the share draws, in the stream

	counts Counts
}

// Counts are cumulative.
type Counts struct {
	Picked  uint64
	Skipped uint64 // drawn by the share, and let go by since there was no time to look at them
}

// NewPicker makes one that begins now, with the event at a position of the stream.
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

// NextDue is from when on it may pick another event. MEPs before need not be shown to it.
func (p *Picker) NextDue() time.Time {
	if p.rate.tokens >= 1 {
		return p.rate.updatedAt
	}
	return p.rate.updatedAt.Add(time.Duration((1 - p.rate.tokens) / p.rate.rate * float64(time.Second)))
}

// Pick calls visit with the index of each event of a MEP that is to be shown, in rising order. The position is that of
// the MEP's first event in the stream: MEPs may have been left out before.
func (p *Picker) Pick(now time.Time, m *Packet, at uint64, visit func(i int)) {
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
	if filters { // looking is what is scarce
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

// firstExamined is the first of so many drawn events that is looked at, of which so many may be. Where all may, it is
// the first; else one that differs from MEP to MEP, so that not only the first events of MEPs are seen, and is the same
// for viewers of the same rate, who then share a copy.
func firstExamined(mep, drawn, allowed uint64) uint64 {
	if allowed >= drawn {
		return 0
	}
	return min((mep+1)*0x9E3779B97F4A7C15>>32%drawn, drawn-allowed)
}

// TokenBucket is a token bucket: it holds the tokens of one second at most, and one at least. It begins with one, so
// that in n seconds from the beginning there are n times the rate.
type TokenBucket struct {
	rate      float64 // tokens a second
	tokens    float64
	updatedAt time.Time
}

// NewBucket holds the rate of a selection, for whoever merges events that several Pickers have picked.
func (s *Selection) NewBucket(now time.Time) TokenBucket {
	b := TokenBucket{rate: s.rate, tokens: 1, updatedAt: now}
	if s.rate == maxRate { // nobody counts on that: it is a bound
		b.tokens = maxRate
	}
	return b
}

// HasTokens says whether there are so many tokens now. A time before the last one is that one.
func (b *TokenBucket) HasTokens(now time.Time, tokens float64) bool {
	if d := now.Sub(b.updatedAt); d > 0 {
		b.tokens, b.updatedAt = min(max(1, b.rate), b.tokens+b.rate*d.Seconds()), now
	}
	return b.tokens >= tokens
}

// Consume takes so many tokens if they are there.
func (b *TokenBucket) Consume(now time.Time, tokens float64) bool {
	if !b.HasTokens(now, tokens) {
		return false
	}
	b.tokens -= tokens
	return true
}
