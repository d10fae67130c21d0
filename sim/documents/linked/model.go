package linked

import (
	"context"
	"fmt"

	"ringlet/sim"
	"ringlet/sim/study"
	"ringlet/transport/link"
)

// Models are those of this package.
func Models() []study.Model { return []study.Model{lossModel} }

// lossModel asks what losses cost a link.
var lossModel = study.Model{
	Name: "link-loss",
	Help: "Two link cores of the product; one writes blocks into the other's memory over a path that loses datagrams.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		c := config{
			size:     p.Size("write", 8, exportedBytes/2),
			writes:   p.Int("writes", 1, 10_000_000),
			datagram: p.Size("datagram", 256, 65_000),
			credit:   p.Int("credit", 8, 4096),
			delay:    p.Time("delay"),
		}
		rate := p.Quantity("rate", study.Bandwidth)
		shares := p.Quantities("losses", study.Count)
		if !(rate >= 1e3 && rate <= 1e12) {
			p.AddError("rate", "a path carries 1 kB/s to 1 TB/s")
		}
		for _, share := range shares {
			if !(share >= 0 && share <= 0.5) {
				p.AddError("losses", "%v is not between 0 and 50 %%", share)
			}
		}
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		c.perByte = sim.Time(float64(sim.Second)/rate + 0.5)
		out := study.Outcome{}
		curve := study.Curve{Name: "goodput"}
		for _, share := range shares {
			r, err := c.run(ctx, share, env)
			if err != nil {
				return out, err
			}
			at := fmt.Sprintf("-%g%%", share*100)
			out.Add("goodput"+at, study.Q(r.goodput, study.Bandwidth))
			out.Add("goodput-of-rate"+at, study.Share(r.goodput/rate))
			out.Add("sent-again"+at, study.Share(r.resent))
			out.Add("lost"+at, study.Share(r.lost))
			out.Events += r.events
			curve.Points = append(curve.Points, [2]float64{share * 100, r.goodput / 1e6})
			if !r.complete {
				out.Notes = append(out.Notes,
					fmt.Sprintf("interrupted with %g %% lost: its results are of what was written until then", share*100))
				break
			}
		}
		out.Plots = []study.Plot{{
			Name:   "goodput",
			X:      "datagrams lost, %",
			Y:      "MB/s",
			Curves: []study.Curve{curve},
		}}
		return out, nil
	},
}

// config of a run.
type config struct {
	size, writes, datagram, credit int
	perByte, delay                 sim.Time
}

// result of a run.
type result struct {
	goodput, resent, lost float64
	events                uint64
	complete              bool
}

// run writes with a share of all datagrams lost, in both directions.
func (c *config) run(ctx context.Context, share float64, env study.Env) (result, error) {
	s := env.Sim()
	p, err := newPair(s, link.Config{
		MaxDatagram:       c.datagram,
		Credit:            c.credit,
		SeqWindow:         link.SeqWindowFor(c.credit),
		PadDatagrams:      true,
		CongestionControl: true,
		PiggybackAcks:     true,
		AckEvery:          max(1, c.credit/6), // as transport has it
	}, c.paths(s, share))
	if err != nil {
		return result{}, err
	}
	w := &writer{c: c, p: p, data: make([]byte, c.size)}
	p.onEvents = w.handleEvents
	w.issueWrites()
	p.scheduleTurn()
	limits := env.Limits(0)
	s.Run(ctx, limits)
	if p.coreErr != nil {
		return result{}, p.coreErr
	}
	sent, got := p.ends[0].core.Stats(), p.ends[1].core.Stats()
	return result{
		goodput: float64(got.BytesPlaced) / s.Now().Seconds(),
		resent:  float64(sent.ChunksResent) / float64(max(1, sent.ChunksSent)),
		lost: float64(p.paths[0].lostDatagrams+p.paths[1].lostDatagrams) / float64(max(1,
			p.paths[0].sentDatagrams+p.paths[1].sentDatagrams)),
		events:   s.Executed(),
		complete: w.done == c.writes,
	}, nil
}

// paths lose a share of all datagrams.
func (c *config) paths(s *sim.Sim, share float64) (paths [2]path) {
	for e := range paths {
		rng := s.RandomStream(fmt.Sprint("losses of ", e))
		paths[e] = path{
			perByte: c.perByte,
			delay:   c.delay,
			drops:   func([]byte) bool { return rng.Float64() < share },
		}
	}
	return paths
}

// writer is the program at end 0, which writes blocks one behind the other until all are written.
type writer struct {
	c            *config
	p            *pair
	data         []byte
	issued, done int
}

// issueWrites gives the link as many writes as there are windows for.
func (w *writer) issueWrites() {
	windows := exportedBytes / w.c.size
	for w.issued < w.c.writes && w.issued-w.done < windows {
		ok := w.p.ends[0].core.Write(link.Write{
			Ref:    w.p.ends[0].peerMemory,
			Offset: uint32(w.issued % windows * w.c.size),
			Data:   w.data,
			Cookie: uint64(w.issued),
		})
		if !ok {
			return
		}
		w.issued++
	}
}

// handleEvents takes what an end has told.
func (w *writer) handleEvents(e int, events []link.Event) {
	if e != 0 {
		return
	}
	for i := range events {
		if events[i].Kind == link.EventCompleted {
			if w.done++; w.done == w.c.writes {
				w.p.s.Stop()
			}
		}
	}
	w.issueWrites()
	w.p.scheduleTurn()
}
