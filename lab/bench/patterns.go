package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"

	"ringlet/lab/trial"
	"ringlet/node/config"
)

// pattern is one of the patterns of traffic with which NIC-crossbar §4.2 tested a switch.
type pattern struct {
	Name       string
	Says       string
	Document   string        // its figure, in words
	pairs      map[int][]int // by sender: the receivers, in turn
	roundTrips bool          // one write at a time, and one back
}

var patterns = []pattern{
	{
		Name:       "ping-pong",
		Says:       "a write, and one back when it is checked",
		Document:   "billions without error",
		pairs:      map[int][]int{0: {1}},
		roundTrips: true,
	},
	{
		Name:     "one-way",
		Says:     "one sender, one receiver",
		Document: "287 of 300 MByte/s",
		pairs:    map[int][]int{0: {1}},
	},
	{
		Name:     "to-self",
		Says:     "a node to itself",
		Document: "270 of 300 MByte/s",
		pairs:    map[int][]int{0: {0}},
	},
	{
		Name:     "three-to-one",
		Says:     "three senders, one receiver",
		Document: "93 MByte/s each, 279 of 300",
		pairs:    map[int][]int{1: {0}, 2: {0}, 3: {0}},
	},
	{
		Name:     "all-to-all",
		Says:     "four senders, each to all four in turn",
		Document: "billions without error",
		pairs:    map[int][]int{0: {0, 1, 2, 3}, 1: {1, 2, 3, 0}, 2: {2, 3, 0, 1}, 3: {3, 0, 1, 2}},
	},
}

// PatternsConfig says what to measure.
type PatternsConfig struct {
	NodesConfig
	Sizes []config.Bytes // of a write, whole words of 8 bytes
	// WordsPerSender is how many words each sender sends in each measurement; 0: as many as Duration allows.
	WordsPerSender uint64
	Duration       time.Duration // of each measurement
}

// maxPatternWrite is the largest write: the index of a word has 16 bits, and each flow has at least 64 windows.
const maxPatternWrite = 64 << 10

// Validate returns the first invalid setting as a *UsageError.
func (c *PatternsConfig) Validate() error {
	if len(c.Sizes) == 0 {
		return usageErrorf("sizes", "no size is given: give some as 24,4KiB")
	}
	for _, s := range c.Sizes {
		if err := checkWords("sizes", s, maxPatternWrite); err != nil {
			return err
		}
	}
	return c.validate(c.Duration)
}

// patternsReport has the results of the patterns; `ringlet bench patterns --json` prints it.
type patternsReport struct {
	nodesReport
	SpinUs int64        `json:"spin_us"`
	Rows   []patternRow `json:"patterns"`
}

// patternRow is one pattern with writes of one size.
type patternRow struct {
	Pattern         string  `json:"pattern"`
	Size            int     `json:"size"`     // bytes of a write
	WritesPerBatch  int     `json:"together"` // writes that travel together
	Senders         int     `json:"senders"`
	DurationS       float64 `json:"duration_s"`
	Writes          uint64  `json:"writes"` // sent
	Words           uint64  `json:"words"`  // checked at the receivers
	WrongWords      uint64  `json:"wrong_words"`
	MisplacedWrites uint64  `json:"misplaced_writes"`
	LostWrites      uint64  `json:"lost_writes"` // sent, but not seen by the receiver
	MByteS          float64 `json:"mbyte_per_s"` // of all senders together: million bytes
	SlowestMByteS   float64 `json:"slowest_mbyte_per_s"`
	P50             float64 `json:"p50_us"` // there and back for ping-pong; else from the call to the outcome, under load
	P99             float64 `json:"p99_us"`
	ResentDatagrams uint64  `json:"datagrams_resent"`
	Document        string  `json:"document"`
	Error           string  `json:"error,omitempty"` // the first wrong word, or why the measurement ended
}

func (r *patternRow) label() (title, figure string) {
	return r.Pattern + " " + config.Bytes(r.Size).String(), fmt.Sprintf("%s %d", r.Pattern, r.Size)
}

func (r *patternRow) faults() (wrong, lost uint64, why string) {
	return r.WrongWords + r.MisplacedWrites, r.LostWrites, r.Error
}

// Failure says how many measurements had errors or losses.
func (r *patternsReport) Failure() error { return rowsFailure(&r.nodesReport, r.Rows) }

// prepare lists all patterns with all sizes.
func (c *PatternsConfig) prepare() (*patternsReport, []point, func() error, error) {
	r := &patternsReport{
		nodesReport: c.report(),
		SpinUs:      c.Spin.Microseconds(),
		Rows:        []patternRow{},
	}
	var points []point
	for i := range patterns {
		p := &patterns[i]
		for _, size := range c.Sizes {
			points = append(points, rowPoint(&r.Rows, p.Name+" "+size.String(),
				func(ctx context.Context, view uint64) (patternRow, error) { return c.measure(ctx, p, int(size), view) }))
		}
	}
	return r, points, nil, nil
}

// measure runs one pattern with one size.
func (c *PatternsConfig) measure(ctx context.Context, p *pattern, size int, view uint64) (row patternRow, err error) {
	m := stationsConfig{
		nodes: &c.NodesConfig,
		view:  view,
		pairs: p.pairs,
		size:  size,
		batch: min(flowBatch, max(1, maxPatternWrite/size)),
	}
	if p.roundTrips {
		m.pairs, m.batch = pingPongPairs, 1
	}
	row = patternRow{
		Pattern:        p.Name,
		Size:           size,
		WritesPerBatch: m.batch,
		Senders:        len(p.pairs),
		Document:       p.Document,
	}
	err = m.with(ctx, func(all []*station) error {
		began := time.Now()
		err := runFor(c.Duration, func(over *atomic.Bool) error { return c.traffic(ctx, p, all, over) })
		row.fillFromStations(all, time.Since(began))
		if err != nil && ctx.Err() == nil { // a broken link is a result
			row.Error, err = err.Error(), nil
		}
		return err
	})
	return row, err
}

// traffic sends until over is set or the words are sent, and waits until all of it has arrived.
func (c *PatternsConfig) traffic(ctx context.Context, p *pattern, all []*station, over *atomic.Bool) error {
	defer awaitReceived(all)
	writes := func(l *flow) uint64 { return ^uint64(0) }
	if c.WordsPerSender > 0 {
		writes = func(l *flow) uint64 {
			perWrite := uint64(l.size / wordSize)
			return (c.WordsPerSender + perWrite - 1) / perWrite
		}
		over = &atomic.Bool{} // not the time, but the words end it
	}
	if p.roundTrips {
		ping, pong := all[0].outFlows[1], all[1].outFlows[0]
		ping.roundTrips, pong.roundTrips = newTimes(), newTimes() // the times of pings have those of the answers in them
		most := writes(ping)
		return roundTrips(ctx, all, 0, func() bool { return ping.next < most && !over.Load() },
			func(took time.Duration) { _ = ping.roundTrips.RecordValue(int64(took)) })
	}
	g, ctx := errgroup.WithContext(ctx)
	for from, to := range p.pairs {
		s := all[from]
		g.Go(func() error {
			remaining := writes(s.outFlows[to[0]])
			for turn := 0; remaining > 0 && !over.Load() && ctx.Err() == nil; turn++ {
				l := s.outFlows[to[turn%len(to)]]
				n, err := s.send(ctx, l, int(min(remaining, flowBatch)))
				if err != nil {
					return err
				}
				remaining -= uint64(n)
			}
			return s.await(ctx, s.idle)
		})
	}
	return g.Wait()
}

// pingPongPairs are the flows between two nodes that answer each other.
var pingPongPairs = map[int][]int{0: {1}, 1: {0}}

// errEnough ends the far side of roundTrips.
var errEnough = errors.New("enough")

// roundTrips sends a write from the first of two stations to the second. The second sees the write, is busy for the
// time work, and writes back. It repeats this while more returns true, and records how long each round trip took.
func roundTrips(ctx context.Context, all []*station, work time.Duration, more func() bool,
	record func(took time.Duration)) error {
	near, far := all[0], all[1]
	there, back := near.outFlows[1], far.outFlows[0]
	g, ctx := errgroup.WithContext(ctx)
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	g.Go(func() error {
		for n := uint64(1); ; n++ {
			err := far.await(ctx, func() bool { return there.checkedWrites.Load() >= n })
			for until := time.Now().Add(work); err == nil && time.Now().Before(until); {
				runtime.KeepAlive(work) // busy: a sleep would take longer
			}
			if err == nil {
				_, err = far.send(ctx, back, 1)
			}
			if errors.Is(context.Cause(ctx), errEnough) {
				return nil
			}
			if err != nil {
				return err
			}
		}
	})
	g.Go(func() error {
		defer end(errEnough)
		for n := uint64(1); ctx.Err() == nil && more(); n++ {
			began := time.Now()
			_, err := near.send(ctx, there, 1)
			if err == nil {
				err = near.await(ctx, func() bool { return back.checkedWrites.Load() >= n })
			}
			if err != nil {
				return err
			}
			record(time.Since(began))
		}
		return near.await(ctx, near.idle)
	})
	return g.Wait()
}

// awaitPlacement waits until is returns true, but no longer than placementTimeout.
func awaitPlacement(is func() bool) {
	for until := time.Now().Add(placementTimeout); !is() && time.Now().Before(until); {
		time.Sleep(50 * time.Microsecond)
	}
}

// awaitReceived waits until receivers have seen all writes. Writes that they have not seen in time count as lost.
func awaitReceived(all []*station) {
	awaitPlacement(func() bool {
		return !slices.ContainsFunc(all, func(s *station) bool {
			return !s.ended.Load() && slices.ContainsFunc(s.outFlows, func(l *flow) bool {
				return l != nil && l.checkedWrites.Load()+l.misplaced.Load() < l.next
			})
		})
	})
}

// flowTotals are sums over flows of what receivers found.
type flowTotals struct {
	writes, checked, words, wrong, misplaced, lost uint64
	took                                           *hdr.Histogram
	firstWrong                                     string
}

// add adds a flow.
func (t *flowTotals) add(l *flow) {
	checked, misplaced := l.checkedWrites.Load(), l.misplaced.Load()
	t.writes += l.next
	t.checked += checked
	t.words += checked * uint64(l.size/wordSize)
	t.wrong += l.wrongWords.Load()
	t.misplaced += misplaced
	t.lost += l.next - min(l.next, checked+misplaced)
	l.mergeTimes(t.took)
	if why := l.firstWrong.Load(); why != nil && t.firstWrong == "" {
		t.firstWrong = *why
	}
}

// fillFromStations fills the figures of a row.
func (r *patternRow) fillFromStations(all []*station, d time.Duration) {
	r.DurationS = d.Seconds()
	t, slowest := flowTotals{took: newTimes()}, -1.0
	for _, s := range all {
		mine := 0.0
		for _, l := range s.outFlows {
			if l != nil {
				mine += float64(l.checkedWrites.Load()) * float64(l.size) / 1e6 / d.Seconds()
				t.add(l)
			}
		}
		r.MByteS += mine
		if mine > 0 && (slowest < 0 || mine < slowest) {
			slowest = mine
		}
		r.ResentDatagrams += s.endpoint.Stats().DatagramsResent
	}
	r.Writes, r.Words, r.WrongWords, r.MisplacedWrites, r.LostWrites = t.writes, t.words, t.wrong, t.misplaced, t.lost
	r.SlowestMByteS, r.Error = max(slowest, 0), t.firstWrong
	r.P50, r.P99 = microsAt(t.took, 50), microsAt(t.took, 99)
}

// WriteTable prints the report as a table.
func (r *patternsReport) WriteTable(w io.Writer) error {
	r.writeHead(w, "what was measured until then", "patterns over %s, nodes of one process on %d cores, spin %s",
		r.Carrier, r.Cores, time.Duration(r.SpinUs)*time.Microsecond)
	err := trial.Table(w, "Each word was checked at its receiver; times are p50 / p99 there and back for ping-pong, "+
		"else until the outcome under load", []string{"pattern", "size", "words", "wrong", "lost", "MByte/s",
		"slowest sender", "µs", "NIC-crossbar §4.2"}, trial.RowsOf(r.Rows, func(p *patternRow) []string {
		return []string{
			p.Pattern, config.Bytes(p.Size).String(), fmt.Sprint(p.Words), fmt.Sprint(p.WrongWords + p.MisplacedWrites),
			fmt.Sprint(p.LostWrites), fmt.Sprintf("%.1f", p.MByteS), fmt.Sprintf("%.1f", p.SlowestMByteS),
			micros(p.P50) + " / " + micros(p.P99), p.Document,
		}
	}))
	writeFaults(w, r.Rows)
	return err
}
