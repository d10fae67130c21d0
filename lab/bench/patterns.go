package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"ringlet/lab/trial"
	"ringlet/node/config"
)

// pattern is one way to fill a network, as NIC-crossbar §4.2 tried its switch.
type pattern struct {
	Name       string
	Says       string
	Document   string        // its figure, in words
	pairs      map[int][]int // who sends to whom, in turn
	roundTrips bool          // one write at a time, and one back
}

// patterns are all of them.
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

// nodes is how many take part.
func (p *pattern) nodes() int {
	most := 0
	for from, to := range p.pairs {
		most = max(most, from, slices.Max(to))
	}
	return most + 1
}

// PatternsConfig says what to measure.
type PatternsConfig struct {
	NodesConfig
	Sizes []config.Bytes // of a write, whole words of 8 bytes
	// that each sender sends in each measurement; 0: as many as Duration allows
	WordsPerSender uint64
	Duration       time.Duration                   // of each measurement
	Progress       func(what string, done, of int) // may be nil
}

// maxPatternWrite is the largest write: the index of a word has 16 bits, and a sender has 64 windows of it at least.
const maxPatternWrite = 64 << 10

// Validate says what of the settings cannot be, as a *UsageError.
func (c *PatternsConfig) Validate() error {
	if len(c.Sizes) == 0 {
		return usageErrorf("sizes", "there is none to measure: give some as 24,4KiB")
	}
	for _, s := range c.Sizes {
		if s < wordSize || s > maxPatternWrite || s%wordSize != 0 {
			return usageErrorf("sizes", "%s is not whole words of 8 B, from 8 B to %s", s, config.Bytes(maxPatternWrite))
		}
	}
	return c.valid(c.Duration)
}

// PatternsReport is what the patterns came to, as `ringlet bench patterns --json` prints it.
type PatternsReport struct {
	nodesReport
	SpinUs int64        `json:"spin_us"`
	Rows   []PatternRow `json:"patterns"`
}

// PatternRow is one pattern with writes of one size.
type PatternRow struct {
	Pattern         string  `json:"pattern"`
	Size            int     `json:"size"`     // bytes of a write
	WritesPerBatch  int     `json:"together"` // writes that travel together
	Senders         int     `json:"senders"`
	DurationS       float64 `json:"duration_s"`
	Writes          uint64  `json:"writes"` // sent
	Words           uint64  `json:"words"`  // checked at the receivers
	WrongWords      uint64  `json:"wrong_words"`
	MisplacedWrites uint64  `json:"misplaced_writes"`
	LostWrites      uint64  `json:"lost_writes"` // sent, and not seen by the receiver
	MByteS          float64 `json:"mbyte_per_s"` // of all senders: million bytes
	SlowestMByteS   float64 `json:"slowest_mbyte_per_s"`
	P50             float64 `json:"p50_us"` // there and back for ping-pong; else from the call to the outcome, under load
	P99             float64 `json:"p99_us"`
	ResentDatagrams uint64  `json:"datagrams_resent"`
	Document        string  `json:"document"`
	Error           string  `json:"error,omitempty"` // the first word that was wrong, or why it ended
}

// good says that nothing was wrong.
func (r *PatternRow) good() bool {
	return r.WrongWords+r.MisplacedWrites+r.LostWrites == 0 && r.Error == ""
}

// Wrong counts the measurements with errors or losses.
func (r *PatternsReport) Wrong() int { return countBadRows(r.Rows) }

// countBadRows counts the rows that are not good.
func countBadRows[T any, P interface {
	*T
	good() bool
}](rows []T) (n int) {
	for i := range rows {
		if !P(&rows[i]).good() {
			n++
		}
	}
	return n
}

// Patterns measures all patterns with all sizes between nodes of this process. An interruption gives the rows so far.
func Patterns(ctx context.Context, cfg PatternsConfig) (*PatternsReport, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &PatternsReport{
		nodesReport: cfg.report(),
		SpinUs:      cfg.Spin.Microseconds(),
		Rows:        []PatternRow{},
	}
	done, of := 0, len(patterns)*len(cfg.Sizes)
	for i := range patterns {
		for _, size := range cfg.Sizes {
			if cfg.Progress != nil {
				cfg.Progress(patterns[i].Name+" "+size.String(), done, of)
			}
			done++
			row, err := cfg.measure(ctx, &patterns[i], int(size), uint64(done))
			if r.Interrupted = ctx.Err() != nil; r.Interrupted {
				return r, nil
			}
			if err != nil {
				return r, fmt.Errorf("bench: %s of %s: %w", patterns[i].Name, size, err)
			}
			r.Rows = append(r.Rows, row)
		}
	}
	return r, nil
}

// measure runs one pattern with one size.
func (c *PatternsConfig) measure(ctx context.Context, p *pattern, size int, view uint64) (row PatternRow, err error) {
	batch := min(flowBatch, max(1, maxPatternWrite/size))
	if p.roundTrips {
		batch = 1
	}
	pairs := p.pairs
	if p.roundTrips {
		pairs = map[int][]int{0: {1}, 1: {0}}
	}
	all, err := openStations(ctx, c.stationsConfig(view, p.nodes()), pairs, size, batch)
	defer func() { err = errors.Join(err, closeStations(all)) }()
	if err != nil {
		return row, err
	}
	row = PatternRow{
		Pattern:        p.Name,
		Size:           size,
		WritesPerBatch: batch,
		Senders:        len(p.pairs),
		Document:       p.Document,
	}
	began := time.Now()
	err = runFor(c.Duration, func(over *atomic.Bool) error { return c.traffic(ctx, p, all, over) })
	row.fillFromStations(all, time.Since(began))
	if err != nil && ctx.Err() == nil { // a link that broke is a result, with all that came before
		row.Error, err = err.Error(), nil
	}
	return row, err
}

// traffic sends until over or until the words are sent, and waits until all of it has arrived.
func (c *PatternsConfig) traffic(ctx context.Context, p *pattern, all []*station, over *atomic.Bool) error {
	writes := ^uint64(0)
	if c.WordsPerSender > 0 {
		perWrite := uint64(all[0].writeSize() / wordSize)
		writes = (c.WordsPerSender + perWrite - 1) / perWrite
		over = &atomic.Bool{} // only the words count
	}
	if p.roundTrips {
		return pingPong(ctx, all, writes, over)
	}
	g, ctx := errgroup.WithContext(ctx)
	for from, to := range p.pairs {
		s := all[from]
		g.Go(func() error {
			remaining := writes
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
	err := g.Wait()
	awaitReceived(all)
	return err
}

// pingPong writes, and waits for the write that comes back. The time in the flow's histogram is of the whole trip.
func pingPong(ctx context.Context, all []*station, writes uint64, over *atomic.Bool) error {
	ping, pong := all[0].outFlows[1], all[1].outFlows[0]
	ping.roundTrips, pong.roundTrips = newTimes(), newTimes() // the answers' own times are in those of the pings
	g, ctx := errgroup.WithContext(ctx)
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	g.Go(func() error { // the other end
		for n := uint64(1); ; n++ {
			err := all[1].await(ctx, func() bool { return ping.checkedWrites.Load() >= n })
			if err == nil {
				_, err = all[1].send(ctx, pong, 1)
			}
			if err != nil {
				if errors.Is(context.Cause(ctx), errEnough) {
					return nil
				}
				return err
			}
		}
	})
	g.Go(func() error {
		for n := uint64(1); n <= writes && !over.Load() && ctx.Err() == nil; n++ {
			began := time.Now()
			if _, err := all[0].send(ctx, ping, 1); err != nil {
				return err
			}
			if err := all[0].await(ctx, func() bool { return pong.checkedWrites.Load() >= n }); err != nil {
				return err
			}
			_ = ping.roundTrips.RecordValue(int64(time.Since(began)))
		}
		err := all[0].await(ctx, all[0].idle)
		end(errEnough)
		return err
	})
	err := g.Wait()
	awaitReceived(all)
	return err
}

// errEnough ends the far side of a ping-pong.
var errEnough = errors.New("enough")

// awaitReceived waits until what was sent has been seen by its receiver's handler. What has not in time counts as lost.
func awaitReceived(all []*station) {
	for until := time.Now().Add(placementTimeout); time.Now().Before(until); time.Sleep(50 * time.Microsecond) {
		waits := false
		for _, s := range all {
			for _, l := range s.outFlows {
				waits = waits || l != nil && !s.ended.Load() && l.checkedWrites.Load()+l.misplaced.Load() < l.next
			}
		}
		if !waits {
			return
		}
	}
}

// fillFromStations fills the figures of a row.
func (r *PatternRow) fillFromStations(all []*station, d time.Duration) {
	r.DurationS = d.Seconds()
	took := newTimes()
	slowest, total := -1.0, 0.0
	for _, s := range all {
		mine := 0.0
		for _, l := range s.outFlows {
			if l == nil {
				continue
			}
			mine += float64(l.checkedWrites.Load()) * float64(l.size) / 1e6 / d.Seconds()
			r.Writes += l.next
			r.Words += l.checkedWrites.Load() * uint64(l.size/wordSize)
			r.WrongWords += l.wrongWords.Load()
			r.MisplacedWrites += l.misplaced.Load()
			r.LostWrites += l.next - min(l.next, l.checkedWrites.Load()+l.misplaced.Load())
			l.mergeTimes(took)
			if why := l.firstWrong.Load(); why != nil && r.Error == "" {
				r.Error = *why
			}
		}
		total += mine
		if mine > 0 && (slowest < 0 || mine < slowest) {
			slowest = mine
		}
		r.ResentDatagrams += s.endpoint.Stats().DatagramsResent
	}
	r.MByteS, r.SlowestMByteS = total, max(slowest, 0)
	r.P50, r.P99 = float64(took.ValueAtQuantile(50))/1e3, float64(took.ValueAtQuantile(99))/1e3
}

// WriteTable prints the report for people.
func (r *PatternsReport) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "patterns over %s, nodes of one process on %d cores, spin %s\n%s\n", r.Carrier, r.Cores,
		time.Duration(r.SpinUs)*time.Microsecond, &r.Machine)
	if r.Interrupted {
		fmt.Fprintln(w, "INTERRUPTED: what follows is what was measured until then")
	}
	var rows [][]string
	for i := range r.Rows {
		p := &r.Rows[i]
		rows = append(rows, []string{
			p.Pattern, config.Bytes(p.Size).String(), fmt.Sprint(p.Words), fmt.Sprint(p.WrongWords + p.MisplacedWrites),
			fmt.Sprint(p.LostWrites), fmt.Sprintf("%.1f", p.MByteS), fmt.Sprintf("%.1f", p.SlowestMByteS),
			micros(p.P50) + " / " + micros(p.P99), p.Document,
		})
	}
	if err := trial.Table(w, "Each word was checked at its receiver; times are p50 / p99 there and back for ping-pong, "+
		"else until the outcome under load", []string{"pattern", "size", "words", "wrong", "lost", "MByte/s",
		"slowest sender", "µs", "NIC-crossbar §4.2"}, rows); err != nil {
		return err
	}
	for i := range r.Rows {
		if p := &r.Rows[i]; p.Error != "" {
			fmt.Fprintf(w, "%s %s: %s\n", p.Pattern, config.Bytes(p.Size), p.Error)
		}
	}
	return nil
}
