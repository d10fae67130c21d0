package inspect

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"ringlet/event"
	"ringlet/velo"
)

// clusterStats counts what the boards of a vertex detector have sent, beside figures of L1-farm.
type clusterStats struct {
	Boards         int64 `json:"boards"`       // fragments
	NoBoards       int64 `json:"not_readable"` // fragments of the type that cannot be parsed
	Sources        int   `json:"sources"`      // number of boards
	Clusters       int64 `json:"clusters"`
	TwoStrips      int64 `json:"of_two_strips"`
	OverfullBoards int64 `json:"full_boards"` // with an overflow
	LostClusters   int64 `json:"clusters_lost"`
	Bytes          int64 `json:"bytes"`

	PerBoard distribution `json:"clusters_per_board"`
	PerEvent distribution `json:"clusters_per_event"` // empty for a file of MFPs, which does not have whole events

	boardSeen       [velo.MaxBoards]bool
	clustersByEvent map[uint64]int // clusters by event of the current unit
}

// boardBinWidth and eventBinWidth are the widths of the bars of the two distributions, in clusters.
const (
	boardBinWidth = 8
	eventBinWidth = 200
	mostBins      = 40
)

// distribution counts values in bins; the last bin also has all larger values.
type distribution struct {
	N     int64   `json:"n"`
	Mean  float64 `json:"mean"`
	Sigma float64 `json:"sigma"`
	Min   int     `json:"min"`
	Max   int     `json:"max"`
	Width int     `json:"bin_width"`
	Bins  []int64 `json:"bins"`

	sum, squares int64
}

func (s *distribution) add(v int) {
	if s.N == 0 || v < s.Min {
		s.Min = v
	}
	s.Max = max(s.Max, v)
	s.N++
	s.sum += int64(v)
	s.squares += int64(v) * int64(v)
	bin := min(v/s.Width, mostBins-1)
	for len(s.Bins) <= bin {
		s.Bins = append(s.Bins, 0)
	}
	s.Bins[bin]++
}

// computeMoments computes mean and standard deviation from sums of whole numbers: the order of values does not matter.
func (s *distribution) computeMoments() {
	n := float64(max(1, s.N))
	s.Mean = float64(s.sum) / n
	s.Sigma = math.Sqrt(max(0, float64(s.squares)/n-s.Mean*s.Mean))
}

// isBoard says whether a fragment or bank is a board of a vertex detector.
func isBoard(t event.BankType, version uint8) bool {
	return t == velo.BankType && version == velo.Version
}

func newClusters() *clusterStats {
	return &clusterStats{
		PerBoard:        distribution{Width: boardBinWidth},
		PerEvent:        distribution{Width: eventBinWidth},
		clustersByEvent: map[uint64]int{},
	}
}

// board adds the fragment of a board for an event.
func (c *clusterStats) board(ev uint64, data []byte) {
	b, err := velo.ParseBoard(data)
	if err != nil {
		c.NoBoards++
		return
	}
	c.Boards++
	c.Bytes += int64(len(b))
	c.Clusters += int64(b.NumClusters())
	c.LostClusters += int64(b.LostClusters())
	if b.LostClusters() > 0 {
		c.OverfullBoards++
	}
	for _, one := range b.Clusters() {
		c.TwoStrips += int64(one.Size() - 1)
	}
	if !c.boardSeen[b.Number()] {
		c.boardSeen[b.Number()] = true
		c.Sources++
	}
	c.PerBoard.add(b.NumClusters())
	c.clustersByEvent[ev] += b.NumClusters()
}

// endUnit adds the events of a unit of the file to PerEvent; complete says that the unit has all their fragments.
func (c *clusterStats) endUnit(complete bool) {
	if complete {
		for _, n := range c.clustersByEvent {
			c.PerEvent.add(n)
		}
	}
	clear(c.clustersByEvent)
}

// text prints the table and the two distributions.
func (c *clusterStats) text(out io.Writer) error {
	share := func(n, of int64) float64 { return 100 * float64(n) / float64(max(1, of)) }
	fmt.Fprintf(out, "\nvertex detector: %d boards, %d fragments", c.Sources, c.Boards)
	if c.NoBoards > 0 {
		fmt.Fprintf(out, ", and %d that cannot be read", c.NoBoards)
	}
	fmt.Fprintln(out)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "clusters\tmean\tsigma\tmin\tmax\tL1-farm\t")
	row := func(name string, s *distribution, document string) {
		if s.N > 0 {
			fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%d\t%d\t%s\t\n", name, s.Mean, s.Sigma, s.Min, s.Max, document)
		}
	}
	row("of an event", &c.PerEvent, "1286, with noise 1800")
	row("of a board", &c.PerBoard, "13 without noise, at most 127")
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "occupancy %.2f %% of the boards' 2048 strips (document: below 1 %%), %.1f %% of the clusters have "+
		"two strips\n", share(c.Clusters+c.TwoStrips, c.Boards*velo.MaxStrips), share(c.TwoStrips, c.Clusters))
	fmt.Fprintf(out, "full boards: %d, which left %d clusters out\n", c.OverfullBoards, c.LostClusters)
	if c.PerEvent.N > 0 {
		fmt.Fprintf(out, "bytes of an event %.1f, of them %.1f of clusters (document: 4280 and 3600)\n",
			float64(c.Bytes)/float64(c.PerEvent.N), 2*c.PerEvent.Mean)
	}
	c.PerEvent.bars(out, "events by number of clusters")
	c.PerBoard.bars(out, "boards by number of clusters")
	return nil
}

// bars draws a distribution.
func (s *distribution) bars(out io.Writer, title string) {
	if s.N == 0 {
		return
	}
	const length = 50
	most := int64(1)
	for _, n := range s.Bins {
		most = max(most, n)
	}
	fmt.Fprintf(out, "\n%s\n", title)
	for i, n := range s.Bins {
		fmt.Fprintf(out, "%6d %-*s %d\n", i*s.Width, length, strings.Repeat("#", int(n*length/most)), n)
	}
}

// boardFields are a board's fields in a dump: its clusters by their strips; 10+11 is a cluster of two strips.
func boardFields(data []byte) []field {
	b, err := velo.ParseBoard(data)
	if err != nil {
		return []field{{"no board", err.Error()}}
	}
	var list strings.Builder
	for i, c := range b.Clusters() {
		if i > 0 {
			list.WriteByte(' ')
		}
		fmt.Fprint(&list, c.Strip())
		if c.HasTwoStrips() {
			fmt.Fprintf(&list, "+%d", c.Strip()+1)
		}
	}
	return []field{{"board", b.Number()}, {"board event", b.Event()}, {"lost", b.LostClusters()},
		{"clusters", list.String()}}
}
