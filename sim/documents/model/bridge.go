package model

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"ringlet/sim"
	"ringlet/sim/component"
	"ringlet/sim/study"
)

// The stages of a remote write through the PCI-SCI bridge (SCI-bridge §IV, figure 7). B, C and G are only in the
// figure; the text gives their sum. A, B, C are stages of the sender, D of the link, E to J of the receiver.
var bridgeStages = []string{"A", "BCG", "D", "E", "F", "H", "I", "J"}

// bridgeWrite follows one word through the bridge.
var bridgeWrite = study.Model{
	Name: "bridge-write",
	Help: "One remote write through the bridge of SCI-bridge §IV, stage by stage.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		cycle, software := p.Time("cycle"), p.Time("software")
		var cycles []int
		for _, name := range bridgeStages {
			cycles = append(cycles, p.Int("stage-"+name, 0, 1000))
		}
		var saved []int
		for _, name := range []string{"without-bridge", "one-fpga-least", "one-fpga-most"} {
			saved = append(saved, p.Int(name, 0, 100))
		}
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		s := env.Sim()
		w := &word{
			s:         s,
			cycles:    cycles,
			cycleTime: cycle,
			trace:     env.Trace,
			track:     env.Trace.Track("one remote write"),
		}
		s.ScheduleAt(0, w, 0, 0)
		s.Run(ctx, env.Limits(0))
		all := int(s.Now() / cycle)
		out := study.Outcome{Events: s.Executed()}
		out.Add("cycles", study.Q(float64(all), study.Count))
		out.Add("latency", study.Q(s.Now().Seconds(), study.Time))
		out.Add("latency-cpu-to-cpu", study.Q((s.Now()+software).Seconds(), study.Time))
		for i, name := range bridgeStages {
			out.Add("stage-"+name, study.Q(float64(cycles[i]), study.Count))
		}
		bridge := cycles[slices.Index(bridgeStages, "A")] + cycles[slices.Index(bridgeStages, "I")]
		out.Add("bridge-chip", study.Q(float64(bridge), study.Count))
		for i, name := range []string{"without-bridge", "one-fpga-least", "one-fpga-most"} {
			out.Add(name, study.Q(float64(all-saved[i]), study.Count))
		}
		return out, nil
	},
}

// word is the write on its way: an event at the beginning of each stage.
type word struct {
	s         *sim.Sim
	cycles    []int
	cycleTime sim.Time
	trace     *sim.Trace
	track     sim.Track
}

// Handle begins a stage.
func (w *word) Handle(stage, _ int64) {
	if int(stage) == len(w.cycles) {
		return
	}
	d := sim.Time(w.cycles[stage]) * w.cycleTime
	w.trace.Span(w.track, strings.Join(strings.Split(bridgeStages[stage], ""), "+"), w.s.Now(), w.s.Now()+d, 0)
	w.s.ScheduleAfter(d, w, stage+1, 0)
}

// bridgeStream writes blocks: packets of 64 bytes in sequence, through the sender's longest stage, the latency, the
// receiver's buffers and the receiver's longest stage.
var bridgeStream = study.Model{
	Name: "bridge-stream",
	Help: "Blocks written through the bridge of SCI-bridge §IV.B: bandwidth against size.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		g := bridge{
			cycle:       p.Time("cycle"),
			latency:     sim.Time(p.Int("latency-cycles", 1, 10_000)),
			fixed:       p.Time("software"),
			packetBytes: p.Size("packet", 1, 4096),
			buffers:     p.Int("receiver-buffers", 1, 1<<16),
			inFlight:    p.Int("outstanding", 1, 1<<16),
		}
		g.senderCycles, g.receiverCycles = p.Number("sender-cycles"), p.Number("receiver-cycles")
		sizes := p.Sizes("blocks", 8, 64<<20)
		if g.cycle <= 0 || !(g.senderCycles > 0) || !(g.receiverCycles > 0) {
			p.AddError("cycle", "the cycle and the longest stages must be above 0")
		}
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		return g.sweep(ctx, sizes, env), nil
	},
}

// bridge has the parameters of bridgeStream. Times of stages are in cycles.
type bridge struct {
	cycle, latency, fixed          sim.Time
	senderCycles, receiverCycles   float64
	packetBytes, buffers, inFlight int
}

// sweep writes each size, one way and ping-pong.
func (g bridge) sweep(ctx context.Context, sizes []int, env study.Env) study.Outcome {
	out := study.Outcome{}
	plot := study.Plot{
		Name: "bandwidth",
		X:    "block (B)",
		Y:    "MiB/s",
		LogX: true,
	}
	oneWay, back := study.Curve{Name: "write-only"}, study.Curve{Name: "ping-pong"}
	var best, bestPong, last float64
	held, flying := 0, 0
	for _, size := range sizes {
		run := g.writeBlock(ctx, size, env)
		out.Events += run.s.Executed()
		// The sender's clock stops when the last packet has left its host; a ping-pong waits for the data to arrive.
		w := float64(size) / run.lastSent.Seconds()
		pp := float64(size) / (run.lastArrived + g.fixed).Seconds()
		oneWay.Points = append(oneWay.Points, [2]float64{float64(size), w / (1 << 20)})
		back.Points = append(back.Points, [2]float64{float64(size), pp / (1 << 20)})
		best, bestPong, last = max(best, w), max(bestPong, pp), w
		held, flying = max(held, run.maxHeld), max(flying, run.maxFlying)
	}
	out.Add("most-held", study.Q(float64(held), study.Count))
	out.Add("most-in-flight", study.Q(float64(flying), study.Count))
	plot.Curves = []study.Curve{oneWay, back}
	out.Plots = []study.Plot{plot}
	out.Add("bound", study.Q(float64(g.packetBytes)/(max(g.senderCycles, g.receiverCycles)*g.cycle.Seconds()),
		study.Bandwidth))
	out.Add("best-write-only", study.Q(best, study.Bandwidth))
	out.Add("best-ping-pong", study.Q(bestPong, study.Bandwidth))
	out.Add("endless-write-only", study.Q(last, study.Bandwidth))
	return out
}

// blockTransfer is one block on its way.
type blockTransfer struct {
	s                     *sim.Sim
	g                     bridge
	lastSent, lastArrived sim.Time // when the last packet left the sending host, and was in the other's memory
	packetsToSend         int
	packetsFlying         int // sent, but not yet in a buffer of the receiver
	packetsHeld           int // in buffers of the receiver
	sending               bool
	maxHeld               int
	maxFlying             int
	packetTimes           sim.Histogram              // of a packet, from the sender's buffer into memory
	packetStarts          *component.Queue[sim.Time] // of the packets under way, in order

	trace                      *sim.Trace // nil without a trace
	senderTrack, receiverTrack sim.Track
}

type (
	packetSent     blockTransfer // the sender's longest stage is done with a packet
	packetBuffered blockTransfer // a packet is in a buffer of the receiver
	packetPlaced   blockTransfer // the receiver's longest stage is done with a packet
)

func (g bridge) writeBlock(ctx context.Context, size int, env study.Env) *blockTransfer {
	r := &blockTransfer{
		s:             env.Sim(),
		g:             g,
		packetsToSend: (size + g.packetBytes - 1) / g.packetBytes,
	}
	r.packetStarts = component.NewQueue[sim.Time](r.s, 0)
	if r.s.InstrumentsEnabled() {
		r.instrument(fmt.Sprintf(", block of %d B", size))
	}
	r.send()
	r.s.Run(ctx, env.Limits(0))
	return r
}

// instrument watches the packets of a block, and makes tracks for its stages.
func (r *blockTransfer) instrument(nameSuffix string) {
	r.s.AddHistogram("from the sender's buffer until a packet is in memory"+nameSuffix, &r.packetTimes)
	r.s.Watch("packets on the way"+nameSuffix, sim.Microsecond, func() int64 { return int64(r.packetsFlying) })
	r.s.Watch("packets in the receiver's buffers"+nameSuffix, sim.Microsecond,
		func() int64 { return int64(r.packetsHeld) })
	if r.trace = r.s.Trace(); r.trace != nil {
		r.senderTrack, r.receiverTrack = r.trace.Track("sender"+nameSuffix), r.trace.Track("receiver"+nameSuffix)
	}
}

// scheduleStageEnd schedules a handler for the end of the longest stage of the sender or the receiver.
func (r *blockTransfer) scheduleStageEnd(on sim.Track, cycles float64, then sim.Handler) {
	d := r.cycles(cycles)
	if r.trace != nil {
		r.trace.Span(on, "packet", r.s.Now(), r.s.Now()+d, 0)
	}
	r.s.ScheduleAfter(d, then, 0, 0)
}

// cycles is the time of n cycles.
func (r *blockTransfer) cycles(n float64) sim.Time { return sim.Time(n * float64(r.g.cycle)) }

// send sends the next packet if the receiver has a buffer for it. The real sender sends a refused packet again, which
// takes the link; the model has the sender wait instead.
func (r *blockTransfer) send() {
	if r.sending || r.packetsToSend == 0 || r.packetsFlying+r.packetsHeld >= r.g.buffers ||
		r.packetsFlying >= r.g.inFlight {
		return
	}
	r.sending = true
	r.packetsToSend--
	r.packetStarts.Put(r.s.Now())
	r.packetsFlying++
	r.maxFlying = max(r.maxFlying, r.packetsFlying)
	r.scheduleStageEnd(r.senderTrack, r.g.senderCycles, (*packetSent)(r))
}

func (r *packetSent) Handle(_, _ int64) {
	m := (*blockTransfer)(r)
	m.sending = false
	if m.packetsToSend == 0 {
		m.lastSent = m.s.Now()
	}
	m.s.ScheduleAfter(m.g.latency*m.g.cycle-m.cycles(m.g.senderCycles), (*packetBuffered)(r), 0, 0)
	m.send()
}

func (r *packetBuffered) Handle(_, _ int64) {
	m := (*blockTransfer)(r)
	m.packetsFlying--
	if m.packetsHeld++; m.packetsHeld == 1 {
		m.scheduleStageEnd(m.receiverTrack, m.g.receiverCycles, (*packetPlaced)(r))
	}
	m.maxHeld = max(m.maxHeld, m.packetsHeld)
	m.send()
}

func (r *packetPlaced) Handle(_, _ int64) {
	m := (*blockTransfer)(r)
	m.lastArrived = m.s.Now()
	m.packetTimes.Add(int64(m.lastArrived - m.packetStarts.Get()))
	if m.packetsHeld--; m.packetsHeld > 0 {
		m.scheduleStageEnd(m.receiverTrack, m.g.receiverCycles, r)
	}
	m.send()
}
