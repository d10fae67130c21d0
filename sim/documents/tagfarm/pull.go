package tagfarm

import (
	"context"
	"fmt"

	"ringlet/sim"
	"ringlet/sim/component"
	"ringlet/sim/study"
)

// unshapedSwitch is the first stage of the CMS builder (TagNet-farm §II.G): a switch with as many inputs as outputs.
// Every input has a fragment of each event; all fragments of an event go to one output, those of the next event to the
// next output. The traffic is not shaped: an input sends its fragments in order, and waits while the output is busy.
type unshapedSwitch struct {
	s                *sim.Sim
	rng              *sim.RandomStream
	meanBytes        float64 // mean size of a fragment
	sizeDistribution string
	rate             float64 // bytes per second of a port
	inputs           []*input
	outputs          []*component.Bus
	bytesMoved       float64
}

// input is an input of the switch, as a client of the output of its next fragment.
type input struct {
	u         *unshapedSwitch
	nextEvent int     // of the next fragment
	nextSize  float64 // bytes of that fragment
	busy      bool
}

func newUnshaped(s *sim.Sim, ports int, mean, rate float64, spread string) *unshapedSwitch {
	u := &unshapedSwitch{
		s:                s,
		rng:              s.RandomStream("sizes"),
		meanBytes:        mean,
		sizeDistribution: spread,
		rate:             rate,
	}
	for range ports {
		u.outputs = append(u.outputs, component.NewBus(s, 0))
		n := &input{u: u}
		n.drawNextSize()
		u.inputs = append(u.inputs, n)
	}
	for o, b := range u.outputs {
		for _, n := range u.inputs {
			b.Attach(&inputToOutput{n, o})
		}
	}
	if s.InstrumentsEnabled() {
		u.instrument()
	}
	return u
}

// instrument counts idle inputs, and draws the transfers on the outputs.
func (u *unshapedSwitch) instrument() {
	u.s.Watch("inputs that wait for their output, sizes "+u.sizeDistribution, sim.Microsecond, func() (n int64) {
		for _, in := range u.inputs {
			if !in.busy {
				n++
			}
		}
		return n
	})
	for o, b := range u.outputs {
		b.TraceTransfers(fmt.Sprintf("output %d", o), func(component.Client) string { return "fragment" })
	}
}

// drawNextSize draws the size of the next fragment.
func (n *input) drawNextSize() {
	n.nextSize = n.u.meanBytes
	if n.u.sizeDistribution == "exponential" {
		n.nextSize *= n.u.rng.ExpFloat64()
	}
}

// inputToOutput is an input as a client of one output.
type inputToOutput struct {
	*input
	output int
}

func (t *inputToOutput) Offer() (sim.Time, bool) {
	if t.busy || t.nextEvent%len(t.u.outputs) != t.output {
		return 0, false
	}
	return sim.Time(t.nextSize / t.u.rate * float64(sim.Second)), true
}

func (t *inputToOutput) Begin() { t.busy = true }

func (t *inputToOutput) End() {
	t.u.bytesMoved += t.nextSize
	t.busy = false
	t.nextEvent++
	t.drawNextSize()
	if next := t.nextEvent % len(t.u.outputs); next != t.output {
		t.u.outputs[next].Kick()
	}
}

// utilization is the share of the ports' bandwidth that carries data if inputs always have more.
func (u *unshapedSwitch) utilization(ctx context.Context, env study.Env, until sim.Time, out *study.Outcome) float64 {
	for _, b := range u.outputs {
		u.s.ScheduleAt(0, sim.Func(func(int64, int64) { b.Kick() }), 0, 0)
	}
	u.s.Run(ctx, env.Limits(until))
	out.Events += u.s.Executed()
	return u.bytesMoved / (u.rate * float64(len(u.outputs)) * u.s.Now().Seconds())
}

var switchUnshaped = study.Model{
	Name: "switch-unshaped",
	Help: "A switch through which events are built without traffic shaping: how much of it is used.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		ports := p.Int("ports", 1, 1024)
		mean, rate := p.Quantity("fragment", study.Bytes), p.Quantity("port-rate", study.Bandwidth)
		spreads := p.Words("sizes", "fixed", "exponential")
		until := p.Time("duration")
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		var out study.Outcome
		for _, spread := range spreads {
			use := newUnshaped(env.Sim(), ports, mean, rate, spread).utilization(ctx, env, until, &out)
			out.Add("use-"+spread, study.Share(use))
			out.Add("port-rate-needed-"+spread, study.Q(rate/use, study.Bandwidth))
		}
		return out, nil
	},
}

// pullSystem is the ATLAS builder (TagNet-farm §II.H): a receiver asks one source after the other for a fragment or,
// for comparison, all at once.
type pullSystem struct {
	s            *sim.Sim
	sources      int
	fragment     int
	requestDelay sim.Time // a request, and the head of an answer: each way
	fragmentTime sim.Time // of a fragment on a port
	pushAll      bool

	outputs       []*port // of the sources
	receivers     []*receiver
	waitingEvents *component.Queue[sim.Time] // when events came that have no receiver yet
	period        sim.Time
	until         sim.Time
	built         uint64
	latency       sim.Histogram
	peakFragments int64 // highest number of fragments that waited at a receiver's port
	bytes         uint64
}

// port sends fragments one after the other. A fragment is known by its receiver and the receiver's place.
type port struct {
	system *pullSystem
	queue  *component.Queue[request]
	onSent func(request)
	busy   bool
}

type request struct {
	receiver, place int
}

// receiver builds some events at a time.
type receiver struct {
	places []eventPlace
	port   *port
}

type eventPlace struct {
	busy        bool
	assignedAt  sim.Time
	nextSource  int // next source, counted from firstSource
	firstSource int
	missing     int // fragments that have not come
}

func (o *port) enqueue(r request) {
	o.queue.Put(r)
	o.kick()
}

func (o *port) kick() {
	if o.busy || o.queue.Len() == 0 {
		return
	}
	o.busy = true
	o.system.s.ScheduleAfter(o.system.fragmentTime, o, 0, 0)
}

// Handle: a fragment has been sent.
func (o *port) Handle(int64, int64) {
	o.busy = false
	o.onSent(o.queue.Get())
	o.kick()
}

func newPulled(s *sim.Sim, sources, receivers, places int) *pullSystem {
	p := &pullSystem{s: s, sources: sources, waitingEvents: component.NewQueue[sim.Time](s, 0)}
	for range sources {
		o := &port{system: p, queue: component.NewQueue[request](s, 0)}
		o.onSent = func(r request) {
			s.ScheduleAfter(p.requestDelay, (*fragmentArrived)(p), int64(r.receiver), int64(r.place))
		}
		p.outputs = append(p.outputs, o)
	}
	for range receivers {
		o := &port{system: p, queue: component.NewQueue[request](s, 0), onSent: p.fragmentReceived}
		p.receivers = append(p.receivers, &receiver{places: make([]eventPlace, places), port: o})
	}
	return p
}

type (
	eventArrived    pullSystem // an event comes
	fragmentArrived pullSystem // a fragment is at a receiver's port
	requestArrived  pullSystem // a request is at a source
)

func (a *eventArrived) Handle(n, _ int64) {
	p := (*pullSystem)(a)
	if p.s.Now()+p.period <= p.until {
		p.s.ScheduleAfter(p.period, a, n+1, 0)
	}
	p.waitingEvents.Put(p.s.Now())
	p.assign(int(n))
}

// assign gives the first waiting event to a receiver with a free place, beginning with receiver n.
func (p *pullSystem) assign(n int) {
	for i := range p.receivers {
		r := (n + i) % len(p.receivers)
		for k := range p.receivers[r].places {
			if e := &p.receivers[r].places[k]; !e.busy && p.waitingEvents.Len() > 0 {
				*e = eventPlace{
					busy:        true,
					assignedAt:  p.waitingEvents.Get(),
					firstSource: n % p.sources,
					missing:     p.sources,
				}
				for range p.requestsAhead() {
					p.requestNext(r, k)
				}
				return
			}
		}
	}
}

// requestsAhead is how many fragments a receiver requests before the first has come.
func (p *pullSystem) requestsAhead() int {
	if p.pushAll {
		return p.sources
	}
	return 1
}

// requestNext requests a fragment from the next source.
func (p *pullSystem) requestNext(r, k int) {
	e := &p.receivers[r].places[k]
	source := (e.firstSource + e.nextSource) % p.sources
	e.nextSource++
	p.s.ScheduleAfter(p.requestDelay, (*requestArrived)(p), int64(source), int64(r<<16|k))
}

func (a *requestArrived) Handle(source, who int64) {
	a.outputs[source].enqueue(request{int(who >> 16), int(who & 0xffff)})
}

func (a *fragmentArrived) Handle(r, k int64) {
	o := a.receivers[r].port
	o.enqueue(request{int(r), int(k)})
	a.peakFragments = max(a.peakFragments, int64(o.queue.Len()))
}

// fragmentReceived handles a fragment in the receiver.
func (p *pullSystem) fragmentReceived(q request) {
	e := &p.receivers[q.receiver].places[q.place]
	p.bytes += uint64(p.fragment)
	if e.missing--; e.missing == 0 {
		p.built++
		p.latency.Add(int64(p.s.Now() - e.assignedAt))
		e.busy = false
		p.assign(q.receiver)
		return
	}
	if e.nextSource < p.sources {
		p.requestNext(q.receiver, q.place)
	}
}

var pullBuilder = study.Model{
	Name: "pull-builder",
	Help: "Receivers that ask one source after the other for a fragment, and receivers to which all send at once.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		sources, receivers := p.Int("sources", 1, 1<<16), p.Int("receivers", 1, 1<<12)
		places := p.Int("events-at-a-time", 1, 1024)
		event, rate := p.Quantity("event", study.Bytes), p.Quantity("rate", study.Rate)
		portRate, trip := p.Quantity("port-rate", study.Bandwidth), p.Time("trip")
		until := p.Time("duration")
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		var out study.Outcome
		for _, name := range []string{"pull", "push"} {
			b := newPulled(env.Sim(), sources, receivers, places)
			b.fragment = int(event) / sources
			b.requestDelay, b.fragmentTime = trip, sim.Time(float64(b.fragment)/portRate*float64(sim.Second))
			b.period, b.until, b.pushAll = sim.Period(rate), until, name == "push"
			b.s.AddHistogram("from an event until it is built, "+name, &b.latency)
			b.s.Watch("events without a receiver, "+name, sim.Microsecond, func() int64 { return int64(b.waitingEvents.Len()) })
			b.s.ScheduleAt(0, (*eventArrived)(b), 0, 0)
			var early uint64 // bytes of the first half, in which the builders fill
			b.s.ScheduleAt(until/2, sim.Func(func(int64, int64) { early = b.bytes }), 0, 0)
			b.s.Run(ctx, env.Limits(until))
			out.Events += b.s.Executed()
			out.Add("input-peak-"+name, study.Q(float64(b.peakFragments), study.Count))
			out.Add("rate-"+name, study.Q(sim.PerSecond(b.bytes-early, until-until/2)/event, study.Rate))
			out.Add("latency-"+name, study.Q(b.latency.Mean()/float64(sim.Second), study.Time))
			out.Add("waiting-"+name, study.Q(float64(b.waitingEvents.Len()), study.Count))
			if b.bytes != uint64(b.fragment)*(b.built*uint64(sources)+b.incompleteFragments()) {
				return out, fmt.Errorf("%s: %d bytes came, not the bytes of %d events", name, b.bytes, b.built)
			}
		}
		return out, nil
	},
}

// incompleteFragments counts the fragments received for incomplete events.
func (p *pullSystem) incompleteFragments() (n uint64) {
	for _, r := range p.receivers {
		for _, e := range r.places {
			if e.busy {
				n += uint64(p.sources - e.missing)
			}
		}
	}
	return n
}
