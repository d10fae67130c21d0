package model

import (
	"context"

	"ringlet/sim"
	"ringlet/sim/component"
	"ringlet/sim/study"
)

// crossbarModel sends flows through the switch of NIC-crossbar: 8 × 8 with a buffer at each crossing.
var crossbarModel = study.Model{
	Name: "crossbar",
	Help: "Flows through the buffered crossbar of NIC-crossbar: one way, to itself, several to one.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		word := p.Time("cycle")
		cfg := component.CrossbarConfig{
			Ports:           p.Int("ports", 2, 64),
			CrossPointBytes: int32(p.Size("cross-point", 64, 1<<20)),
			PerByte:         word / 4,
			StartBytes:      int32(p.Size("start-of-packet", 0, 64)),
			SwitchGap:       word * sim.Time(p.Int("gap-cycles", 0, 100)),
			Latency:         word * sim.Time(p.Int("latency-cycles", 0, 1000)),
			BytesPerCredit:  int32(p.Size("credit-unit", 4, 4096)),
			CreditSize:      int32(p.Size("credit-size", 2, 64)),
			CreditDelay:     word * sim.Time(p.Int("credit-late-cycles", 0, 1000)),
		}
		payload := p.Size("payload", 8, 4096)
		packet := payload + p.Size("header", 0, 64)
		pattern := p.Word("pattern", "one-way", "to-self", "three-to-one", "all-to-all")
		length := p.Time("length")
		if word <= 0 || length <= 0 || packet > int(cfg.CrossPointBytes) {
			p.AddError("length", "cycle and length must be above 0, and a packet must fit into a cross-point")
		}
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		return playCrossbar(ctx, cfg, pattern, int32(packet), int32(payload), length, env), nil
	},
}

// sender keeps a port busy: it has as many packets queued as its host has ready, to one output or to several in turn.
type sender struct {
	x            *component.Crossbar
	input        int32
	outputs      []int32
	nextOutput   int
	size         int32
	sent         uint64
	received     uint64
	firstLatency sim.Time // from the first packet's begin to its last byte out
	packetTimes  *sim.Histogram
	s            *sim.Sim
}

// hostReady is the number of packets that a host has ready: more than a cross-point holds.
const hostReady = 12

func (f *sender) send() {
	f.sent++
	f.x.Receive(&component.Packet{
		Src:      f.input,
		Dst:      f.outputs[f.nextOutput],
		Size:     f.size,
		Receiver: f,
		ReadyAt:  f.s.Now(),
	})
	f.nextOutput = (f.nextOutput + 1) % len(f.outputs)
}

// Receive takes a packet at the output, and sends another.
func (f *sender) Receive(p *component.Packet) {
	f.packetTimes.Add(int64(f.s.Now() - p.ReadyAt))
	if f.received++; f.received == 1 {
		f.firstLatency = f.s.Now()
	}
	f.send()
}

// senders makes the senders of a pattern.
func senders(s *sim.Sim, x *component.Crossbar, pattern string, size int32) []*sender {
	var all []*sender
	took := &sim.Histogram{}
	s.AddHistogram("from the host's queue until a packet has left the switch", took)
	add := func(from int32, to ...int32) {
		all = append(all, &sender{
			x:           x,
			input:       from,
			outputs:     to,
			size:        size,
			packetTimes: took,
			s:           s,
		})
	}
	switch pattern {
	case "one-way":
		add(0, 1)
	case "to-self":
		add(0, 0)
	case "three-to-one":
		for from := range int32(3) {
			add(from, 3)
		}
	default: // four senders, each to every output in use, its own included
		for from := range int32(4) {
			add(from, 0, 1, 2, 3)
		}
	}
	return all
}

func playCrossbar(ctx context.Context, cfg component.CrossbarConfig, pattern string, size, payload int32,
	length sim.Time, env study.Env) study.Outcome {
	s := env.Sim()
	x := component.NewCrossbar(s, cfg)
	all := senders(s, x, pattern, size)
	for range hostReady {
		for _, f := range all {
			f.send()
		}
	}
	s.Run(ctx, env.Limits(length))
	out := study.Outcome{Events: s.Executed()}
	var sum, least, most float64
	var waited sim.Time
	var peak int64
	lost := -float64(len(all) * hostReady) // packets on their way are not lost
	for i, f := range all {
		rate := sim.PerSecond(f.received*uint64(payload), s.Now())
		if sum += rate; i == 0 || rate < least {
			least = rate
		}
		most = max(most, rate)
		waited += x.CreditWait(int(f.input))
		lost += float64(f.sent - f.received)
		for _, to := range f.outputs {
			peak = max(peak, x.PeakBytes(int(f.input), int(to)))
		}
	}
	out.Add("throughput", study.Q(sum, study.Bandwidth))
	out.Add("least-of-a-sender", study.Q(least, study.Bandwidth))
	out.Add("most-of-a-sender", study.Q(most, study.Bandwidth))
	out.Add("waited-for-credits", study.Q(waited.Seconds(), study.Time))
	out.Add("fullest-cross-point", study.Q(float64(peak), study.Bytes))
	out.Add("lost", study.Q(lost, study.Count))
	wire := sim.Time(cfg.StartBytes+size) * cfg.PerByte
	out.Add("through-in-cycles", study.Q(float64((all[0].firstLatency-wire)/(cfg.PerByte*4)), study.Count))
	return out
}

// creditRoundTrip adds up the times of a credit's round trip, as NIC-crossbar §3.1.6.2 does.
var creditRoundTrip = study.Model{
	Name: "credit-round-trip",
	Help: "From the start of a packet to the credit for it, on the links of NIC-crossbar.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		word := p.Time("cycle")
		size, share := p.Size("packet", 4, 1<<16), p.Int("delivery-begins-after-one-of", 1, 100)
		var stages []sim.Time
		for _, name := range []string{"transceivers", "credit-granularity", "to-the-bus", "rest"} {
			stages = append(stages, word*sim.Time(p.Int(name, 0, 1000)))
		}
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		stages = append(stages, word*sim.Time(size/4/share))
		s := env.Sim()
		var step sim.Func
		step = func(i, _ int64) {
			if i < int64(len(stages)) {
				s.ScheduleAfter(stages[i], step, i+1, 0)
			}
		}
		s.ScheduleAt(0, step, 0, 0)
		s.Run(ctx, env.Limits(0))
		out := study.Outcome{Events: s.Executed()}
		out.Add("cycles", study.Q(float64(s.Now()/max(word, 1)), study.Count))
		out.Add("round-trip", study.Q(s.Now().Seconds(), study.Time))
		return out, nil
	},
}

// The counters of NIC-crossbar §3.3.1 have 12 bits; a credit carries the upper 7.
const (
	counterBits = 12
	droppedBits = 5
)

// cumulativeCredits simulates a link with cumulative credits, many of which are lost or damaged.
var cumulativeCredits = study.Model{
	Name: "cumulative-credits",
	Help: "Credits that count all that was ever taken, some of them lost or damaged (NIC-crossbar).",
	Run: func(_ context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		buffer := p.Int("buffer-words", 64, 1<<(counterBits-1))
		packet := p.Int("packet-words", 1, 1<<droppedBits*4)
		words := p.Int("words", 1, 1<<30)
		lost, damaged := p.Number("credits-lost"), p.Number("credits-damaged")
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		l := creditLink{
			rng:    sim.New(env.Seed).RandomStream("credits"),
			buffer: buffer,
			packet: packet,
		}
		for l.sent < words && l.stalledSteps < maxStall {
			l.step(lost, damaged)
		}
		out := study.Outcome{Events: uint64(l.steps)}
		out.Add("words-sent", study.Q(float64(l.sent), study.Count))
		out.Add("words-given", study.Q(float64(words), study.Count))
		out.Add("most-held", study.Q(float64(l.maxHeld), study.Count))
		out.Add("buffer", study.Q(float64(buffer), study.Count))
		out.Add("credits-lost", study.Q(float64(l.lostCredits), study.Count))
		return out, nil
	},
}

// maxStall is the number of steps without a word sent after which the link counts as stalled.
const maxStall = 100_000

// creditLink is a sender, and a receiver with a buffer.
type creditLink struct {
	rng                 *sim.RandomStream
	buffer, packet      int
	sent, consumed      int // words since power-up
	ackedConsumed       int // consumed, as far as the sender knows: the counter's upper bits, unwrapped
	held, maxHeld       int
	stalledSteps, steps int
	lostCredits         int
}

// step sends a packet if the sender sees space, consumes some words at the receiver, and sends a credit.
func (l *creditLink) step(lost, damaged float64) {
	l.steps++
	l.stalledSteps++
	if l.sent-l.ackedConsumed+l.packet <= l.buffer {
		l.sent += l.packet
		l.held += l.packet
		l.maxHeld = max(l.maxHeld, l.held)
		l.stalledSteps = 0
	}
	n := min(l.held, l.rng.IntN(2*l.packet))
	l.held -= n
	l.consumed += n
	if u := l.rng.Float64(); u < lost+damaged { // wrong parity counts as a lost credit (NIC-crossbar §3.3.1)
		l.lostCredits++
		return
	}
	value := l.consumed >> droppedBits & (1<<(counterBits-droppedBits) - 1)
	l.ackedConsumed += (value<<droppedBits - l.ackedConsumed) & (1<<counterBits - 1)
}
