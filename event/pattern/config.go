package pattern

import (
	"fmt"
	"strings"

	"ringlet/event"
)

// MaxSources is the number of sources a u16 source id can tell apart.
const MaxSources = 1 << 16

// MaxFragment is the largest fragment, in bytes.
const MaxFragment = event.MaxFragment

// MaxFactor is the largest factor of LargeFragments.
const MaxFactor = 1<<16 - 1

// maxAlign is the largest alignment of fragments that is accepted, log2 of bytes: a page.
const maxAlign = 12

// Model says how the sizes of fragments are distributed.
type Model uint8

const (
	// LHCb has three groups of sources with 0.28, 0.33 and 0.39 of the event, each Poissonian around its own mean.
	LHCb Model = iota
	// Poisson has every source Poissonian around the same mean.
	Poisson
	// Constant has every fragment of the same size.
	Constant
)

var modelNames = [...]string{LHCb: "lhcb", Poisson: "poisson", Constant: "constant"}

func (m Model) String() string {
	if int(m) < len(modelNames) {
		return modelNames[m]
	}
	return fmt.Sprintf("model(%d)", uint8(m))
}

// ParseModel returns the model named s: lhcb, poisson or constant.
func ParseModel(s string) (Model, error) {
	for i, n := range modelNames {
		if s == n {
			return Model(i), nil
		}
	}
	return 0, fmt.Errorf("fragment model %q is not known: it is one of %s", s, strings.Join(modelNames[:], ", "))
}

// Config is everything that enters the rule. Readout units and builder units must use equal ones.
type Config struct {
	// Seed makes one run's data differ from another's. Zero is a seed like any other.
	Seed uint64
	// Sources is the number of sources of the whole system. The LHCb model shares the event among them.
	Sources int
	// FragmentSize is the mean over all sources, in bytes. Zero means empty fragments.
	FragmentSize int
	// Model is the distribution of sizes. The zero value is LHCb.
	Model Model
	// Align is log2 of the bytes each fragment is padded to within its MFP. Zero means no padding.
	Align uint8
	// LargeFragments makes some fragments larger on purpose. Zero is none.
	LargeFragments LargeFragments
}

// LargeFragments makes all fragments of some sources larger in one of every MEPInterval MEPs (TagNet-farm §V.F, figure
// V-10: "a few of the events are intentionally increased in size by a factor of 5").
type LargeFragments struct {
	FirstSource, Sources int    // the sources [First, First+Sources)
	Packing              int    // events of a MEP
	MEPInterval          uint64 // the last one of each MEPInterval MEPs has large fragments; 0: no MEP has
	Factor               int    // by which these fragments are larger
}

// hasLarge says whether the source has larger fragments in some MEPs.
func (l *LargeFragments) hasLarge(source uint16) bool {
	return l.MEPInterval > 0 && int(source) >= l.FirstSource && int(source) < l.FirstSource+l.Sources
}

// factorAt is the factor of the fragment sizes in event ev, for a source with hasLarge.
func (l *LargeFragments) factorAt(ev uint64) int {
	if ev/uint64(l.Packing)%l.MEPInterval == l.MEPInterval-1 {
		return l.Factor
	}
	return 1
}

func (l *LargeFragments) validate() error {
	if l.MEPInterval > 0 && (l.Packing < 1 || l.Factor < 1 || l.Factor > MaxFactor) {
		return &ConfigError{"large fragments", fmt.Sprintf(
			"a factor of %d in MEPs of %d events: both must be at least 1, the factor at most 65535", l.Factor, l.Packing)}
	}
	return nil
}

// ConfigError says which field of a Config cannot be used, and why.
type ConfigError struct {
	Field  string
	Reason string
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("generated data: %s: %s", e.Field, e.Reason)
}

func (c Config) validate() error {
	switch {
	case c.Sources < 1 || c.Sources > MaxSources:
		return &ConfigError{"sources", fmt.Sprintf("%d is not between 1 and %d", c.Sources, MaxSources)}
	case c.FragmentSize < 0 || c.FragmentSize > MaxFragment:
		return &ConfigError{"fragment size", fmt.Sprintf("a mean of %d bytes is not between 0 and %d", c.FragmentSize,
			MaxFragment)}
	case int(c.Model) >= len(modelNames):
		return &ConfigError{"fragment model", fmt.Sprintf("%d is not known", uint8(c.Model))}
	case c.Align > maxAlign:
		return &ConfigError{"align", fmt.Sprintf("2^%d bytes is more than 2^%d", c.Align, maxAlign)}
	}
	return c.LargeFragments.validate()
}
