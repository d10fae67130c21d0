package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"ringlet/filter/decision"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// The chain is a plan of its own: a detector's data, builder units, filters and a decision unit, without files. It
// checks that each event gets exactly one decision, in order, whichever process dies.

// nowhere: events are built and judged, but not written.
const nowhere outputPlace = "nowhere"

// chainShapes have the decision unit alone on its node, or with a builder unit.
var chainShapes = []unitLayout{
	{nodes: 5, rus: 2, bus: 2, decision: "n2"},
	{nodes: 5, rus: 1, bus: 3, decision: "n1"},
	{nodes: 4, rus: 2, bus: 2, decision: "n3"},
}

// chainKinds are faults that the chain must tolerate: builder units are expendable, and a decision unit is started
// again.
var chainKinds = []kind{
	killBuilder, killBuilder, stopBuilder, termBuilder, exclude, killDecision, killDecision, stopDecision, killFilter,
	killFilter,
}

// planChain makes the run of this index.
func planChain(seed uint64, index int, env env) plannedRun {
	d := &dice{rand.New(rand.NewPCG(seed, uint64(index)))}
	r := plannedRun{
		Index:  index,
		Length: d.between(12*time.Second, 20*time.Second),
		Place:  nowhere,
		Policy: policy{Durability: "memory"},
	}
	if env.Short {
		r.Length = d.between(2*time.Second, 4*time.Second)
	}
	s := chainShapes[d.IntN(len(chainShapes))]
	s.scheduler = name(0)
	if env.Python != "" && d.chance(30) {
		r.FilterName = fmt.Sprintf("chain%d", index)
	}
	r.Settings = d.drawChainSettings(s, r.FilterName)
	if index%faultlessEvery == 0 {
		return r
	}
	for range 1 + d.IntN(3) {
		k := chainKinds[d.IntN(len(chainKinds))]
		if k == killFilter && r.FilterName == "" {
			k = killDecision
		}
		f := d.fault(k, s, r.Length)
		if all := s.builders(); f.Node == all[0] { // spare the first one: a run needs one builder unit
			f.Node = all[len(all)-1]
		}
		r.Faults = append(r.Faults, f)
	}
	slices.SortStableFunc(r.Faults, func(a, b fault) int { return int(a.At - b.At) })
	return r
}

// drawChainSettings draws the settings of a run with a simulated detector and filters. Its data are prepared: the
// detector is simulated once, and the same data are sent again and again.
func (d *dice) drawChainSettings(s unitLayout, processes string) (set []string) {
	add := func(name string, value any) { set = append(set, fmt.Sprintf("%s=%v", name, value)) }
	d.addCommonSettings(s, add)
	add("discipline", d.pick("shift", "push", "free", "pull", "tagring"))
	add("transport", d.pick("quic", "quic", "auto"))
	add("builder-loss", "expendable")
	add("decision-node", s.decision)
	add("decision-timeout", "2s")
	packing, rate := 1000, 100_000
	switch {
	case processes != "":
		packing, rate = 100, 20_000
		add("filter", "process:"+processes+",2s")
	default:
		add("filter", "share:0.04,2s")
	}
	add("packing", packing)
	if d.chance(40) {
		add("fragment-model", "velo")
		add("prepared", 2)
	} else {
		add("sources", 2*s.rus)
		add("fragment-size", 16)
		add("prepared", 8)
		rate *= 4
	}
	add("rate", rate)
	return set
}

// decisionOrder checks the order of the decisions that a subscriber receives. It is pure.
type decisionOrder struct {
	next          uint64 // next event
	newConnection bool   // no decision has come over this connection yet

	Seen     uint64 // decisions
	Unseen   uint64 // events between two connections, and before the first
	Gaps     uint64 // events left out within a connection
	Repeated uint64 // decisions on events that were decided before
}

// beginConnection begins a new connection: a gap before its first decision is no error.
func (o *decisionOrder) beginConnection() { o.newConnection = true }

// record records the decision on an event.
func (o *decisionOrder) record(event uint64) {
	switch {
	case event < o.next:
		o.Repeated++
		return
	case o.newConnection:
		o.Unseen += event - o.next
	default:
		o.Gaps += event - o.next
	}
	o.newConnection = false
	o.next = event + 1
	o.Seen++
}

// A subscriber reads the decisions of a run, and connects again when the decision unit is back.
type subscriber struct {
	addr     string
	cancel   context.CancelFunc
	done     chan struct{}
	order    decisionOrder
	parseErr error // a malformed decision
}

// subscriberBuffer holds a second of decisions: a subscriber that waits for a processor is then not disconnected.
const subscriberBuffer = 8 << 20

func subscribe(ctx context.Context, addr string) *subscriber {
	ctx, cancel := context.WithCancel(ctx)
	s := &subscriber{addr: addr, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for ctx.Err() == nil && s.parseErr == nil {
			s.connection(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return s
}

// connection makes a connection and reads it to its end; it returns at once if the decision unit does not listen.
func (s *subscriber) connection(ctx context.Context) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = conn.(*net.TCPConn).SetReadBuffer(subscriberBuffer) // with a smaller one it is disconnected sooner
	s.order.beginConnection()
	block := make([]byte, 4096*decision.ResultSize)
	for had := 0; ; {
		n, err := conn.Read(block[had:])
		had += n
		complete := had - had%decision.ResultSize
		for b := block[:complete]; len(b) > 0; b = b[decision.ResultSize:] {
			var r decision.Result
			if s.parseErr = r.Parse(b[:decision.ResultSize]); s.parseErr != nil {
				return
			}
			s.order.record(r.Event)
		}
		had = copy(block, block[complete:had])
		if err != nil {
			if !errors.Is(err, io.EOF) && had > 0 {
				s.parseErr = fmt.Errorf("the outlet of decisions at %s broke the connection after %d of the %d bytes of a "+
					"decision: %w", s.addr, had, decision.ResultSize, err)
			}
			return
		}
	}
}

// end ends the subscriber, and returns what it has seen.
func (s *subscriber) end() (decisionOrder, error) {
	s.cancel()
	<-s.done
	return s.order, s.parseErr
}

// judgeOrder checks the decisions of a trial that a subscriber has seen.
func judgeOrder(t *trial, o decisionOrder, broken error) (problems []string) {
	if broken != nil {
		problems = append(problems, fmt.Sprintf("decisions: %v", broken))
	}
	if o.Repeated > 0 || o.Gaps > 0 {
		problems = append(problems, fmt.Sprintf("decisions: %d events were decided again, %d were left out, of %d seen",
			o.Repeated, o.Gaps, o.Seen))
	}
	for _, run := range t.Runs {
		switch run.GetVerdict() {
		case ecsv1.Verdict_VERDICT_GOOD, ecsv1.Verdict_VERDICT_DEGRADED:
		default:
			problems = append(problems, fmt.Sprintf("run %d: %s, which no fault of the chain excuses: %s",
				run.GetNumber(), verdict(run), endReason(run)))
			continue
		}
		r, err := parseFigures(run)
		d := r.Decisions
		if err != nil || d == nil || d.Lost || d.First > 0 || len(t.Runs) > 1 {
			continue // nothing to compare with; judgeRecord reports the error
		}
		if reported := o.Seen + o.Unseen; reported != d.Decided {
			problems = append(problems, fmt.Sprintf("run %d: it tells of %d decisions, and its subscriber of %d, the last %d",
				run.GetNumber(), d.Decided, reported, o.next))
		}
	}
	return problems
}

// filterScript is a user's filter: it accepts each 25th event, and takes a place again when its run has ended.
const filterScript = `
import sys
from ringlet.filter import Filter
while True:
    with Filter(sys.argv[1]) as events:
        for event in events:
            (event.accept if event.number % 25 == 0 else event.reject)()
`

// outputSettings are the settings for the output of events and decisions.
func (c *cluster) outputSettings(r plannedRun) []string {
	if r.Place == nowhere {
		return []string{"output=discard:", "decision-output=tcp:" + c.decisionAddr}
	}
	return []string{"output=" + c.path(string(r.Place)) + "/"}
}

// startConsumers starts the filters of a run and its subscriber. The returned function ends both, and judges the order
// of decisions.
func (c *cluster) startConsumers(ctx context.Context, r plannedRun, t *trial) (end func()) {
	if err := c.startFilters(r.FilterName); err != nil {
		t.problem("no filter can be started: %v", err)
	}
	s := subscribe(ctx, c.decisionAddr)
	return func() {
		order, broken := s.end()
		t.Order = order
		t.Problems = append(t.Problems, judgeOrder(t, order, broken)...)
		for _, p := range c.filters {
			p.kill() // the run is over: no builder unit waits for its answers
		}
		c.filters = nil
	}
}

// startFilters starts two filters of that name, which are restarted when they die.
func (c *cluster) startFilters(name string) error {
	if name == "" {
		return nil
	}
	clients, err := filepath.Abs("clients/python")
	if err != nil {
		return err
	}
	c.filters = map[string]*process{}
	for _, n := range []string{"filter0", "filter1"} {
		c.filters[n] = &process{
			name:   n,
			args:   []string{"-c", filterScript, name},
			host:   c.hosts[controlName],
			log:    c.path("logs", n+".log"),
			dir:    clients,
			exe:    c.env.Python,
			report: c.report,
		}
		if err := c.filters[n].start(); err != nil {
			return err
		}
	}
	return nil
}

// findPython is the path of an interpreter for filters; empty if there is none.
func findPython() string {
	path, err := exec.LookPath("python3")
	if err != nil {
		return ""
	}
	out, err := exec.Command(path, "-c", "import sys; assert sys.version_info >= (3, 9); print(sys.executable)").Output()
	if err != nil {
		return ""
	}
	return string(out[:max(0, len(out)-1)])
}
