package component_test

import (
	"context"
	"testing"

	"pgregory.net/rapid"

	"ringlet/sim"
	"ringlet/sim/component"
)

// sink counts what arrives, and gives packets back.
type sink struct {
	s       *sim.Sim
	pool    *component.Pool
	packets uint64
	bytes   int64
	delay   sim.Histogram
	last    map[int32]int64
	mixed   bool
}

func newSink(s *sim.Sim) *sink {
	return &sink{s: s, pool: new(component.Pool), last: map[int32]int64{}}
}

func (k *sink) Receive(p *component.Packet) {
	k.packets++
	k.bytes += int64(p.Size)
	k.delay.Add(int64(k.s.Now() - p.ReadyAt))
	k.mixed = k.mixed || p.ID <= k.last[p.Src]
	k.last[p.Src] = p.ID
	k.pool.Put(p)
}

// feed injects packets into a path as long as its first port has room.
type feed struct {
	to        *sink
	src       int32
	size      int32
	path      []*component.Port
	n         int64
	remaining int64
}

func (f *feed) Handle(int64, int64) {
	for f.remaining > 0 && f.path[0].Fits(f.size) {
		p := f.to.pool.Get()
		f.n, f.remaining = f.n+1, f.remaining-1
		p.Src, p.Size, p.Path, p.Receiver, p.ID, p.ReadyAt = f.src, f.size, f.path, f.to, f.n, f.to.s.Now()
		if !component.Inject(p) {
			panic("a port with room refused")
		}
	}
}

// TestPath: latency and rate over three hops are those of the formula, with and without cut-through.
func TestPath(t *testing.T) {
	for cut, want := range map[bool]sim.Time{false: 3 * (1000*40 + 500), true: 3*500 + 1000*40} {
		s := sim.New(1)
		cfg := component.PortConfig{
			PerByte:     40,
			Latency:     500,
			BufferBytes: 4000,
			CutThrough:  cut,
		}
		path := []*component.Port{component.NewPort(s, cfg), component.NewPort(s, cfg), component.NewPort(s, cfg)}
		k := newSink(s)
		f := &feed{to: k, size: 1000, path: path, remaining: 1}
		f.Handle(0, 0)
		idle(t, s)
		if got := k.delay.Max(); got != int64(want) {
			t.Errorf("cut-through %v: %v, want %v", cut, sim.Time(got), want)
		}
		begin := s.Now()
		f.remaining, path[0].OnFreed = 1000, f
		f.Handle(0, 0)
		idle(t, s)
		near(t, "bytes/s", sim.PerSecond(1_000_000, s.Now()-begin), 1e12/40, 0.005)
	}
}

// TestIncast: three senders share one output fairly, nothing is lost with back-pressure; the same traffic without it is
// dropped and counted. With back-pressure a victim, whose own output is idle, is held up by the others (head of line).
func TestIncast(t *testing.T) {
	for _, drop := range []bool{false, true} {
		s := sim.New(1)
		cfg := component.PortConfig{
			PerByte:      40,
			Latency:      500,
			BufferBytes:  8000,
			DropWhenFull: drop,
		}
		hot, cold, uplink := component.NewPort(s, cfg), component.NewPort(s, cfg), component.NewPort(s, cfg)
		k, victim := newSink(s), newSink(s)
		var feeds []*feed
		for i := range int32(3) {
			f := &feed{to: k, src: i, size: 1000, remaining: 1e6, path: []*component.Port{component.NewPort(s, cfg), uplink,
				hot}}
			if i > 0 {
				f.path = []*component.Port{component.NewPort(s, cfg), hot}
			}
			f.path[0].OnFreed = f
			feeds = append(feeds, f)
		}
		v := &feed{to: victim, src: 9, size: 1000, remaining: 1e6,
			path: []*component.Port{component.NewPort(s, cfg), uplink, cold}}
		v.path[0].OnFreed = v
		for _, f := range append(feeds, v) {
			f.Handle(0, 0)
		}
		const until = 2 * sim.Millisecond
		s.Run(context.Background(), sim.Limits{Until: until})
		near(t, "hot output, bytes/s", sim.PerSecond(uint64(k.bytes), until), 1e12/40, 0.002)
		lost := hot.DroppedPackets + cold.DroppedPackets + uplink.DroppedPackets
		if (lost > 0) != drop || k.mixed || victim.mixed {
			t.Errorf("drop %v: %d dropped, out of order %v", drop, lost, k.mixed)
		}
		rate := sim.PerSecond(uint64(victim.bytes), until) / (1e12 / 40)
		if !drop && (rate < 0.30 || rate > 0.36) {
			t.Errorf("drop %v: the victim has %.3f of its output", drop, rate)
		}
		if !drop && uplink.Blocked() == 0 {
			t.Error("the uplink was never blocked")
		}
	}
}

// TestConservation: of any traffic over any small tree, every packet is taken or counted as dropped, in order, and all
// buffers are empty at the end and were never over their limit.
func TestConservation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := sim.New(rapid.Uint64().Draw(t, "seed"))
		cfg := component.PortConfig{
			PerByte:      sim.Time(rapid.IntRange(1, 100).Draw(t, "per byte")),
			Latency:      sim.Time(rapid.IntRange(0, 5000).Draw(t, "latency")),
			BufferBytes:  rapid.Int64Range(1500, 9000).Draw(t, "buffer"),
			CutThrough:   rapid.Bool().Draw(t, "cut through"),
			DropWhenFull: rapid.Bool().Draw(t, "drop"),
		}
		var down, up []*component.Port
		var sinks []*sink
		for range 4 {
			up, down = append(up, component.NewPort(s, cfg)), append(down, component.NewPort(s, cfg))
			sinks = append(sinks, newSink(s))
		}
		var sent uint64
		for src := range int32(4) {
			for n := range rapid.IntRange(0, 30).Draw(t, "flow") {
				dst := rapid.IntRange(0, 3).Draw(t, "destination")
				f := &feed{
					to:   sinks[dst],
					src:  src,
					size: rapid.Int32Range(1, 1500).Draw(t, "size"),
					path: []*component.Port{component.NewPort(s, component.PortConfig{PerByte: cfg.PerByte}), up[src/2],
						down[dst]},
					remaining: 1,
					n:         int64(n),
				}
				s.ScheduleAt(sim.Time(n)*sim.Microsecond, f, 0, 0)
				sent++
			}
		}
		idle(t, s)
		var arrived, dropped uint64
		for i := range 4 {
			arrived, dropped = arrived+sinks[i].packets, dropped+down[i].DroppedPackets+up[i].DroppedPackets
			if down[i].HeldBytes.Value() != 0 || up[i].HeldBytes.Value() != 0 || up[i].HeldBytes.Peak() > cfg.BufferBytes {
				t.Fatalf("port %d holds %d at the end, %d at most", i, up[i].HeldBytes.Value(), up[i].HeldBytes.Peak())
			}
		}
		if arrived+dropped != sent || dropped > 0 && !cfg.DropWhenFull {
			t.Fatalf("%d sent, %d arrived, %d dropped", sent, arrived, dropped)
		}
	})
}

// TestPortAllocatesNothing: a packet costs no memory once the queues have grown.
func TestPortAllocatesNothing(t *testing.T) {
	s := sim.New(1)
	cfg := component.PortConfig{PerByte: 40, BufferBytes: 8000}
	k := newSink(s)
	f := &feed{to: k, size: 1000, path: []*component.Port{component.NewPort(s, cfg), component.NewPort(s, cfg)},
		remaining: 1e9}
	f.path[0].OnFreed = f
	f.Handle(0, 0)
	ctx := context.Background()
	turn := func() { s.Run(ctx, sim.Limits{MaxEvents: 10_000}) }
	turn()
	if n := testing.AllocsPerRun(5, turn); n > 0 {
		t.Errorf("%v allocations in 10,000 events", n)
	}
}

// BenchmarkPort: packets over three ports, two events a port.
func BenchmarkPort(b *testing.B) {
	s := sim.New(1)
	cfg := component.PortConfig{PerByte: 40, Latency: 500, BufferBytes: 8000}
	k := newSink(s)
	f := &feed{to: k, size: 1000, remaining: 1e12}
	f.path = []*component.Port{component.NewPort(s, cfg), component.NewPort(s, cfg), component.NewPort(s, cfg)}
	f.path[0].OnFreed = f
	f.Handle(0, 0)
	b.ResetTimer()
	s.Run(context.Background(), sim.Limits{MaxEvents: uint64(b.N)})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mevents/s")
}
