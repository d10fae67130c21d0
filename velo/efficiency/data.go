package efficiency

import (
	"fmt"
	"strconv"

	"ringlet/event"
	"ringlet/lab/page"
	"ringlet/lab/trial"
	"ringlet/velo"
	"ringlet/velo/frontend"
)

// The figures of the documents for the data.
const (
	documentedClusters     = "1800 with noise, 1286 without (L1-farm §6.1.1)"
	documentedPerBoard     = "13 without noise (L1-farm §6.1.1)"
	documentedMaxClusters  = "127 (L1-farm §3.2)"
	documentedOccupancy    = "below 1 % (L1-farm §3.1)"
	documentedClusterBytes = "3600 (L1-farm §6.1.1)"
	documentedEventBytes   = "4280, with 680 of overhead (L1-farm §6.5)"
)

// Data counts the content of the fragments of some events.
type Data struct {
	Boards           uint64 // fragments
	ClusterStrips    uint64 // in clusters
	TwoStripClusters uint64 // clusters of two strips
	OverfullBoards   uint64 // fragments with lost clusters: the board had more than fit
	ClustersPerEvent countHistogram
	ClustersPerBoard countHistogram
	BytesPerEvent    countHistogram // of an event, with the headers and trailers of its fragments
}

// The widths of the bins.
const (
	clustersBinWidth = 100
	bytesBinWidth    = 250
)

func newData() Data {
	return Data{ClustersPerEvent: countHistogram{binWidth: clustersBinWidth},
		ClustersPerBoard: countHistogram{binWidth: 1},
		BytesPerEvent:    countHistogram{binWidth: bytesBinWidth}}
}

// addBoard counts the fragments of event i of the MFPs, one of each MFP.
func (d *Data) addBoard(mfps []event.MFP, i int) error {
	clusters, bytes := 0, 0
	for k := range mfps {
		fragment := mfps[k].Fragment(i)
		board, err := velo.ParseBoard(fragment)
		if err != nil {
			return err
		}
		for _, c := range board.Clusters() {
			d.ClusterStrips += uint64(c.Size())
			if c.HasTwoStrips() {
				d.TwoStripClusters++
			}
		}
		if board.LostClusters() > 0 {
			d.OverfullBoards++
		}
		d.ClustersPerBoard.add(board.NumClusters())
		clusters, bytes = clusters+board.NumClusters(), bytes+len(fragment)
	}
	d.Boards += uint64(len(mfps))
	d.ClustersPerEvent.add(clusters)
	d.BytesPerEvent.add(bytes)
	return nil
}

// occupancy is the share of all strips that are in a cluster, 0 to 1.
func (d *Data) occupancy() float64 {
	return float64(d.ClusterStrips) / float64(max(1, d.Boards*velo.MaxStrips))
}

// twoStripShare is the share of clusters of two strips, 0 to 1.
func (d *Data) twoStripShare() float64 {
	return float64(d.TwoStripClusters) / float64(max(1, d.ClustersPerEvent.sum))
}

// withoutNoise is the same detector with so little noise that hardly any passes the threshold; 0.5 is the least noise
// that the simulation accepts.
func withoutNoise(c frontend.Config) frontend.Config {
	c.FrontEnd.Noise = min(c.FrontEnd.Noise, max(0.5, float64(c.FrontEnd.Threshold)/10))
	return c
}

// countHistogram counts whole numbers, in bins of one width.
type countHistogram struct {
	binWidth int
	bins     []uint64
	n, sum   uint64
	largest  int
}

func (s *countHistogram) add(v int) {
	bin := v / s.binWidth
	for len(s.bins) <= bin {
		s.bins = append(s.bins, 0)
	}
	s.bins[bin]++
	s.n, s.sum, s.largest = s.n+1, s.sum+uint64(v), max(s.largest, v)
}

func (s *countHistogram) mean() float64 { return float64(s.sum) / float64(max(1, s.n)) }

// curve draws the share of each bin, in %, at its middle.
func (s *countHistogram) curve(name string) page.Curve {
	c := page.Curve{Name: name}
	for i, n := range s.bins {
		middle := (float64(i) + 0.5) * float64(s.binWidth)
		if s.binWidth == 1 {
			middle = float64(i)
		}
		c.Points = append(c.Points, point(middle, 100*float64(n)/float64(s.n)))
	}
	return c
}

// point is a point of a single measurement.
func point(x, y float64) page.Point {
	return page.Point{X: x, Spread: trial.Spread{N: 1, Median: y, Min: y, Max: y}}
}

// dataSection is the section of the page about the data.
func (r *Report) dataSection() page.Section {
	row := func(name, form, documented string, value func(*Data) any) []page.Cell {
		cells := []page.Cell{{Text: name, Words: true}}
		for _, d := range []*Data{&r.NoisyData, &r.NoiselessData} {
			cells = append(cells, page.Cell{Text: fmt.Sprintf(form, value(d)), Words: true})
		}
		return append(cells, page.Cell{Text: documented, Words: true})
	}
	return page.Section{
		ID:    "data",
		Title: "What the data are",
		Note: fmt.Sprintf("The same collisions twice: with noise of %g counts of the converter, which is what the filter "+
			"sees, and with %g, which passes the threshold of %d hardly anywhere.", r.Config.Detector.FrontEnd.Noise,
			withoutNoise(r.Config.Detector).FrontEnd.Noise, r.Config.Detector.FrontEnd.Threshold),
		Table: page.Table{Heads: []string{"", "here", "here, without noise", "documents"}, Rows: [][]page.Cell{
			row("clusters of an event", "%.0f", documentedClusters, func(d *Data) any { return d.ClustersPerEvent.mean() }),
			row("clusters of a board", "%.1f", documentedPerBoard, func(d *Data) any { return d.ClustersPerBoard.mean() }),
			row("most of a board", "%d", documentedMaxClusters, func(d *Data) any { return d.ClustersPerBoard.largest }),
			row("boards that had more", "%s", "", func(d *Data) any { return d.overfullText() }),
			row("strips in a cluster", "%.2f %%", documentedOccupancy, func(d *Data) any { return 100 * d.occupancy() }),
			row("clusters of two strips", "%.1f %%", "", func(d *Data) any { return 100 * d.twoStripShare() }),
			row("bytes of an event's clusters", "%.0f", documentedClusterBytes,
				func(d *Data) any { return 2 * d.ClustersPerEvent.mean() }),
			row("bytes of an event", "%.0f", documentedEventBytes, func(d *Data) any { return d.BytesPerEvent.mean() }),
			row("bytes of the largest", "%d", "", func(d *Data) any { return d.BytesPerEvent.largest }),
		}},
		Figures: []page.Figure{
			r.drawn("Clusters of an event", "clusters", func(d *Data) *countHistogram { return &d.ClustersPerEvent }),
			r.drawn("Clusters of a board", "clusters", func(d *Data) *countHistogram { return &d.ClustersPerBoard }),
			r.drawn("Sizes of events", "bytes, with headers and trailers",
				func(d *Data) *countHistogram { return &d.BytesPerEvent }),
		},
	}
}

// overfullText says how many fragments have lost clusters.
func (d *Data) overfullText() string {
	return strconv.FormatUint(d.OverfullBoards, 10) + " of " + strconv.FormatUint(d.Boards, 10)
}

// drawn is the figure of a histogram, with noise and without.
func (r *Report) drawn(title, of string, spectrum func(*Data) *countHistogram) page.Figure {
	with, without := spectrum(&r.NoisyData), spectrum(&r.NoiselessData)
	return page.Figure{
		Title:  title,
		Note:   fmt.Sprintf("%.4g on average, %.4g without noise. Steps of %d.", with.mean(), without.mean(), with.binWidth),
		X:      page.Axis{Label: of},
		Y:      page.Axis{Label: "share, %"},
		Curves: []page.Curve{with.curve("with noise"), without.curve("without noise")},
	}
}

// figures are the means, for programs.
func (d *Data) figures() map[string]any {
	return map[string]any{
		"clusters":        d.ClustersPerEvent.mean(),
		"board_clusters":  d.ClustersPerBoard.mean(),
		"board_most":      d.ClustersPerBoard.largest,
		"boards_full":     d.OverfullBoards,
		"boards":          d.Boards,
		"occupancy":       d.occupancy(),
		"two_strip_share": d.twoStripShare(),
		"event_bytes":     d.BytesPerEvent.mean(),
		"largest_event":   d.BytesPerEvent.largest,
	}
}
