package sci_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ringlet/sim"
	"ringlet/sim/documents/sci"
)

// meter notes what a node gets.
type meter struct {
	s     *sim.Sim
	n     int
	bytes int
	sum   int64
	delay sim.Histogram
}

func (m *meter) Receive(p *sci.Packet) {
	m.n++
	m.bytes += p.Size
	m.sum += p.ID
	m.delay.Add(int64(m.s.Now() - p.AcceptedAt))
}

// sender writes packets of 128 B to its targets in turn, each a period after the last; what a card refuses it tries
// again after 19 clocks.
type sender struct {
	s         *sim.Sim
	node      *sci.Node
	targets   []int
	period    sim.Time
	remaining int
	sent      int
}

func (e *sender) Handle(int64, int64) {
	if e.remaining == 0 {
		return
	}
	if !e.node.Send(e.targets[e.sent%len(e.targets)], 128, int64(e.sent), 0) {
		e.s.ScheduleAfter(19*15*sim.Nanosecond, e, 0, 0)
		return
	}
	e.sent++
	e.remaining--
	e.s.ScheduleAfter(e.period, e, 0, 0)
}

// TestLatency (F45, F46): without other traffic a packet takes what the parameters say, over any path of any torus.
func TestLatency(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SliceOfN(rapid.IntRange(1, 7), 1, 3).Draw(t, "size")
		count := 1
		for _, n := range size {
			count *= n
		}
		from, to := rapid.IntRange(0, count-1).Draw(t, "from"), rapid.IntRange(0, count-1).Draw(t, "to")
		if from == to {
			t.Skip()
		}
		s := sim.New(1)
		cfg := sci.Dolphin()
		net := sci.New(s, cfg, size...)
		m := &meter{s: s}
		net.Node(to).Receiver = m
		net.Node(from).Send(to, 128, 7, 0)
		s.Run(context.Background(), sim.Limits{})
		want, rings := cfg.PCIToPCI, 0
		for at, rest, dest, dim := from, 1, to, 0; dim < len(size); dim++ {
			if hops := (dest%size[dim] - at%size[dim] + size[dim]) % size[dim]; hops > 0 {
				want += sim.Time(hops-1) * cfg.BypassTime
				rings++
			}
			at, dest, rest = at/size[dim], dest/size[dim], rest*size[dim]
		}
		want += sim.Time(rings-1) * cfg.RoutingTime
		if m.n != 1 || m.sum != 7 || sim.Time(m.delay.Max()) != want {
			t.Fatalf("%d packets after %v, want one after %v", m.n, sim.Time(m.delay.Max()), want)
		}
	})
}

// TestConservation: whatever is sent arrives once, however small the queues are, and the network is empty afterwards.
func TestConservation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := sim.New(1)
		cfg := sci.Dolphin()
		cfg.MaxQueuedPerKind = rapid.IntRange(1, 3).Draw(t, "queue")
		cfg.MaxQueued = 2 * cfg.MaxQueuedPerKind
		cfg.MaxIncoming = rapid.IntRange(1, 2).Draw(t, "incoming")
		cfg.WithResponses = rapid.Bool().Draw(t, "response")
		if rapid.Bool().Draw(t, "go bits") {
			cfg.StarvationTime = sim.Microsecond
		}
		net := sci.New(s, cfg, 4, 3)
		var meters []*meter
		for i := range 12 {
			meters = append(meters, &meter{s: s})
			net.Node(i).Receiver = meters[i]
		}
		want, sent := make([]int, 12), 0
		for i := range 12 {
			to := rapid.IntRange(0, 2).Draw(t, "target")
			if to == i {
				continue
			}
			e := &sender{s: s, node: net.Node(i), targets: []int{to}, period: 510 * sim.Nanosecond}
			e.remaining = rapid.IntRange(0, 40).Draw(t, "packets")
			want[to] += e.remaining
			sent += e.remaining
			s.ScheduleAt(sim.Time(rapid.IntRange(0, 500).Draw(t, "phase"))*sim.Nanosecond, e, 0, 0)
		}
		if end := s.Run(context.Background(), sim.Limits{MaxEvents: 2_000_000}); end != sim.Idle {
			t.Fatalf("%v at %v", end, s.Now())
		}
		for i, m := range meters {
			if m.n != want[i] || m.bytes != 128*want[i] {
				t.Fatalf("node %d got %d packets, want %d", i, m.n, want[i])
			}
		}
	})
}

// ring runs n senders that stand side by side at the beginning of a ring, each with a receiver of its own at its end,
// and with a clock of its own (100 ppm).
func ring(cfg sci.Config, nodes, n int, period sim.Time) (*sci.Net, []*sender, float64) {
	s := sim.New(1)
	net := sci.New(s, cfg, nodes)
	var all []*sender
	for i := range n {
		e := &sender{s: s, node: net.Node(i), targets: []int{nodes - n + i}, period: period + sim.Time(i)*50,
			remaining: math.MaxInt}
		all = append(all, e)
		s.ScheduleAt(sim.Time(i)*77*sim.Nanosecond, e, 0, 0)
	}
	const until = 2 * sim.Millisecond
	s.Run(context.Background(), sim.Limits{Until: until})
	return net, all, until.Seconds()
}

// TestGoBits: the sender that stands upstream keeps its rate. Go bits share the rest between those downstream; without
// them the last gets next to nothing.
func TestGoBits(t *testing.T) {
	const period = 34 * 15 * sim.Nanosecond
	for _, starving := range []sim.Time{0, 2 * sim.Microsecond} {
		cfg := sci.Dolphin()
		cfg.StarvationTime = starving
		_, e, secs := ring(cfg, 6, 3, period)
		share := func(i int) float64 { return float64(e[i].sent) * period.Seconds() / secs }
		if share(0) < 0.99 || share(0) < share(1) || share(1) < share(2) {
			t.Errorf("starving %v: shares %.3f, %.3f, %.3f", starving, share(0), share(1), share(2))
		}
		if last := share(2); starving == 0 && last > 0.05 || starving > 0 && last < 0.3 {
			t.Errorf("starving %v: the last gets %.3f of its rate", starving, last)
		}
	}
}

// TestCheck: a network that cannot be is refused before it is made.
func TestCheck(t *testing.T) {
	cfg := sci.Dolphin()
	if err := cfg.Check(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*sci.Config){
		"no symbol":     func(c *sci.Config) { c.SymbolTime = 0 },
		"long echo":     func(c *sci.Config) { c.EchoSymbols = c.HeaderSymbols },
		"quick routing": func(c *sci.Config) { c.RoutingTime = sim.Nanosecond },
		"quick cards":   func(c *sci.Config) { c.PCIToPCI = sim.Nanosecond },
	} {
		bad := cfg
		if spoil(&bad); bad.Check() == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

// TestTrace is the way of one packet over a route node, as a trace shows it.
func TestTrace(t *testing.T) {
	var out strings.Builder
	s := sim.New(1)
	net := sci.New(s, sci.Dolphin(), 3, 2)
	trace := sim.NewTrace(&out, 100)
	net.Trace(trace)
	net.Node(0).Send(5, 128, 9, 0)
	s.Run(context.Background(), sim.Limits{})
	if dropped, err := trace.Close(); dropped > 0 || err != nil {
		t.Fatal(dropped, err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		if _, name, ok := strings.Cut(line, `"name":"`); ok && !strings.Contains(line, `"ph":"M"`) {
			name, _, _ = strings.Cut(name, `"`)
			got = append(got, name)
		}
	}
	// The first echo of the response passes node 4.
	want := "sent request by-pass echo request echo first word response echo echo response echo"
	if strings.Join(got, " ") != want {
		t.Errorf("the trace has: %s\nwant: %s", strings.Join(got, " "), want)
	}
}

// BenchmarkTorus: events of a busy torus.
func BenchmarkTorus(b *testing.B) {
	s := sim.New(1)
	net := sci.New(s, sci.Dolphin(), 10, 3)
	for i := range 15 {
		e := &sender{s: s, node: net.Node(i), targets: []int{7, 29, 13}, period: sim.Microsecond, remaining: math.MaxInt}
		s.ScheduleAt(0, e, 0, 0)
	}
	b.ResetTimer()
	s.Run(context.Background(), sim.Limits{MaxEvents: uint64(b.N)})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mevents/s")
}

func TestNoAllocation(t *testing.T) {
	s := sim.New(1)
	net := sci.New(s, sci.Dolphin(), 4, 3)
	for i := range 6 {
		e := &sender{s: s, node: net.Node(i), targets: []int{7, 11, 9}, period: sim.Microsecond, remaining: math.MaxInt}
		s.ScheduleAt(0, e, 0, 0)
	}
	ctx := context.Background()
	turn := func() { s.Run(ctx, sim.Limits{MaxEvents: 100_000}) }
	turn()
	if n := testing.AllocsPerRun(5, turn); n > 0 {
		t.Errorf("%v allocations in 100,000 events", n)
	}
}

// TestQueueTurn: packets that come by x and by y in turn pay for reading the other queue, those of one ring do not.
func TestQueueTurn(t *testing.T) {
	for _, c := range []struct {
		from   []int
		turned bool
	}{{[]int{0, 4}, true}, {[]int{0, 1}, false}} { // to node 5 of 3 × 2: by y and by x; both by y
		var took [2]sim.Time
		for i, turn := range []int{0, 40} {
			s := sim.New(1)
			cfg := sci.Dolphin()
			cfg.QueueTurnClocks = turn
			net := sci.New(s, cfg, 3, 2)
			m := &meter{s: s}
			net.Node(5).Receiver = m
			for _, from := range c.from {
				e := &sender{s: s, node: net.Node(from), targets: []int{5}, period: 510 * sim.Nanosecond, remaining: 100}
				s.ScheduleAt(0, e, 0, 0)
			}
			s.Run(context.Background(), sim.Limits{})
			if took[i] = s.Now(); m.n != 200 {
				t.Fatalf("%d of 200 packets came", m.n)
			}
		}
		if more := took[1] - took[0]; (more > 0) != c.turned {
			t.Errorf("from %v: %v more with a turn of 40 clocks", c.from, more)
		}
	}
}
