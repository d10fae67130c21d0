package pattern

import (
	"fmt"
	"math"
)

const (
	groupCount = 3
	// tableBits is log2 of the steps of the inverse distribution. 4096 steps of two bytes are 8 kB per group, so that the
	// table stays in the first-level cache beside the data; at a mean of 133 B the mean of the table is wrong by less
	// than 0.01 B.
	tableBits = 12

	// eventIncrement is splitmix64's increment, 2^64/φ made odd.
	eventIncrement uint64 = 0x9e3779b97f4a7c15
)

// wordIncrement is the difference of two successive words. It is odd, and differs from eventIncrement so that the words
// of one event are not the hashes of the next events. It has no type: words.go reduces its multiples modulo 2^64.
const wordIncrement = 0xd1b54a32d192ed03

// groupShares of the event by group (LHCb-EB §V.A, figure 11): rich, calo/velo/muon, SciFi/UT.
var groupShares = [groupCount]float64{0.28, 0.33, 0.39}

// sizeTable is the inverse distribution: size k is base + steps[k] << shift, in bytes. For sizes that have 16 bits,
// base and shift are 0.
type sizeTable struct {
	base  uint32
	shift uint8
	steps [1 << tableBits]uint16
}

// lookUp returns the size of the fragment with the hash h.
func (t *sizeTable) lookUp(h uint64) int {
	return int(t.base) + int(t.steps[h>>(64-tableBits)])<<t.shift
}

// largest returns the largest size.
func (t *sizeTable) largest() int { return int(t.base) + int(t.steps[len(t.steps)-1])<<t.shift }

// pack sets the table to sizes that grow.
func (t *sizeTable) pack(sizes *[1 << tableBits]uint32) {
	*t = sizeTable{}
	first, last := sizes[0], sizes[len(sizes)-1]
	if last > math.MaxUint16 {
		t.base = first
	}
	for (last-t.base)>>t.shift > math.MaxUint16 {
		t.shift++
	}
	for i, size := range sizes {
		t.steps[i] = uint16((size - t.base) >> t.shift)
	}
}

// Pattern is the rule for one Config. It is immutable after New and may be used by any number of goroutines.
type Pattern struct {
	cfg         Config
	meanByGroup [groupCount]float64
	sizes       [groupCount]sizeTable
}

// New computes the tables of cfg. The error is a *ConfigError.
func New(cfg Config) (*Pattern, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	p := &Pattern{cfg: cfg, meanByGroup: groupMeans(cfg)}
	for g := range p.sizes {
		if cfg.Model == Constant {
			var same [1 << tableBits]uint32
			for i := range same {
				same[i] = uint32(cfg.FragmentSize)
			}
			p.sizes[g].pack(&same)
			continue
		}
		if !fillPoissonTable(&p.sizes[g], p.meanByGroup[g]) {
			return nil, &ConfigError{"fragment size", fmt.Sprintf(
				"a mean of %d bytes over all sources gives a group of them a mean of %.0f, whose largest fragments exceed the "+
					"%d bytes a fragment can have",
				cfg.FragmentSize, p.meanByGroup[g], MaxFragment)}
		}
	}
	large := cfg.LargeFragments
	for source := large.FirstSource; source < large.FirstSource+large.Sources; source++ {
		if most := p.MaxSize(uint16(source)); most > MaxFragment {
			return nil, &ConfigError{"large fragments", fmt.Sprintf(
				"%d times as large, those of source %d take up to %d bytes, more than the %d one can have",
				large.Factor, source, most, MaxFragment)}
		}
	}
	return p, nil
}

// groupMeans returns the mean size of each group, in bytes; a group without sources has 0.
func groupMeans(c Config) (means [groupCount]float64) {
	f := float64(c.FragmentSize)
	if c.Model != LHCb {
		return [groupCount]float64{f, f, f}
	}
	var members [groupCount]int
	present := 0.0
	for g := range members {
		members[g] = (c.Sources + groupCount - 1 - g) / groupCount
		if members[g] > 0 {
			present += groupShares[g]
		}
	}
	for g, n := range members {
		if n > 0 {
			means[g] = f * float64(c.Sources) * groupShares[g] / (present * float64(n))
		}
	}
	return means
}

// SizeSpread returns the mean and the standard deviation of all fragments' sizes in bytes. It computes them from the
// distribution and not from generated data: within a group the variance is the mean, and the groups' means differ.
func (p *Pattern) SizeSpread() (mean, sigma float64) {
	if p.cfg.Model == Constant {
		return float64(p.cfg.FragmentSize), 0
	}
	squares := 0.0
	for g, m := range p.meanByGroup {
		members := float64((p.cfg.Sources + groupCount - 1 - g) / groupCount)
		mean += members * m
		squares += members * (m + m*m)
	}
	n := float64(p.cfg.Sources)
	mean, squares = mean/n, squares/n
	return mean, math.Sqrt(max(0, squares-mean*mean))
}

// fillPoissonTable fills t with the inverse of the Poisson distribution of the given mean. It returns false if a size
// exceeds MaxFragment.
//
// It computes the weights outward from the mode, each from its neighbour, without an exponential: their sum normalises
// them. Every operation is rounded by itself (a division or a conversion follows each product), so that no compiler may
// fuse two into one, and the result is the same on every architecture.
func fillPoissonTable(t *sizeTable, mean float64) bool {
	const negligible = 1.0 / (1 << 60)
	if mean <= 0 {
		*t = sizeTable{}
		return true
	}
	mode := int(mean)
	low := mode
	for w := 1.0; low > 0 && w > negligible; low-- {
		w = float64(w*float64(low)) / mean
	}
	weights := make([]float64, mode-low+1, 2*(mode-low)+64)
	weights[mode-low] = 1
	for k := mode; k > low; k-- {
		weights[k-1-low] = float64(weights[k-low]*float64(k)) / mean
	}
	for k, w := mode+1, 1.0; w > negligible; k++ {
		w = float64(w*mean) / float64(k)
		weights = append(weights, w)
	}
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	k, below := 0, weights[0]
	var sizes [1 << tableBits]uint32
	for i := range sizes {
		quantile := float64(sum*(float64(i)+0.5)) / float64(len(sizes))
		for below < quantile && k < len(weights)-1 {
			k++
			below += weights[k]
		}
		if low+k > MaxFragment {
			return false
		}
		sizes[i] = uint32(low + k)
	}
	t.pack(&sizes)
	return true
}

// mix is the finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection in which each input bit moves half of the
// output.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (p *Pattern) key(source uint16) uint64 {
	return mix(p.cfg.Seed + uint64(source)*eventIncrement)
}

// group returns the group of a source under the LHCb model: 0 rich, 1 calo/velo/muon, 2 SciFi/UT.
func (p *Pattern) group(source uint16) int { return int(source) % groupCount }

// Size returns the size of the fragment of (source, event), in bytes.
func (p *Pattern) Size(source uint16, event uint64) int {
	return p.sizeByHash(source, event, mix(p.key(source)+event*eventIncrement))
}

// sizeByHash is Size for a caller that has the fragment's hash h.
func (p *Pattern) sizeByHash(source uint16, event, h uint64) int {
	size := p.sizes[p.group(source)].lookUp(h)
	if p.cfg.LargeFragments.hasLarge(source) {
		size *= p.cfg.LargeFragments.factorAt(event)
	}
	return size
}

// MaxSize returns the largest size of the source's fragments, in bytes: some fragments have it.
func (p *Pattern) MaxSize(source uint16) int {
	size := p.sizes[p.group(source)].largest()
	if p.cfg.LargeFragments.hasLarge(source) {
		size *= p.cfg.LargeFragments.Factor
	}
	return size
}

// Fill writes the fragment of (source, event) into dst, whose length should be Size(source, event). Into a dst of
// another length it writes the first bytes of the same sequence of words.
func (p *Pattern) Fill(dst []byte, source uint16, event uint64) {
	fillWords(dst, len(dst), mix(p.key(source)+event*eventIncrement))
}
