package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"ringlet/filter"
	"ringlet/filter/decision"
	"ringlet/lab/trial"
	"ringlet/shmem"
	"ringlet/transport"
	"ringlet/transport/link"
)

// DecisionsConfig says how decisions are measured: builder units have verdicts at once, and send them to the decision
// unit over a carrier.
type DecisionsConfig struct {
	NodesConfig
	Builders    int
	Depth       int           // of the decision unit, in events; front-ends take no more under way
	Timeout     time.Duration // of a decision
	EventsInRow int           // events in a row that a builder unit judges
	Rate        float64       // events/s; 0: as fast as it goes
	Duration    time.Duration // of the whole measurement
}

// Validate returns the first invalid setting as a *UsageError.
func (c *DecisionsConfig) Validate() error {
	err := checkCount("builders", c.Builders, 1, 64)
	switch {
	case err != nil:
		return err
	case c.Depth < 1 || c.Depth > 1<<24:
		return usageErrorf("depth", "%d events are not between 1 and 2^24", c.Depth)
	case c.Timeout < time.Microsecond || c.Timeout > time.Minute:
		return usageErrorf("timeout", "%v is not between 1µs and 1m", c.Timeout)
	case c.EventsInRow < 1 || c.EventsInRow > c.Depth:
		return usageErrorf("together", "%d events are not between 1 and the depth, %d", c.EventsInRow, c.Depth)
	case !(c.Rate >= 0) || c.Rate > 1e9:
		return usageErrorf("rate", "%g events/s are not between 0 and 10^9", c.Rate)
	}
	return c.validate(c.Duration)
}

// decisionsReport counts what was decided; `ringlet bench decisions --json` prints it.
type decisionsReport struct {
	nodesReport
	Builders          int     `json:"builders"`
	Depth             int     `json:"depth"`
	TimeoutUs         int64   `json:"timeout_us"`
	EventsInRow       int     `json:"together"`
	RequestedHz       float64 `json:"asked_hz"`
	DurationS         float64 `json:"duration_s"`
	Events            uint64  `json:"events"` // on which builder units had verdicts
	Decided           uint64  `json:"decided"`
	ByResult          uint64  `json:"by_result"`
	RateHz            float64 `json:"rate_hz"` // of decisions by a result
	TimedOut          uint64  `json:"timed_out"`
	Overrun           uint64  `json:"overrun"`
	Unanswered        uint64  `json:"unanswered"`
	LateResults       uint64  `json:"results_late"`
	DuplicateResults  uint64  `json:"results_doubled"`
	ImpossibleResults uint64  `json:"results_impossible"`
	UnsentResults     uint64  `json:"results_unsent"`
	OutOfOrder        uint64  `json:"out_of_order"` // decisions that a subscriber received for another event than the next
	Writes            uint64  `json:"writes"`
	P50               int64   `json:"p50_us"` // from the first result on an event to its decision
	P99               int64   `json:"p99_us"`
	P999              int64   `json:"p999_us"`
	Max               int64   `json:"max_us"`
	Error             string  `json:"error,omitempty"`
}

// good says whether each event got one decision, in order, and no result was impossible. Time-outs are no fault: they
// happen when other programs use the machine.
func (r *decisionsReport) good() bool {
	return r.Decided == r.Events && r.OutOfOrder+r.DuplicateResults+r.ImpossibleResults+r.UnsentResults == 0 &&
		r.Error == ""
}

// Failure counts what went wrong with decisions, as an error.
func (r *decisionsReport) Failure() error {
	if err := r.nodesReport.Failure(); err != nil || r.good() {
		return err
	}
	return fmt.Errorf("bench: %d events and %d decisions, %d out of order; %d results doubled, %d impossible, %d not "+
		"sent", r.Events, r.Decided, r.OutOfOrder, r.DuplicateResults, r.ImpossibleResults, r.UnsentResults)
}

// decisionNode is a node of this measurement: rank 0 has the decision unit, each other rank a builder unit.
type decisionNode struct {
	*end
	unit   atomic.Pointer[decision.Unit]
	sender *decision.Sender // nil at rank 0
	writes atomic.Uint64
}

// Placed hands results in place to the decision unit.
func (j *decisionNode) Placed(peer int, p transport.Placement) {
	if u := j.unit.Load(); u != nil {
		u.ResultsPlaced(peer, p.Ref, p.Offset, p.Length)
	}
}

// Signal hands a message of the decision unit to the sender.
func (j *decisionNode) Signal(peer int, b []byte) {
	var m decision.Message
	err := m.Parse(b)
	if err == nil && j.sender != nil {
		err = j.sender.HandleMessage(m)
	}
	if err != nil {
		j.fail(fmt.Errorf("bench: from rank %d: %w", peer, err))
	}
}

// Completed hands the outcome of a write of results to the sender.
func (j *decisionNode) Completed(_ int, cookie uint64, err error) {
	if err != nil {
		j.fail(err)
	}
	j.sender.WriteCompleted(cookie, err)
}

func (j *decisionNode) write(w decision.Write) error {
	j.writes.Add(1)
	return j.endpoint.Write(0, link.Write{
		Ref:    w.Ref,
		Offset: w.Offset,
		Data:   w.Data,
		Cookie: w.Cookie,
	})
}

// subscriber checks that decisions come in the order of events.
type subscriber struct {
	nextEvent, outOfOrder atomic.Uint64
}

// Publish receives some decisions.
func (s *subscriber) Publish(b []byte) {
	next := s.nextEvent.Load()
	for ; len(b) > 0; b = b[decision.ResultSize:] {
		var r decision.Result
		if r.Parse(b[:decision.ResultSize]) != nil || r.Event != next {
			s.outOfOrder.Add(1)
		}
		next = r.Event + 1
	}
	s.nextEvent.Store(next)
}

// prepare links a decision unit to builder units on other nodes, which have results at once.
func (c *DecisionsConfig) prepare() (*decisionsReport, []point, func() error, error) {
	r := &decisionsReport{
		nodesReport: c.report(),
		Builders:    c.Builders,
		Depth:       c.Depth,
		TimeoutUs:   c.Timeout.Microseconds(),
		EventsInRow: c.EventsInRow,
		RequestedHz: c.Rate,
	}
	measure := func(ctx context.Context, view uint64) error { return c.measure(ctx, view, r) }
	return r, []point{{"decisions", measure}}, nil, nil
}

func (c *DecisionsConfig) measure(ctx context.Context, view uint64, r *decisionsReport) (err error) {
	all, err := openNodes(ctx, &c.NodesConfig, view, 1+c.Builders, c.openNode)
	defer func() { err = errors.Join(err, closeDecisionNodes(all)) }()
	if err != nil {
		return err
	}
	segment, err := shmem.Create(segmentName("decisions"), decision.SegmentSize(c.Builders, decision.RingCapacityFor(1)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, segment.Close()) }()
	var sub subscriber
	u, err := decision.NewUnit(decision.UnitConfig{
		Core:         decision.Config{MaxPending: c.Depth, Timeout: c.Timeout, Epoch: 1},
		RingCapacity: decision.RingCapacityFor(1),
		BuilderRanks: all[0].otherRanks,
		Table:        all[0].table,
		Segment:      segment,
		Signaler:     all[0].endpoint,
		Outlets:      []decision.Outlet{&sub},
	})
	if err != nil {
		return err
	}
	all[0].unit.Store(u)
	for _, rank := range all[0].otherRanks {
		u.Announce(rank)
	}
	began := time.Now()
	failed := runFor(c.Duration, func(over *atomic.Bool) error { return c.decide(ctx, all, &sub, over, r) })
	r.DurationS = time.Since(began).Seconds()
	c.drainAndFill(u, all, r)
	r.OutOfOrder = sub.outOfOrder.Load()
	if failed != nil && ctx.Err() == nil {
		r.Error = failed.Error()
	}
	return u.Close()
}

// openNode opens a node. A node with a builder unit is linked only to the decision unit.
func (c *DecisionsConfig) openNode(l linkConfig) (*decisionNode, error) {
	table, err := newTable(l.carrier, c.Builders)
	if err != nil {
		return nil, err
	}
	j := &decisionNode{}
	if l.rank > 0 {
		j.sender = decision.NewSender(l.rank-1, j.write)
	}
	l.wrap = func(e *end) transport.Handler {
		j.end = e
		if l.rank > 0 {
			e.otherRanks = []int{0}
		}
		return j
	}
	if _, err = openEnd(l, table); err != nil {
		if j.sender != nil {
			j.sender.Close()
		}
		return nil, err
	}
	return j, nil
}

func closeDecisionNodes(all []*decisionNode) (err error) {
	for _, j := range all {
		if j != nil {
			err = errors.Join(err, j.endpoint.Close())
		}
	}
	for _, j := range all {
		if j != nil && j.sender != nil {
			j.sender.Close()
		}
		if j != nil {
			err = errors.Join(err, j.end.close())
		}
	}
	return err
}

// noEventDelay is how long a builder unit sleeps when no event is free, so that a busy loop does not take the processor
// from the decision unit. 1820 events in that time are 36 MHz.
const noEventDelay = 50 * time.Microsecond

// decide has builder units judge events until over is set: each takes the next EventsInRow events that are free. No
// more events are under way than the decision unit is deep, since front-ends would not take more.
func (c *DecisionsConfig) decide(ctx context.Context, all []*decisionNode, sub *subscriber, over *atomic.Bool,
	r *decisionsReport) error {
	var next atomic.Uint64
	n, deep := uint64(c.EventsInRow), uint64(c.Depth)
	began := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for _, j := range all[1:] {
		g.Go(func() error {
			for !over.Load() {
				if ctx.Err() != nil || j.ended.Load() {
					return errors.Join(ctx.Err(), j.failureCause())
				}
				first := next.Load()
				if first+n > sub.nextEvent.Load()+deep || c.Rate > 0 && time.Since(began).Seconds()*c.Rate < float64(first+n) {
					time.Sleep(noEventDelay)
					continue
				}
				if next.CompareAndSwap(first, first+n) {
					j.sender.AddVerdict(first, c.EventsInRow, filter.Verdict{Decision: filter.Accepted}, 0)
				}
			}
			return nil
		})
	}
	err := g.Wait()
	r.Events = next.Load()
	return err
}

// drainAndFill waits for the results under way, and fills the figures.
func (c *DecisionsConfig) drainAndFill(u *decision.Unit, all []*decisionNode, r *decisionsReport) {
	ctx, cancel := context.WithTimeout(context.Background(), placementTimeout+c.Timeout)
	defer cancel()
	for i, j := range all[1:] {
		_ = j.sender.Flush(ctx) // results that do not arrive are counted
		over := decision.Message{Kind: decision.KindEnd, Epoch: 1, Number: j.sender.Close()}
		_ = u.HandleMessage(i+1, over.Append(nil)) // in this process there is no link to lose it
	}
	u.FinishDecisions(ctx)
	for _, j := range all[1:] {
		s := j.sender.Stats()
		r.UnsentResults += s.Dropped + s.Unacked
		r.Writes += j.writes.Load()
	}
	s := u.Stats()
	r.Decided, r.TimedOut, r.Overrun, r.Unanswered = s.Decisions(), s.TimedOut, s.Overrun, s.Unanswered
	r.ByResult = r.Decided - s.TimedOut - s.Overrun - s.Unanswered
	r.RateHz = float64(r.ByResult) / r.DurationS
	r.LateResults, r.DuplicateResults = s.Results[decision.FateLate], s.Results[decision.FateDoubled]
	r.ImpossibleResults = s.BadChecksum + s.WrongBuilder + s.BeforeFirstEvent + s.Refused
	for _, fate := range []decision.Fate{decision.FateAhead, decision.FateOldEpoch, decision.FateUnknownBuilder,
		decision.FateNoVerdict} {
		r.ImpossibleResults += s.Results[fate]
	}
	waits := u.Latency().Total
	r.P50, r.P99, r.P999, r.Max = waits.ValueAtQuantile(50), waits.ValueAtQuantile(99), waits.ValueAtQuantile(99.9),
		waits.Max()
}

// WriteTable prints the report as tables, beside the figures of L1-farm.
func (r *decisionsReport) WriteTable(w io.Writer) error {
	r.writeHead(w, "what was seen until then", "decisions over %s, %d builder units and a decision unit in one process "+
		"on %d cores", r.Carrier, r.Builders, r.Cores)
	if r.Error != "" {
		fmt.Fprintln(w, r.Error)
	}
	share := func(n uint64) string { return fmt.Sprintf("%d, %.3f %%", n, 100*float64(n)/float64(max(1, r.Events))) }
	return trial.Table(w, "What the decision unit did", []string{"", "here", "L1-farm §6.1 and §7.6"}, [][]string{
		{"depth, events", fmt.Sprint(r.Depth), "1820"},
		{"time-out", fmt.Sprintf("%d µs", r.TimeoutUs), "1638 µs (1820 × 900 ns)"},
		{"builder units", fmt.Sprint(r.Builders), "26"},
		{"seconds", fmt.Sprintf("%.1f", r.DurationS), "300"},
		{"events", fmt.Sprint(r.Events), "379901605"},
		{"decisions by a result, MHz", fmt.Sprintf("%.3f", r.RateHz/1e6), "1.24"},
		{"decided by a result", share(r.ByResult), "almost 100 %"},
		{"after the time-out", share(r.TimedOut), trial.NoFigure},
		{"for want of depth, at the end", fmt.Sprintf("%d, %d", r.Overrun, r.Unanswered), trial.NoFigure},
		{"results late, doubled, impossible", fmt.Sprintf("%d, %d, %d", r.LateResults, r.DuplicateResults,
			r.ImpossibleResults), "20 odd reports"},
		{"results not sent", fmt.Sprint(r.UnsentResults), trial.NoFigure},
		{"decisions out of order", fmt.Sprint(r.OutOfOrder), "0"},
		{"results in a write", fmt.Sprintf("%.1f", float64(r.Events-r.UnsentResults)/float64(max(1, r.Writes))), "1"},
		{"decision after: p50, p99, p99.9, max", fmt.Sprintf("%d, %d, %d, %d µs", r.P50, r.P99, r.P999, r.Max),
			"at most 1638 µs"},
	})
}
