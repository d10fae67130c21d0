package selection

import "time"

// looks is how many fragments a Picker with a filter looks at in a second, at most. Looking at one takes some 3 ns, so
// that a viewer costs the builder unit less than two thousandths of a processor.
const looks = 500_000

// Picker decides which events of a stream of MEPs are shown to one viewer: of one event in share those that pass the
// filters, and of those no more than the rate allows. It is for one goroutine at a time, and reads no clock.
type Picker struct {
	sel  Selection
	rate Bucket
	look Bucket
	next uint64 // position of the next event that the share draws, in the stream

	counts Counts
}

// Counts are cumulative.
type Counts struct {
	Picked uint64
	Passed uint64 // drawn by the share, and let go by since there was no time to look at them
}

// NewPicker makes one that begins now, with the event at a position of the stream.
func NewPicker(sel Selection, now time.Time, at uint64) Picker {
	return Picker{
		sel:  sel,
		rate: sel.Bucket(now),
		look: Bucket{rate: looks, has: looks, at: now},
		next: at,
	}
}

// Counts so far.
func (p *Picker) Counts() Counts { return p.counts }

// Due is from when on it may pick another event. MEPs before need not be shown to it.
func (p *Picker) Due() time.Time {
	if p.rate.has >= 1 {
		return p.rate.at
	}
	return p.rate.at.Add(time.Duration((1 - p.rate.has) / p.rate.rate * float64(time.Second)))
}

// Pick calls take with the index of each event of a MEP that is to be shown, in rising order. The position is that of
// the MEP's first event in the stream: MEPs may have been left out before.
func (p *Picker) Pick(now time.Time, m *Packet, at uint64, take func(i int)) {
	share, n := p.sel.share, uint64(m.N())
	if p.next < at {
		p.next += (at - p.next + share - 1) / share * share
	}
	if p.next >= at+n {
		return
	}
	first := p.next - at
	drawn := (n-first-1)/share + 1
	p.next += drawn * share
	if !p.rate.Has(now, 1) {
		return
	}
	may, filters := uint64(p.rate.has), p.sel.filters()
	if filters { // looking is what is scarce
		p.look.Has(now, 1)
		may = uint64(p.look.has) / uint64(len(m.mfps))
	}
	begin := start(m.MEP, drawn, may)
	if filters {
		p.counts.Passed += begin
	}
	for k := begin; k < drawn && p.rate.Has(now, 1); k++ {
		i := int(first + k*share)
		if filters && !p.look.Take(now, float64(len(m.mfps))) {
			p.counts.Passed += drawn - k
			return
		}
		if filters && !p.sel.fits(m, i) {
			continue
		}
		p.rate.Take(now, 1)
		p.counts.Picked++
		take(i)
	}
}

// start is the first of so many drawn events that is looked at, of which so many may be. Where all may, it is the
// first; else one that differs from MEP to MEP, so that not only the first events of MEPs are seen, and is the same for
// viewers of the same rate, who then share a copy.
func start(mep, drawn, may uint64) uint64 {
	if may >= drawn {
		return 0
	}
	return min((mep+1)*0x9E3779B97F4A7C15>>32%drawn, drawn-may)
}

// Bucket is a token bucket: it holds the tokens of one second at most, and one at least. It begins with one, so that in
// n seconds from the beginning there are n times the rate.
type Bucket struct {
	rate float64 // tokens a second
	has  float64
	at   time.Time
}

// Bucket holds the rate of a selection, for whoever merges events that several Pickers have picked.
func (s *Selection) Bucket(now time.Time) Bucket {
	b := Bucket{rate: s.rate, has: 1, at: now}
	if s.rate == maxRate { // nobody counts on that: it is a bound
		b.has = maxRate
	}
	return b
}

// Has says whether there are so many tokens now. A time before the last one is that one.
func (b *Bucket) Has(now time.Time, tokens float64) bool {
	if d := now.Sub(b.at); d > 0 {
		b.has, b.at = min(max(1, b.rate), b.has+b.rate*d.Seconds()), now
	}
	return b.has >= tokens
}

// Take takes so many tokens if they are there.
func (b *Bucket) Take(now time.Time, tokens float64) bool {
	if !b.Has(now, tokens) {
		return false
	}
	b.has -= tokens
	return true
}
