package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"

	"ringlet/internal/netyield"
	"ringlet/internal/schedule"
	"ringlet/lab/trial"
	"ringlet/node/config"
	"ringlet/shmem"
)

// IntegrityConfig says how one node writes events, and the other looks for them.
type IntegrityConfig struct {
	NodesConfig
	Size     config.Bytes  // of an event, whole words of 8 bytes
	Rate     float64       // events/s
	Buffers  int           // buffers that the events use in turn
	Duration time.Duration // of the whole measurement
}

// Validate returns the first invalid setting as a *UsageError.
func (c *IntegrityConfig) Validate() error {
	err := cmp.Or(checkWords("size", c.Size, maxPatternWrite), checkCount("buffers", c.Buffers, 2, maxSlots))
	switch {
	case err != nil:
		return err
	case !(c.Rate >= 1) || c.Rate > 1e8:
		return usageErrorf("rate", "%g events/s are not between 1 and 100 million", c.Rate)
	}
	return c.validate(c.Duration)
}

// integrityReport counts what a receiver saw in its memory; `ringlet bench integrity --json` prints it.
type integrityReport struct {
	nodesReport
	Size              int     `json:"size"` // bytes of an event
	Buffers           int     `json:"buffers"`
	RequestedHz       float64 `json:"asked_hz"`
	RateHz            float64 `json:"rate_hz"`
	DurationS         float64 `json:"duration_s"`
	Sent              uint64  `json:"sent"`
	Lost              uint64  `json:"lost"` // sent, but not placed in the receiver's memory
	Tries             uint64  `json:"tries"`
	MatchingEvents    uint64  `json:"all_ok"`      // all words belong to one event
	ConsecutiveEvents uint64  `json:"next_all_ok"` // as MatchingEvents, and the event is the one after the last
	DamagedWords      uint64  `json:"damaged_words"`
	Within1us         float64 `json:"within_1us"` // shares of the events that were all OK
	Within2us         float64 `json:"within_2us"`
	Above5us          uint64  `json:"above_5us"` // events
	P50               float64 `json:"p50_us"`
	P99               float64 `json:"p99_us"`
	P999              float64 `json:"p999_us"`
	Max               float64 `json:"max_us"`
	Error             string  `json:"error,omitempty"`
}

// good says whether nothing was lost and each word was of some event. Events that a receiver missed because it did not
// run are no fault of the transport.
func (r *integrityReport) good() bool { return r.Lost+r.DamagedWords == 0 && r.Error == "" }

// Failure counts what was lost or damaged, as an error.
func (r *integrityReport) Failure() error {
	if !r.good() {
		return fmt.Errorf("bench: %d events lost, %d words damaged", r.Lost, r.DamagedWords)
	}
	return r.nodesReport.Failure()
}

// mismatched and missedEvents count tries.
func (r *integrityReport) mismatched() uint64   { return r.Tries - r.MatchingEvents }
func (r *integrityReport) missedEvents() uint64 { return r.MatchingEvents - r.ConsecutiveEvents }

// prepare lets one node write events into the memory of another, which looks for them there.
func (c *IntegrityConfig) prepare() (*integrityReport, []point, func() error, error) {
	r := &integrityReport{
		nodesReport: c.report(),
		Size:        int(c.Size),
		Buffers:     c.Buffers,
		RequestedHz: c.Rate,
	}
	return r, []point{{"integrity", func(ctx context.Context, view uint64) error {
		m := stationsConfig{
			nodes:  &c.NodesConfig,
			view:   view,
			pairs:  map[int][]int{0: {1}},
			size:   r.Size,
			batch:  1,
			polled: true,
		}
		return m.with(ctx, func(all []*station) error {
			l := all[0].outFlows[1]
			l.overwriteWindows(c.Buffers)
			look := &eventPoller{flow: l, report: r, checkTimes: newTimes()}
			began := time.Now()
			err := runFor(c.Duration, func(over *atomic.Bool) error { return c.runEvents(ctx, all, look, over) })
			r.DurationS = time.Since(began).Seconds()
			r.fillFromFlow(l, all[1], look)
			if err != nil && ctx.Err() == nil {
				r.Error = err.Error()
			}
			return nil
		})
	}}}, nil, nil
}

// runEvents writes and looks until over is set, and then waits for the writes under way.
func (c *IntegrityConfig) runEvents(ctx context.Context, all []*station, look *eventPoller, over *atomic.Bool) error {
	s, l := all[0], all[0].outFlows[1]
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		look.poll(func() bool { return over.Load() || ctx.Err() != nil })
		return nil
	})
	g.Go(func() error {
		// The pacer skips events that are late by more than one: making up for them would overwrite all buffers at once.
		p := schedule.NewPacer(c.Rate, schedule.DurationOf(1, c.Rate))
		for {
			if _, due := awaitDue(ctx, p, over); !due {
				break
			}
			if _, err := s.send(ctx, l, 1); err != nil {
				return err
			}
			p.Advance(1)
		}
		return s.await(ctx, s.idle)
	})
	if err := g.Wait(); err != nil {
		return err
	}
	awaitPlacement(func() bool { return all[1].placedWrites.Load() >= l.next })
	return nil
}

// maxNap is the longest sleep of awaitDue, so that it sees the end of the measurement soon.
const maxNap = 50 * time.Millisecond

// awaitDue waits until the next item is due, to the microsecond if it has a processor, or until the measurement is
// over. It returns the time that the pacer gave up.
func awaitDue(ctx context.Context, p *schedule.Pacer, over *atomic.Bool) (lost time.Duration, due bool) {
	for !over.Load() && ctx.Err() == nil {
		wait, lost := p.NextWait(time.Now())
		switch {
		case wait <= 0:
			return lost, true
		case wait > time.Millisecond: // a timer may be so late
			time.Sleep(min(wait-time.Millisecond, maxNap))
		}
		netyield.Yield()
	}
	return 0, false
}

// overwriteWindows restricts a flow to the given number of windows. Its sender overwrites them without waiting for
// credit.
func (l *flow) overwriteWindows(windows int) {
	l.limitWindows(windows)
	l.slots = windows
	l.creditedWrites.Store(1 << 62)
}

// eventPoller checks events where they lie, as L1-farm §7.5 did (figure 7.14): when it sees an event begin in one
// buffer, it checks the event in the buffer before, which must be complete by then.
type eventPoller struct {
	flow       *flow
	report     *integrityReport
	checkTimes *hdr.Histogram // ns, from seeing the next event begin to the end of the check
}

// looksPerYield is how many looks poll makes between two yields: some 10 µs.
const looksPerYield = 1000

// loadWord reads a word of a buffer, which a write may change at any time.
func (k *eventPoller) loadWord(buffer, index int) uint64 {
	return shmem.Word64(k.flow.mem, buffer*k.flow.size+index*wordSize).Load()
}

// poll looks for events until over.
func (k *eventPoller) poll(over func() bool) {
	buffers := len(k.flow.windowWrites)
	seen := make([]uint64, buffers) // first word of each buffer at the last look
	expected := uint64(0)
	for try := 0; ; try++ {
		at := try % buffers
		for looks := 0; ; looks++ {
			if w := k.loadWord(at, 0); w != seen[at] {
				seen[at] = w
				break
			}
			if looks%looksPerYield == looksPerYield-1 {
				netyield.Yield()
				if over() {
					return
				}
			}
		}
		if try > 0 {
			expected = k.check((try-1)%buffers, expected)
		}
	}
}

// check checks one event, and returns the number of the next expected event.
func (k *eventPoller) check(buffer int, expected uint64) uint64 {
	began, r := time.Now(), k.report
	r.Tries++
	source, seq, index := decodeWord(k.loadWord(buffer, 0))
	complete := source == k.flow.from && index == 0
	for i := 1; i < k.flow.size/wordSize; i++ {
		if got := k.loadWord(buffer, i); got != word(k.flow.from, seq, i) {
			complete = false
			// A word of another event of this flow means that the next event overwrites this one. Other words are damaged.
			if source, _, index := decodeWord(got); source != k.flow.from || index != i {
				r.DamagedWords++
			}
		}
	}
	if !complete {
		return expected
	}
	r.MatchingEvents++
	if seq == expected {
		r.ConsecutiveEvents++
	}
	_ = k.checkTimes.RecordValue(int64(time.Since(began)))
	return seq + 1
}

// fillFromFlow fills the figures.
func (r *integrityReport) fillFromFlow(l *flow, receiver *station, look *eventPoller) {
	r.Sent = l.next
	r.Lost = l.next - min(l.next, receiver.placedWrites.Load())
	r.RateHz = float64(l.next) / r.DurationS
	above5 := look.checkTimes.TotalCount()
	var within [2]int64
	for _, bar := range look.checkTimes.Distribution() {
		for i, limit := range [...]int64{1000, 2000} {
			if bar.To <= limit {
				within[i] += bar.Count
			}
		}
		if bar.To <= 5000 {
			above5 -= bar.Count
		}
	}
	r.Above5us = uint64(above5)
	if n := float64(look.checkTimes.TotalCount()); n > 0 {
		r.Within1us, r.Within2us = float64(within[0])/n, float64(within[1])/n
	}
	at := func(q float64) float64 { return microsAt(look.checkTimes, q) }
	r.P50, r.P99, r.P999, r.Max = at(50), at(99), at(99.9), at(100)
}

// WriteTable prints the report as a table, beside the figures of L1-farm.
func (r *integrityReport) WriteTable(w io.Writer) error {
	r.writeHead(w, "what was seen until then", "integrity over %s, two nodes of one process on %d cores: events of %s "+
		"into %d buffers, %.1f kHz requested, %.1f kHz reached", r.Carrier, r.Cores, config.Bytes(r.Size), r.Buffers,
		r.RequestedHz/1e3, r.RateHz/1e3)
	if r.Error != "" {
		fmt.Fprintln(w, r.Error)
	}
	million := func(n uint64) string {
		if r.Tries == 0 {
			return trial.NoFigure
		}
		return fmt.Sprintf("%d, %.1f per million", n, float64(n)*1e6/float64(r.Tries))
	}
	share := func(v float64) string { return fmt.Sprintf("%.3f %%", 100*v) }
	return trial.Table(w, "What the receiver saw in its memory", []string{"", "here", "L1-farm §7.5"}, [][]string{
		{"seconds", fmt.Sprintf("%.1f", r.DurationS), "300"},
		{"sent", fmt.Sprint(r.Sent), trial.NoFigure},
		{"lost", fmt.Sprint(r.Lost), "0"},
		{"tries", fmt.Sprint(r.Tries), "14612248"},
		{"all OK", fmt.Sprint(r.MatchingEvents), "14612240"},
		{"next expected and all OK", fmt.Sprint(r.ConsecutiveEvents), "14612013"},
		{"mismatches", million(r.mismatched()), "8, 0.5 per million"},
		{"missed", million(r.missedEvents()), "237, 16.2 per million"},
		{"damaged words", fmt.Sprint(r.DamagedWords), trial.NoFigure},
		{"checked within 1 µs", share(r.Within1us), "76 %"},
		{"checked within 2 µs", share(r.Within2us), "99.87 %"},
		{"checked after more than 5 µs", million(r.Above5us), "fewer than 6500"},
		{"p50, p99, p99.9, max", fmt.Sprintf("%.2f, %.2f, %.2f, %.0f µs", r.P50, r.P99, r.P999, r.Max), trial.NoFigure},
	})
}
