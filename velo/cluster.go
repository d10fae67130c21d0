package velo

// MaxStrips is how many strips a board reads at most: a cluster has 11 bits for them.
const MaxStrips = 2048

const (
	stripMask    Cluster = MaxStrips - 1
	twoStripsBit Cluster = 1 << 11
	zeroBits     Cluster = 0xF000
)

// Cluster is a cluster of one strip or of two neighbours: bits 0 to 10 are the first strip, bit 11 is set for two
// strips, the other bits are zero.
type Cluster uint16

// NewCluster is the cluster that begins at a strip, 0..2047.
func NewCluster(strip int, two bool) Cluster {
	c := Cluster(strip) & stripMask
	if two {
		c |= twoStripsBit
	}
	return c
}

// Strip is the first strip.
func (c Cluster) Strip() int { return int(c & stripMask) }

// HasTwoStrips says whether the next strip belongs to the cluster as well.
func (c Cluster) HasTwoStrips() bool { return c&twoStripsBit != 0 }

// Size is the number of strips: 1 or 2.
func (c Cluster) Size() int { return 1 + int(c>>11&1) }

// last is the last strip.
func (c Cluster) last() int { return int(c&stripMask) + int(c>>11&1) }
