package bench

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"ringlet/lab/bench/engine"
	"ringlet/lab/trial"
	"ringlet/node/config"
)

// maxDescriptors is the size of the document's descriptor buffer.
const maxDescriptors = 64

// DescriptorsConfig says which transfers triggers start.
type DescriptorsConfig struct {
	NodesConfig
	Sizes       []config.Bytes // of a transfer, whole words of 8 bytes
	PerTrigger  []string       // transfers that a trigger starts, one measurement each: numbers, or endless
	Descriptors int            // in use
	Trigger     string         // one of software, rate and unix:PATH, which names a socket
	Rate        float64        // triggers/s, if Trigger is rate
	Duration    time.Duration  // of each measurement
}

// parseTransfersPerTrigger reads a number of transfers.
func parseTransfersPerTrigger(word string) (uint64, error) {
	if word == "endless" {
		return engine.Endless, nil
	}
	n, err := strconv.ParseUint(word, 10, 32)
	if err != nil || n == 0 {
		return 0, usageErrorf("per-trigger", "%q is neither a number from 1 to 2^32 − 1 nor endless", word)
	}
	return n, nil
}

// Validate returns the first invalid setting as a *UsageError.
func (c *DescriptorsConfig) Validate() error {
	if len(c.PerTrigger) == 0 {
		return usageErrorf("per-trigger", "no number of transfers is given: give some as 1,16,endless")
	}
	for _, word := range c.PerTrigger {
		if _, err := parseTransfersPerTrigger(word); err != nil {
			return err
		}
	}
	path, line := strings.CutPrefix(c.Trigger, byLine)
	err := checkCount("descriptors", c.Descriptors, 1, maxDescriptors)
	switch {
	case err != nil:
		return err
	case c.Trigger != bySoftware && c.Trigger != byRate && (!line || path == ""):
		return usageErrorf("trigger", "%q is not one of software, rate and unix:PATH, which names a socket", c.Trigger)
	case c.Trigger == byRate && (!(c.Rate >= 1) || c.Rate > 1e8):
		return usageErrorf("rate", "%g triggers/s are not between 1 and 100 million", c.Rate)
	}
	return (&PatternsConfig{NodesConfig: c.NodesConfig, Sizes: c.Sizes, Duration: c.Duration}).Validate()
}

// descriptorsReport has the results of all modes; `ringlet bench descriptors --json` prints it.
type descriptorsReport struct {
	nodesReport
	Descriptors     int              `json:"descriptors"`
	Trigger         string           `json:"trigger"`
	RequestedHz     float64          `json:"asked_hz,omitempty"`      // triggers
	TriggersUntaken uint64           `json:"triggers_left,omitempty"` // still in the socket at the end
	Rows            []descriptorsRow `json:"modes"`
}

// descriptorsRow is one mode with transfers of one size.
type descriptorsRow struct {
	PerTrigger        string  `json:"per_trigger"`
	Size              int     `json:"size"` // bytes of a transfer
	DurationS         float64 `json:"duration_s"`
	Triggers          uint64  `json:"triggers"` // taken
	RefusedTriggers   uint64  `json:"triggers_forgotten"`
	UnplacedTriggers  uint64  `json:"triggers_unplaced"` // dropped by the generator: the engine was busy for too long
	Transfers         uint64  `json:"transfers"`
	TransferHz        float64 `json:"hz"` // transfers whose words the receiver has checked
	TriggerHz         float64 `json:"trigger_hz"`
	MByteS            float64 `json:"mbyte_per_s"` // of 2^20 bytes, as in L1-farm
	TransfersPerBatch float64 `json:"together"`    // transfers that left in one batch, the mean
	P50               float64 `json:"p50_us"`      // from the call until the outcome
	P99               float64 `json:"p99_us"`
	Words             uint64  `json:"words"` // checked at the receiver
	WrongWords        uint64  `json:"wrong_words"`
	Misplaced         uint64  `json:"misplaced"`
	LostTransfers     uint64  `json:"lost"` // sent, but not seen by the receiver
	Error             string  `json:"error,omitempty"`
}

func (r *descriptorsRow) label() (title, figure string) {
	return fmt.Sprintf("%s a trigger, %s", r.PerTrigger, config.Bytes(r.Size)),
		fmt.Sprintf("%s %d", r.PerTrigger, r.Size)
}

func (r *descriptorsRow) faults() (wrong, lost uint64, why string) {
	return r.WrongWords + r.Misplaced, r.LostTransfers, r.Error
}

// Failure says how many measurements had errors or losses.
func (r *descriptorsReport) Failure() error { return rowsFailure(&r.nodesReport, r.Rows) }

// prepare opens the source of triggers for an engine that writes from one node into the memory of another, and lists
// each mode with each size.
func (c *DescriptorsConfig) prepare() (*descriptorsReport, []point, func() error, error) {
	r := &descriptorsReport{
		nodesReport: c.report(),
		Descriptors: c.Descriptors,
		Trigger:     c.Trigger,
		Rows:        []descriptorsRow{},
	}
	if c.Trigger == byRate {
		r.RequestedHz = c.Rate
	}
	t, err := openTrigger(c.Trigger, c.Rate)
	if err != nil {
		return nil, nil, nil, err
	}
	var points []point
	for _, per := range c.PerTrigger {
		for _, size := range c.Sizes {
			points = append(points, rowPoint(&r.Rows, fmt.Sprintf("%s a trigger, %s", per, size),
				func(ctx context.Context, view uint64) (descriptorsRow, error) {
					return c.measure(ctx, t, per, int(size), view)
				}))
		}
	}
	return r, points, func() (err error) { r.TriggersUntaken, err = t.close(); return err }, nil
}

// measure runs one mode with one size.
func (c *DescriptorsConfig) measure(ctx context.Context, t triggerSource, per string, size int, view uint64) (
	row descriptorsRow, err error) {
	n, err := parseTransfersPerTrigger(per)
	if err != nil {
		return row, err
	}
	m := stationsConfig{
		nodes:   &c.NodesConfig,
		view:    view,
		pairs:   map[int][]int{0: {1}},
		size:    size,
		batch:   max(1, c.Descriptors/4), // some leave while others are on their way
		windows: c.Descriptors,
	}
	row = descriptorsRow{PerTrigger: per, Size: size}
	err = m.with(ctx, func(all []*station) error {
		t.begin()
		d := &engineRun{
			core:    engine.New(c.Descriptors, n),
			trigger: t,
			station: all[0],
			flow:    all[0].outFlows[1],
		}
		began := time.Now()
		err := runFor(c.Duration, func(over *atomic.Bool) error { return d.run(ctx, over) })
		awaitReceived(all)
		row.fillFromRun(d, time.Since(began))
		if err != nil && ctx.Err() == nil { // a broken link is a result
			row.Error, err = err.Error(), nil
		}
		return err
	})
	return row, err
}

// engineRun is an engine with its source of triggers and the carrier of its transfers. One goroutine uses it.
//
//	1 take a trigger                                (sequential)  trigger
//	2 ask the engine which transfers follow         (sequential)  gatherTransfers: those that begin at once, together
//	3 wait for room in the memory that they go to   (sequential)  station.send
//	4 the carrier, and the check at the receiver    (parallel)    station
//
// The engine does not wait for outcomes; the document's did not either once its card had the data. A transfer counts as
// ended when the engine looks for the next one: all transfers of a batch but the last have ended before the carrier has
// the first one. The engine gathers the next batch only when the carrier has this one. No step allocates.
type engineRun struct {
	core              *engine.Core
	trigger           triggerSource
	station           *station
	flow              *flow
	transfersUnderWay bool // a transfer of the engine is under way
}

// run carries out triggered transfers until over is set, and waits for those under way.
func (d *engineRun) run(ctx context.Context, over *atomic.Bool) error {
	for !over.Load() && ctx.Err() == nil {
		if !d.transfersUnderWay {
			if !d.trigger.awaitTrigger(ctx, over) {
				break
			}
			d.transfersUnderWay = d.core.Step(engine.Triggered) == engine.Start
		}
		if err := d.transfer(ctx, d.gatherTransfers()); err != nil {
			return err
		}
	}
	if d.core.Step(engine.Cleared) != engine.Idle { // the transfer under way
		if err := d.transfer(ctx, 1); err != nil {
			return err
		}
		d.core.Step(engine.Ended)
	}
	return d.station.await(ctx, d.station.idle)
}

// gatherTransfers counts the transfers that begin one after the other, at most a batch.
func (d *engineRun) gatherTransfers() (n int) {
	for d.transfersUnderWay && n < d.flow.batch {
		n++
		d.transfersUnderWay = d.core.Step(engine.Ended) == engine.Start
		if d.core.Accepts() && d.trigger.takeDue(d.transfersUnderWay) && d.core.Step(engine.Triggered) == engine.Start {
			d.transfersUnderWay = true
		}
	}
	return n
}

// transfer hands n transfers to the carrier, each with the place that its descriptor names.
func (d *engineRun) transfer(ctx context.Context, n int) error {
	for n > 0 {
		sent, err := d.station.send(ctx, d.flow, n)
		if err != nil {
			return err
		}
		n -= sent
	}
	return nil
}

// fillFromRun fills the figures.
func (r *descriptorsRow) fillFromRun(d *engineRun, took time.Duration) {
	l, t := d.flow, flowTotals{took: newTimes()}
	t.add(l)
	r.DurationS, r.UnplacedTriggers = took.Seconds(), d.trigger.lostTriggers()
	var transfers uint64
	r.Triggers, r.RefusedTriggers, transfers = d.core.Counts()
	r.Transfers, r.Words, r.WrongWords, r.Misplaced, r.LostTransfers = t.writes, t.words, t.wrong, t.misplaced, t.lost
	r.TransferHz, r.TriggerHz = float64(t.checked)/r.DurationS, float64(r.Triggers)/r.DurationS
	r.MByteS = r.TransferHz * float64(l.size) / (1 << 20)
	r.TransfersPerBatch = float64(l.next) / float64(max(1, l.sentBatches))
	r.P50, r.P99, r.Error = microsAt(t.took, 50), microsAt(t.took, 99), t.firstWrong
	if r.Error == "" && transfers != l.next {
		r.Error = fmt.Sprintf("the engine counts %d transfers, and %d were written", transfers, l.next)
	}
}

// The rate of L1-farm's engine, in MHz of a bus of 66.7 MHz: a transfer takes 18 clocks for each 128 B and one for each
// 8 B (L1-farm §5.2.3), and 14 clocks more with the TagNet (L1-farm §7.8).
const (
	documentClock = 200.0 / 3
	documentBurst = 128
	documentTag   = 14
)

// documentMHz is the rate of transfers of a size, by the document's formula.
func documentMHz(size, more int) float64 {
	bursts := (size + documentBurst - 1) / documentBurst
	return documentClock / float64(more+18*bursts+size/8)
}

// WriteTable prints the report as a table: frequency against size, beside the figures of L1-farm.
func (r *descriptorsReport) WriteTable(w io.Writer) error {
	by := "triggers by " + r.Trigger
	if r.RequestedHz > 0 {
		by += fmt.Sprintf(" of %.3f MHz", r.RequestedHz/1e6)
	}
	r.writeHead(w, "what was measured until then", "descriptors over %s, two nodes of one process on %d cores: "+
		"%d descriptors, %s", r.Carrier, r.Cores, r.Descriptors, by)
	err := trial.Table(w,
		"Frequency against size. Each word was checked at its receiver. The last two columns: L1-farm §5.2.3, "+
			"an engine alone, and L1-farm §7.8, with its TagNet", []string{"a trigger", "size", "triggers", "not taken",
			"transfers", "wrong", "lost", "MHz", "MByte/s", "µs p50 / p99", "alone", "TagNet"},
		trial.RowsOf(r.Rows, func(p *descriptorsRow) []string {
			return []string{
				p.PerTrigger, config.Bytes(p.Size).String(), fmt.Sprint(p.Triggers),
				fmt.Sprint(p.UnplacedTriggers + p.RefusedTriggers), fmt.Sprint(p.Transfers),
				fmt.Sprint(p.WrongWords + p.Misplaced), fmt.Sprint(p.LostTransfers), fmt.Sprintf("%.3f", p.TransferHz/1e6),
				fmt.Sprintf("%.0f", p.MByteS), micros(p.P50) + " / " + micros(p.P99),
				fmt.Sprintf("%.2f", documentMHz(p.Size, 0)), fmt.Sprintf("%.2f", documentMHz(p.Size, documentTag)),
			}
		}))
	if r.TriggersUntaken > 0 {
		fmt.Fprintf(w, "%d triggers were still in the socket for triggers at the end\n", r.TriggersUntaken)
	}
	writeFaults(w, r.Rows)
	return err
}
