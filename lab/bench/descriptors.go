package bench

import (
	"context"
	"errors"
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

// maxDescriptors is what the document's buffer holds.
const maxDescriptors = 64

// DescriptorsConfig says how generated traffic is triggered.
type DescriptorsConfig struct {
	NodesConfig
	Sizes       []config.Bytes // of a transfer, whole words of 8 bytes
	PerTrigger  []string       // transfers a trigger, each measured: numbers, or endless
	Descriptors int            // in use
	Trigger     string         // software, rate or unix:PATH
	Rate        float64        // triggers/s, where they come by rate
	Duration    time.Duration  // of each measurement
	Progress    func(what string, done, of int)
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

// Validate says what of the settings cannot be, as a *UsageError.
func (c *DescriptorsConfig) Validate() error {
	if len(c.PerTrigger) == 0 {
		return usageErrorf("per-trigger", "there is none to measure: give some as 1,16,endless")
	}
	for _, word := range c.PerTrigger {
		if _, err := parseTransfersPerTrigger(word); err != nil {
			return err
		}
	}
	path, line := strings.CutPrefix(c.Trigger, byLine)
	switch {
	case c.Descriptors < 1 || c.Descriptors > maxDescriptors:
		return usageErrorf("descriptors", "%d are not between 1 and %d", c.Descriptors, maxDescriptors)
	case c.Trigger != bySoftware && c.Trigger != byRate && (!line || path == ""):
		return usageErrorf("trigger", "%q is not software, rate, or unix: and the path of a socket", c.Trigger)
	case c.Trigger == byRate && (!(c.Rate >= 1) || c.Rate > 1e8):
		return usageErrorf("rate", "%g triggers/s are not between 1 and 100 million", c.Rate)
	}
	return c.patterns().Validate()
}

// patterns has what both have in common.
func (c *DescriptorsConfig) patterns() *PatternsConfig {
	return &PatternsConfig{NodesConfig: c.NodesConfig, Sizes: c.Sizes, Duration: c.Duration}
}

// DescriptorsReport is what the modes came to, as `ringlet bench descriptors --json` prints it.
type DescriptorsReport struct {
	nodesReport
	Descriptors     int              `json:"descriptors"`
	Trigger         string           `json:"trigger"`
	RequestedHz     float64          `json:"asked_hz,omitempty"`      // triggers
	TriggersUntaken uint64           `json:"triggers_left,omitempty"` // that were still on the line at the end
	Rows            []DescriptorsRow `json:"modes"`
}

// DescriptorsRow is one mode with transfers of one size.
type DescriptorsRow struct {
	PerTrigger        string  `json:"per_trigger"`
	Size              int     `json:"size"` // bytes of a transfer
	DurationS         float64 `json:"duration_s"`
	Triggers          uint64  `json:"triggers"` // taken
	RefusedTriggers   uint64  `json:"triggers_forgotten"`
	UnplacedTriggers  uint64  `json:"triggers_unplaced"` // that the generator gave up, since the engine was busy for long
	Transfers         uint64  `json:"transfers"`
	TransferHz        float64 `json:"hz"` // transfers that were checked at the receiver
	TriggerHz         float64 `json:"trigger_hz"`
	MByteS            float64 `json:"mbyte_per_s"` // of 2^20 bytes, as in L1-farm
	TransfersPerBatch float64 `json:"together"`    // transfers that left together, the mean
	P50               float64 `json:"p50_us"`      // from the call until the outcome
	P99               float64 `json:"p99_us"`
	Words             uint64  `json:"words"` // checked at the receiver
	WrongWords        uint64  `json:"wrong_words"`
	Misplaced         uint64  `json:"misplaced"`
	LostTransfers     uint64  `json:"lost"` // sent, and not seen by the receiver
	Error             string  `json:"error,omitempty"`
}

func (r *DescriptorsRow) good() bool {
	return r.WrongWords+r.Misplaced+r.LostTransfers == 0 && r.Error == ""
}

// Wrong counts the measurements with errors or losses.
func (r *DescriptorsReport) Wrong() int { return countBadRows(r.Rows) }

// Descriptors lets an engine with descriptors write from one node into the memory of another, in each mode and with
// each size. An interruption gives the rows so far.
func Descriptors(ctx context.Context, cfg DescriptorsConfig) (r *DescriptorsReport, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r = &DescriptorsReport{
		nodesReport: cfg.report(),
		Descriptors: cfg.Descriptors,
		Trigger:     cfg.Trigger,
		Rows:        []DescriptorsRow{},
	}
	if cfg.Trigger == byRate {
		r.RequestedHz = cfg.Rate
	}
	t, err := openTrigger(cfg.Trigger, cfg.Rate)
	if err != nil {
		return nil, err
	}
	defer func() {
		remaining, e := t.close()
		r.TriggersUntaken, err = remaining, errors.Join(err, e)
	}()
	done, of := 0, len(cfg.PerTrigger)*len(cfg.Sizes)
	for _, per := range cfg.PerTrigger {
		for _, size := range cfg.Sizes {
			if cfg.Progress != nil {
				cfg.Progress(fmt.Sprintf("%s a trigger, %s", per, size), done, of)
			}
			done++
			row, err := cfg.measure(ctx, t, per, int(size), uint64(done))
			if r.Interrupted = ctx.Err() != nil; r.Interrupted {
				return r, nil
			}
			if err != nil {
				return r, fmt.Errorf("bench: %s transfers of %s a trigger: %w", per, size, err)
			}
			r.Rows = append(r.Rows, row)
		}
	}
	return r, nil
}

// measure runs one mode with one size.
func (c *DescriptorsConfig) measure(ctx context.Context, t triggerSource, per string, size int, view uint64) (
	row DescriptorsRow, err error) {
	n, err := parseTransfersPerTrigger(per)
	if err != nil {
		return row, err
	}
	batch := max(1, c.Descriptors/4) // while some are on their way others leave
	m := c.stationsConfig(view, 2)
	m.windows = c.Descriptors
	all, err := openStations(ctx, m, map[int][]int{0: {1}}, size, batch)
	defer func() { err = errors.Join(err, closeStations(all)) }()
	if err != nil {
		return row, err
	}
	t.begin()
	l := all[0].outFlows[1]
	d := &engineRun{
		core:    engine.New(c.Descriptors, n),
		trigger: t,
		station: all[0],
		flow:    l,
	}
	row = DescriptorsRow{PerTrigger: per, Size: size}
	began := time.Now()
	err = runFor(c.Duration, func(over *atomic.Bool) error { return d.run(ctx, over) })
	awaitReceived(all)
	row.fillFromRun(d, time.Since(began))
	if err != nil && ctx.Err() == nil { // a link that broke is a result
		row.Error, err = err.Error(), nil
	}
	return row, err
}

// engineRun is an engine with what triggers it and what carries its transfers. One goroutine uses it.
//
//	1 a trigger is taken                                    (sequential)  trigger
//	2 the engine says which transfers follow                (sequential)  gather: those that begin at once leave together
//	3 they wait for room in the memory that they go to      (sequential)  station.send
//	4 the carrier, and the check at the receiver            (parallel)    station
//
// The engine does not wait for outcomes, as that of the document did not once its card had the data. It counts a
// transfer as ended when the next one is looked for: those of a batch have ended before the carrier has the first of
// them. It looks for no other batch until the carrier has this one. Nothing is allocated.
type engineRun struct {
	core              *engine.Core
	trigger           triggerSource
	station           *station
	flow              *flow
	transfersUnderWay bool // a transfer of the engine is under way
}

// run moves what is triggered until over, and waits for what is under way.
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
	if d.core.Step(engine.Cleared) != engine.Idle { // the transfer that has begun
		if err := d.transfer(ctx, 1); err != nil {
			return err
		}
		d.core.Step(engine.Ended)
	}
	return d.station.await(ctx, d.station.idle)
}

// gatherTransfers tells how many transfers begin one after the other, as many at most as travel together.
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

// transfer gives transfers to the carrier, each to the place of its descriptor.
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
func (r *DescriptorsRow) fillFromRun(d *engineRun, took time.Duration) {
	l, seconds := d.flow, took.Seconds()
	var transfers uint64
	r.DurationS, r.UnplacedTriggers = seconds, d.trigger.lostTriggers()
	r.Triggers, r.RefusedTriggers, transfers = d.core.Counts()
	r.Transfers = l.next
	checked := l.checkedWrites.Load()
	r.Words, r.WrongWords, r.Misplaced = checked*uint64(l.size/wordSize), l.wrongWords.Load(), l.misplaced.Load()
	r.LostTransfers = l.next - min(l.next, checked+r.Misplaced)
	r.TransferHz, r.TriggerHz = float64(checked)/seconds, float64(r.Triggers)/seconds
	r.MByteS = r.TransferHz * float64(l.size) / (1 << 20)
	r.TransfersPerBatch = float64(l.next) / float64(max(1, l.sentBatches))
	times := newTimes()
	l.mergeTimes(times)
	r.P50, r.P99 = float64(times.ValueAtQuantile(50))/1e3, float64(times.ValueAtQuantile(99))/1e3
	if why := l.firstWrong.Load(); why != nil {
		r.Error = *why
	} else if transfers != l.next {
		r.Error = fmt.Sprintf("the engine counts %d transfers, and %d were written", transfers, l.next)
	}
}

// What L1-farm had, in MHz at 66.7 MHz of its bus: 18 clocks and one for each 8 B, anew for each 128 B (L1-farm
// §5.2.3), and 14 clocks more for the TagNet (L1-farm §7.8).
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

// WriteTable prints the report for people: frequency against size, with what L1-farm had.
func (r *DescriptorsReport) WriteTable(w io.Writer) error {
	by := "triggers by " + r.Trigger
	if r.RequestedHz > 0 {
		by += fmt.Sprintf(" of %.3f MHz", r.RequestedHz/1e6)
	}
	fmt.Fprintf(w, "descriptors over %s, two nodes of one process on %d cores: %d descriptors, %s\n%s\n", r.Carrier,
		r.Cores, r.Descriptors, by, &r.Machine)
	if r.Interrupted {
		fmt.Fprintln(w, "INTERRUPTED: what follows is what was measured until then")
	}
	var rows [][]string
	for i := range r.Rows {
		p := &r.Rows[i]
		rows = append(rows, []string{
			p.PerTrigger, config.Bytes(p.Size).String(), fmt.Sprint(p.Triggers), fmt.Sprint(p.UnplacedTriggers +
				p.RefusedTriggers),
			fmt.Sprint(p.Transfers), fmt.Sprint(p.WrongWords + p.Misplaced), fmt.Sprint(p.LostTransfers),
			fmt.Sprintf("%.3f", p.TransferHz/1e6), fmt.Sprintf("%.0f", p.MByteS), micros(p.P50) + " / " + micros(p.P99),
			fmt.Sprintf("%.2f", documentMHz(p.Size, 0)), fmt.Sprintf("%.2f", documentMHz(p.Size, documentTag)),
		})
	}
	err := trial.Table(w,
		"Frequency against size. Each word was checked at its receiver. The last two columns: L1-farm §5.2.3, "+
			"an engine alone, and L1-farm §7.8, with its TagNet", []string{"a trigger", "size", "triggers", "not taken",
			"transfers", "wrong", "lost", "MHz", "MByte/s", "µs p50 / p99", "alone", "TagNet"}, rows)
	if err == nil && r.TriggersUntaken > 0 {
		_, err = fmt.Fprintf(w, "%d triggers were still on the line at the end\n", r.TriggersUntaken)
	}
	for i := range r.Rows {
		if p := &r.Rows[i]; err == nil && p.Error != "" {
			_, err = fmt.Fprintf(w, "%s a trigger, %s: %s\n", p.PerTrigger, config.Bytes(p.Size), p.Error)
		}
	}
	return err
}
