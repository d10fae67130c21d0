package drift

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
)

// Bounds of what a Monitor holds and compares.
const (
	// BlockEvents is how many events with consecutive numbers are compared at once.
	BlockEvents = 128
	// MaxSources is how many sources are compared: the first ones.
	MaxSources = 256

	maxPairs   = 256
	maxLag     = 8    // events; a slip from one window to the next
	maxFarLag  = 1024 // events; of sources that have lost each other
	maxPending = 32   // blocks that wait for their last events
	keptBlocks = 64   // blocks that windows reach back
	farBlocks  = 6    // blocks that are compared at far lags
	maxFar     = 8    // pairs that are compared at far lags, per block

	blockWords = BlockEvents / 64
	lags       = 2*maxLag + 1
)

// Missing is the size of a fragment that was not there.
const Missing = -1

// words has a bit for each event of a block.
type words [blockWords]uint64

// shift returns the bits of the events k before those of a block, 0 ≤ k < 64; before is the block before.
func (w words) shift(before words, k int) words {
	if k == 0 {
		return w
	}
	return words{w[0]<<k | before[1]>>(64-k), w[1]<<k | w[0]>>(64-k)}
}

// signs are the sizes of one source in one block: those above the median, and those that were there.
type signs struct{ large, valid words }

// block is a whole block: the signs of each source.
type block struct {
	number uint64 // its first event is number × BlockEvents
	signs  []signs
}

// pendingBlock is a block with some of its events.
type pendingBlock struct {
	count int
	swept bool // Sweep has seen it
	seen  words
	sizes []int32 // of event i and source s at i × sources + s
}

// Monitor compares sources. It is for one goroutine at a time.
type Monitor struct {
	names   []string
	pending map[uint64]*pendingBlock
	spare   []*pendingBlock
	blocks  []block // the last ones, oldest first
	taken   uint64  // events that were compared
	last    uint64  // number of the newest block
	steps   steps   // of the numbers of events
	pairs   []*pair
	far     int // pairs that were compared at far lags, in this block
	scratch []int32

	deciding int   // blocks for which pairs may still find out which source has slipped
	behind   []int // by source: of the last findings
	findings []Finding
	slips    uint64
}

// New makes a Monitor of sources.
func New(names []string) *Monitor {
	m := &Monitor{names: names[:min(len(names), MaxSources)], pending: map[uint64]*pendingBlock{}}
	n := len(m.names)
	m.behind = make([]int, n)
	for d := 1; d < n; d++ { // at distance d round the ring of sources, until all pairs are there or maxPairs
		for i := range n {
			a, b := i, (i+d)%n
			if n-d < d || n-d == d && i >= d || len(m.pairs) == maxPairs {
				break
			}
			m.pairs = append(m.pairs, newPair(min(a, b), max(a, b)))
		}
	}
	slices.SortFunc(m.pairs, func(p, q *pair) int { return cmp.Or(p.a-q.a, p.b-q.b) })
	return m
}

// Add takes the sizes of an event's fragments, in bytes, by source: Missing if there was none. An event that was added
// before is ignored; one of a block that is over, too.
func (m *Monitor) Add(event uint64, sizes []int32) {
	if len(m.pairs) == 0 || len(sizes) < len(m.names) {
		return
	}
	place, changed := m.steps.divide(event)
	if changed {
		m.restart()
	}
	number, i := place/BlockEvents, int(place%BlockEvents)
	if len(m.blocks) > 0 && number <= m.last {
		return
	}
	p := m.pending[number]
	if p == nil {
		p = m.begin(number)
		if p == nil {
			return
		}
	}
	if p.seen[i/64]&(1<<(i%64)) != 0 {
		return
	}
	p.seen[i/64] |= 1 << (i % 64)
	p.count++
	copy(p.sizes[i*len(m.names):], sizes[:len(m.names)])
	if p.count == BlockEvents {
		m.compareUpTo(number)
	}
}

// Sweep compares the blocks that have waited since the last call of Sweep, though they are not whole. A caller whose
// events come within a second calls it once a second.
func (m *Monitor) Sweep() {
	through, any := uint64(0), false
	for number, p := range m.pending {
		if p.swept {
			through, any = max(through, number), true
		}
		p.swept = true
	}
	if any {
		m.compareThrough(through)
	}
}

// compareThrough compares a pending block, and those before it.
func (m *Monitor) compareThrough(number uint64) {
	for _, n := range slices.Sorted(maps.Keys(m.pending)) {
		if n <= number {
			m.compare(n)
		}
	}
}

// begin makes the pending block of a number; the oldest ones make room. It returns nil if the new one is the oldest.
func (m *Monitor) begin(number uint64) *pendingBlock {
	if len(m.pending) == maxPending {
		oldest := number
		for n := range m.pending {
			oldest = min(oldest, n)
		}
		if oldest == number {
			return nil
		}
		m.compare(oldest)
	}
	p := &pendingBlock{sizes: make([]int32, BlockEvents*len(m.names))}
	if n := len(m.spare); n > 0 {
		p, m.spare = m.spare[n-1], m.spare[:n-1]
		p.count, p.swept, p.seen = 0, false, words{}
	}
	m.pending[number] = p
	return p
}

// compareUpTo compares a whole block, if no block before it is waited for, and those that have waited for it.
func (m *Monitor) compareUpTo(number uint64) {
	for {
		oldest := number
		for n := range m.pending {
			oldest = min(oldest, n)
		}
		if p := m.pending[oldest]; p == nil || p.count < BlockEvents {
			return
		}
		m.compare(oldest)
		number = ^uint64(0)
	}
}

// compare compares a pending block, whole or not, and forgets it.
func (m *Monitor) compare(number uint64) {
	p := m.pending[number]
	delete(m.pending, number)
	m.spare = append(m.spare, p)
	var b block
	if len(m.blocks) == keptBlocks {
		b = m.blocks[0]
		m.blocks = slices.Delete(m.blocks, 0, 1)
	} else {
		b.signs = make([]signs, len(m.names))
	}
	b.number = number
	for s := range m.names {
		b.signs[s] = m.signsOf(p, s)
	}
	m.blocks, m.last, m.taken, m.far = append(m.blocks, b), number, m.taken+uint64(p.count), 0
	for _, x := range m.pairs {
		m.observe(x)
	}
	m.decideMoves()
}

// signsOf are the signs of a source. That the median is of the block itself keeps the bits of independent events
// exchangeable, as Serfling's bound wants them.
func (m *Monitor) signsOf(p *pendingBlock, source int) (s signs) {
	m.scratch = m.scratch[:0]
	at := func(i int) int32 { return p.sizes[i*len(m.names)+source] }
	for i := range BlockEvents {
		if p.seen[i/64]&(1<<(i%64)) != 0 && at(i) != Missing {
			s.valid[i/64] |= 1 << (i % 64)
			m.scratch = append(m.scratch, at(i))
		}
	}
	if len(m.scratch) == 0 {
		return s
	}
	slices.Sort(m.scratch)
	median := m.scratch[(len(m.scratch)-1)/2]
	if median == m.scratch[len(m.scratch)-1] { // more than half are the largest: the others are below
		median--
	}
	for i := range BlockEvents {
		if s.valid[i/64]&(1<<(i%64)) != 0 && at(i) > median {
			s.large[i/64] |= 1 << (i % 64)
		}
	}
	return s
}

// counts compare the bits of two sources in some events.
type counts struct{ n, a, b, both uint32 }

func (c *counts) add(d counts) { c.n, c.a, c.b, c.both = c.n+d.n, c.a+d.a, c.b+d.b, c.both+d.both }
func (c *counts) sub(d counts) { c.n, c.a, c.b, c.both = c.n-d.n, c.a-d.a, c.b-d.b, c.both-d.both }

// compareSigns counts the bits of two sources in one block.
func compareSigns(a, b signs) (c counts) {
	for i := range blockWords {
		v := a.valid[i] & b.valid[i]
		c.n += uint32(bits.OnesCount64(v))
		c.a += uint32(bits.OnesCount64(v & a.large[i]))
		c.b += uint32(bits.OnesCount64(v & b.large[i]))
		c.both += uint32(bits.OnesCount64(v & a.large[i] & b.large[i]))
	}
	return c
}

// shifted are the signs of a source k events before those of block i of m.blocks; not valid where they are not known.
func (m *Monitor) shifted(i, source, k int) signs {
	now, back, rest := m.blocks[i].number, uint64(k/BlockEvents), k%BlockEvents
	get := func(back uint64) signs {
		if j := i - int(back); j >= 0 && m.blocks[j].number+back == now {
			return m.blocks[j].signs[source]
		}
		return signs{}
	}
	s := get(back)
	if rest == 0 {
		return s
	}
	before := get(back + 1)
	if rest >= 64 { // shift by whole words first
		s = signs{words{before.large[1], s.large[0]}, words{before.valid[1], s.valid[0]}}
		before = signs{words{0, before.large[0]}, words{0, before.valid[0]}}
		rest -= 64
	}
	return signs{s.large.shift(before.large, rest), s.valid.shift(before.valid, rest)}
}

// atLag are the signs of the sources of a pair in block i at a lag: with lag k > 0, what b numbers N stands beside a's
// N+k.
func (m *Monitor) atLag(p *pair, i, lag int) (a, b signs) {
	if lag >= 0 {
		return m.blocks[i].signs[p.a], m.shifted(i, p.b, lag)
	}
	return m.shifted(i, p.a, -lag), m.blocks[i].signs[p.b]
}

func (m *Monitor) compareAt(p *pair, i, lag int) counts { return compareSigns(m.atLag(p, i, lag)) }
