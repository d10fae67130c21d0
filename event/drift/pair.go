package drift

import "math"

// evidenceNeeded is the exponent in Serfling's bound that a correlation needs (doc.go). A far lag needs more by the
// logarithm of 2 × 1,024 lags ÷ 17, since more are tried.
const (
	evidenceNeeded    = 40.0
	farEvidenceNeeded = 45.0
)

// windows are how many blocks back a lag is judged, shortest first; the last is keptBlocks.
var windows = [...]int{2, 6, 16, keptBlocks}

// blockCounts are counts of one block, 128 at most.
type blockCounts struct{ n, a, b, both uint8 }

func (c blockCounts) wide() counts {
	return counts{uint32(c.n), uint32(c.a), uint32(c.b), uint32(c.both)}
}

// pair compares the sources a and b, a < b, and remembers what was seen of them.
type pair struct {
	a, b int

	kept  [keptBlocks][lags]blockCounts // a ring
	sums  [len(windows)][lags]counts
	age   int // blocks that were compared
	fresh int // of these, blocks after the last slip of one of the sources: no window begins before

	known     bool    // a lag was seen
	confirmed bool    // in fresh blocks
	lag       int     // that was seen last: with k > 0, what b numbers N belongs to a's N+k
	phi       float64 // the correlation of the bits at that lag
	events    uint32  // in which it was seen
	since     uint64  // the first event of the lag, about; 0: it was there from the beginning
}

func newPair(a, b int) *pair { return &pair{a: a, b: b} }

// phi is the correlation of two sources' bits, and the exponent of Serfling's bound for it.
func (c counts) phi() (phi, exponent float64) {
	n, a, b := float64(c.n), float64(c.a), float64(c.b)
	va, vb := a*(n-a), b*(n-b)
	if va == 0 || vb == 0 {
		return 0, 0
	}
	d := float64(c.both) - a*b/n
	drawn := math.Inf(1)
	for _, m := range [...]float64{a, n - a, b, n - b} {
		drawn = min(drawn, m*(1-(m-1)/n))
	}
	return d * n / math.Sqrt(va*vb), 2 * d * d / drawn
}

// observe compares a pair in the newest block.
func (m *Monitor) observe(p *pair) {
	at := p.age % keptBlocks
	leaving := p.kept[at]
	for k := range lags {
		c := m.compareAt(p, len(m.blocks)-1, k-maxLag)
		p.kept[at][k] = blockCounts{uint8(c.n), uint8(c.a), uint8(c.b), uint8(c.both)}
		for w, blocks := range windows {
			if p.age >= blocks {
				old := leaving[k]
				if blocks < keptBlocks {
					old = p.kept[(p.age-blocks)%keptBlocks][k]
				}
				p.sums[w][k].sub(old.wide())
			}
			p.sums[w][k].add(c)
		}
	}
	p.age++
	p.fresh++
	for w, blocks := range windows {
		if p.fresh < blocks {
			return
		}
		if lag, phi, ok := p.peak(&p.sums[w]); ok {
			if p.known || lag == 0 || m.isOnlyLag(p, lag) {
				m.see(p, lag, phi, p.sums[w][lag+maxLag].n)
			}
			return
		}
		if blocks == farBlocks && p.known && m.isLost(p, &p.sums[w]) {
			m.searchFar(p)
			return
		}
	}
}

// peak is the lag at which the sources agree by enough evidence, and more than at every other lag.
func (p *pair) peak(sums *[lags]counts) (lag int, phi float64, ok bool) {
	best, second, at := 0.0, 0.0, 0
	for k := range sums {
		phi, _ := sums[k].phi()
		switch phi = math.Abs(phi); {
		case phi > best:
			best, second, at = phi, best, k
		case phi > second:
			second = phi
		}
	}
	phi, exponent := sums[at].phi()
	if exponent < evidenceNeeded {
		return 0, 0, false
	}
	needed := best * math.Sqrt(evidenceNeeded/exponent) // what just has enough evidence
	return at - maxLag, phi, best-second >= needed
}

// isOnlyLag says that sources agree at a lag at least twice as well as at each far one. Sources with a large event
// now and then, at equal intervals, agree at many lags, and are not apart at any.
func (m *Monitor) isOnlyLag(p *pair, lag int) bool {
	if m.far++; m.far > maxFar {
		return false // a later block decides
	}
	best, _ := m.recent(p, lag).phi()
	for far := -maxFarLag; far <= maxFarLag; far++ {
		if phi, _ := m.recent(p, far).phi(); far != lag && math.Abs(phi) > math.Abs(best)/2 {
			return false
		}
	}
	return true
}

// isLost says that sources whose lag was known agree there no more, though their correlation was so strong that a peak
// would be seen.
func (m *Monitor) isLost(p *pair, sums *[lags]counts) bool {
	c := m.recent(p, p.lag)
	if p.lag >= -maxLag && p.lag <= maxLag {
		c = sums[p.lag+maxLag]
	}
	phi, _ := c.phi()
	return c.n > 0 && math.Abs(p.phi) >= 2*math.Sqrt(evidenceNeeded/float64(c.n)) && math.Abs(phi) < math.Abs(p.phi)/2
}

// recent compares the sources of a pair in the last farBlocks blocks.
func (m *Monitor) recent(p *pair, lag int) (c counts) {
	for i := max(0, len(m.blocks)-farBlocks); i < len(m.blocks); i++ {
		c.add(m.compareAt(p, i, lag))
	}
	return c
}

// searchFar looks for the lag of sources that have lost each other.
func (m *Monitor) searchFar(p *pair) {
	if m.far++; m.far > maxFar {
		return
	}
	best, second, at := counts{}, 0.0, 0
	bestPhi, bestExponent := 0.0, 0.0
	for lag := -maxFarLag; lag <= maxFarLag; lag++ {
		c := m.recent(p, lag)
		phi, exponent := c.phi()
		switch abs := math.Abs(phi); {
		case abs > math.Abs(bestPhi):
			second = math.Abs(bestPhi)
			best, at, bestPhi, bestExponent = c, lag, phi, exponent
		case abs > second:
			second = abs
		}
	}
	if bestExponent >= farEvidenceNeeded &&
		math.Abs(bestPhi)-second >= math.Abs(bestPhi)*math.Sqrt(farEvidenceNeeded/bestExponent) {
		m.see(p, at, bestPhi, best.n)
	}
}

// see notes a lag that was seen.
func (m *Monitor) see(p *pair, lag int, phi float64, events uint32) {
	if p.known && lag != p.lag {
		p.since = m.findChange(p, p.lag, lag)
		m.noteSlip(p)
	}
	p.known, p.confirmed = true, true
	p.lag, p.phi, p.events = lag, phi, events
}

// noteSlip begins the windows of all pairs that have one of two sources anew, after the slip: one of the two has moved.
func (m *Monitor) noteSlip(p *pair) {
	fresh := 0
	for i := range m.blocks {
		if m.blocks[i].number*BlockEvents >= p.since {
			fresh++
		}
	}
	for _, q := range m.pairs {
		if q != p && q.confirmed && (q.a == p.a || q.a == p.b || q.b == p.a || q.b == p.b) && q.fresh > fresh {
			q.confirmed, m.deciding = false, decisionBlocks
		}
	}
	for _, q := range m.pairs {
		if q.a == p.a || q.a == p.b || q.b == p.a || q.b == p.b {
			q.fresh = min(q.fresh, fresh)
		}
	}
}

// findChange is the event from which on two sources agree at the lag to, and not at from any more: where the sum of
// their agreement before at from and after at to is largest.
func (m *Monitor) findChange(p *pair, from, to int) (event uint64) {
	sum, best := 0, 0
	event = m.blocks[0].number * BlockEvents
	for i := range m.blocks {
		was, is := m.agreement(p, i, from), m.agreement(p, i, to)
		for e := range BlockEvents {
			sum += was.readSign(e)*sign(p.phi) - is.readSign(e)*sign(p.phi)
			if sum > best {
				best, event = sum, m.blocks[i].number*BlockEvents+uint64(e)+1
			}
		}
	}
	return event
}

// agreement has the bits in which two sources are alike at a lag.
func (m *Monitor) agreement(p *pair, i, lag int) signs {
	a, b := m.atLag(p, i, lag)
	var s signs
	for w := range blockWords {
		s.valid[w] = a.valid[w] & b.valid[w]
		s.large[w] = ^(a.large[w] ^ b.large[w])
	}
	return s
}

// readSign is 1 if event e agrees, -1 if it does not, 0 if it is not known.
func (s *signs) readSign(e int) int {
	switch bit := uint64(1) << (e % 64); {
	case s.valid[e/64]&bit == 0:
		return 0
	case s.large[e/64]&bit != 0:
		return 1
	}
	return -1
}

func sign(x float64) int {
	if x < 0 {
		return -1
	}
	return 1
}
