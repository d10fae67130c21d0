package builder

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"ringlet/barrier"
	"ringlet/lab/topology"
	"ringlet/readoutunit"
	"ringlet/sim"
	"ringlet/sim/component"
	"ringlet/tagnet"
)

// Config is one run.
type Config struct {
	Discipline *readoutunit.Discipline
	Barrier    barrier.Kind
	Seats      readoutunit.Seats // of the shift
	RUs, BUs   []int             // the host of each unit
	Slots      int               // of a builder unit
	LookAhead  int               // cycles that are issued and not complete; 0: as the scheduler has it
	Packing    int
	Ahead      int // rounds that a readout unit reads ahead of the one that it sends; 0: the caller tells, by ReportRead
	Window     int // parts that a builder unit asks for at a time, with pull
	Writes     int // without an acknowledgement that a readout unit may have; 0: no limit

	Hosts         int
	Topology      *topology.Topology   // host i is its node i; nil: one switch
	Port          component.PortConfig // of a host, of the switch to it, and of each link between switches
	Card          bool                 // what a host sends to itself passes through its card; else it stays in memory
	InFlightLimit int64                // bytes that may be on their way to a host; 0: no limit

	Segment int                  // bytes of data that move at a time
	Wire    func(data int) int32 // so many bytes with their headers

	Flight  sim.Time // of a message, besides the work at its ends
	Windows sim.Time // from the tokens to the windows; 0: windows are pre-granted
	Ack     sim.Time // from a part's end to its readout unit

	Warm, Count int // cycles that are left out, and that are counted; without Count the caller ends the run
	Trace       *sim.Trace
}

// Message is a kind of message, or another thing that a processor is asked for.
type Message uint8

// The kinds. Leave is no message: who leaves a barrier waits until the processor is free.
const (
	Signal Message = iota // of a barrier, at each of its ends
	Leave
	Request // of a builder unit for a part, and a tag that is passed on
)

// Model is what a run takes of its hosts. All times are absolute: when it is done that begins now.
type Model interface {
	Size(ru int, mep uint64) int                            // bytes of a readout unit's part; asked once for each
	Prepare(ru int) sim.Time                                // a write
	Send(ru, bu, bytes int) sim.Time                        // a segment, before it goes
	Receive(ru, bu, bytes int, last bool) sim.Time          // a segment that has come, maybe the last of its part
	Message(host int, of Message) sim.Time                  // at one of its ends
	ResentBytes(waited sim.Time, bytes int, sz int32) int64 // bytes that are sent once more, of a segment that waited
	Built(bu int, f tagnet.Feedback)                        // a MEP is whole
}

// World is one run.
type World struct {
	c     Config
	s     *sim.Sim
	model Model
	hosts []*host
	links []*component.Port // between switches, by the topology's number
	pool  component.Pool
	rus   []*ru
	bus   []*bu

	tagnet          *tagnet.Core
	batches         inFlight[*tagnet.Batch]
	barrierMessages inFlight[barrier.Message]
	requests        inFlight[tagnet.Token]
	tagsInRing      inFlight[tagnet.Tag]
	issued          map[uint64]sim.Time // MEPs without an outcome: when their token went out

	sent, placed uint64 // bytes of data
	parts        uint64 // placed whole
	err          error
	ending       bool // nobody begins anything any more

	partArrived func(from *ru, place int64, to *bu) // a whole part is at its builder unit
	places      []uint64                            // scratch
	tags        []tagnet.Tag                        // scratch
	route       []int                               // scratch

	// What a run came to. Only Latency and Barriers are of the counted cycles alone, as the caller may read them.
	From, To Snapshot
	Messages uint64        // of the barrier
	Latency  sim.Histogram // from a MEP's token to its outcome, once counting has begun
	Barriers sim.Histogram // from entering to leaving
}

// Snapshot is how far a run was at a time.
type Snapshot struct {
	At     sim.Time
	Parts  uint64
	Placed uint64
	Spent  [NumActivities]sim.Time // by all readout units
}

// inFlight is what is on its way: an event carries its place.
type inFlight[T any] struct {
	things []T
	free   []int64
}

// store gives a thing a place.
func (m *inFlight[T]) store(x T) int64 {
	if n := len(m.free); n > 0 {
		at := m.free[n-1]
		m.free = m.free[:n-1]
		m.things[at] = x
		return at
	}
	m.things = append(m.things, x)
	return int64(len(m.things) - 1)
}

// remove takes a thing from its place.
func (m *inFlight[T]) remove(at int64) T {
	m.free = append(m.free, at)
	return m.things[at]
}

// recordError keeps the first error of a core: the model has broken its rules.
func (w *World) recordError(err error) {
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("the model broke a rule of the product at %v: %w", w.s.Now(), err)
		w.s.Stop()
	}
}

// New makes the network, the scheduler and the units.
func New(s *sim.Sim, c *Config, m Model) (*World, error) {
	w := &World{
		c:      *c,
		s:      s,
		model:  m,
		issued: map[uint64]sim.Time{},
	}
	w.partArrived = w.completePart
	w.network()
	if s.Observed() {
		w.watch()
	}
	d := c.Discipline
	cfg := tagnet.Config{
		Slots:     c.Slots,
		LookAhead: c.LookAhead,
		Packing:   c.Packing,
		TagRing:   d.Tags,
		Bypass:    d.Bypass,
	}
	for i, on := range c.RUs {
		cfg.RUs = append(cfg.RUs, "ru"+strconv.Itoa(i))
		r := &ru{
			w:     w,
			index: i,
			host:  w.hosts[on],
			track: c.Trace.Track("node " + strconv.Itoa(i)),
			sizes: map[uint64]int{},
			order: d.Open(readoutunit.DisciplineConfig{
				RU:          i,
				BUs:         len(c.BUs),
				Slots:       c.Slots,
				Seats:       c.Seats,
				Fence:       c.Barrier != barrier.None, // a barrier that holds nothing needs none
				RoundCycles: 1,
			}),
		}
		r.tagRing, _ = r.order.(readoutunit.TagOrder)
		if err := r.joinBarrier(c.Barrier, len(c.RUs)); err != nil {
			return nil, err
		}
		r.host.rus = append(r.host.rus, r)
		w.rus = append(w.rus, r)
	}
	for j, on := range c.BUs {
		cfg.BUs = append(cfg.BUs, "bu"+strconv.Itoa(j))
		w.bus = append(w.bus, &bu{
			w:             w,
			index:         j,
			host:          w.hosts[on],
			partsReceived: make([]int, c.Slots),
		})
	}
	var err error
	w.tagnet, err = tagnet.NewCore(cfg)
	return w, err
}

// watchEvery is at first between two points of a curve.
const watchEvery = 10 * sim.Microsecond

// watch counts what waits, of all ports of a kind together.
func (w *World) watch() {
	each := func(name string, ports func(yield func(*component.Port))) {
		w.s.Watch(name, watchEvery, func() (sum int64) {
			ports(func(p *component.Port) { sum += p.Held.Value() })
			return sum
		})
	}
	each("bytes in cards", func(yield func(*component.Port)) {
		for _, h := range w.hosts {
			yield(h.out)
		}
	})
	each("bytes in ports to hosts", func(yield func(*component.Port)) {
		for _, h := range w.hosts {
			yield(h.in)
		}
	})
	each("bytes in ports between switches", func(yield func(*component.Port)) {
		for _, p := range w.links {
			yield(p)
		}
	})
	w.s.Show("from the token of a MEP to its end", &w.Latency)
	w.s.Show("from entering a barrier to leaving it", &w.Barriers)
}

// Play runs it until it has counted enough, or a limit is reached, and says why it ended.
func (w *World) Play(ctx context.Context, l sim.Limits) (sim.End, error) {
	w.tagnet.Start()
	if w.c.Ahead > 0 {
		for _, r := range w.rus {
			w.s.ScheduleAt(0, (*readReported)(r), 0, 0)
		}
	}
	end := w.s.Run(ctx, l)
	if w.c.Count == 0 {
		w.To = w.snapshot()
	}
	return end, w.err
}

// Drain goes on until nothing moves, while nobody begins anything any more. It says what was lost on the way.
func (w *World) Drain(ctx context.Context) error {
	w.ending = true
	w.s.Run(ctx, sim.Limits{})
	if w.err == nil && w.sent != w.placed {
		w.err = fmt.Errorf("%d bytes were sent, and %d are placed", w.sent, w.placed)
	}
	ports := slices.Clone(w.links)
	for _, h := range w.hosts {
		ports = append(ports, h.out, h.in)
	}
	for i, p := range ports {
		if p.Held.Value() != 0 && w.err == nil {
			w.err = fmt.Errorf("port %d still holds %d bytes", i, p.Held.Value())
		}
	}
	return w.err
}

// ReportRead tells the scheduler that all readout units have read so many MEPs.
func (w *World) ReportRead(meps uint64) {
	for i := range w.rus {
		w.recordError(w.tagnet.ApplyUpdate(i, w.readUpdate(meps)))
	}
	w.issue()
}

func (w *World) readUpdate(meps uint64) tagnet.Update {
	return tagnet.Update{Read: meps, Events: meps * uint64(w.c.Packing)}
}

// reportRead tells the scheduler how far a readout unit has read: so many rounds ahead.
func (w *World) reportRead(r *ru) {
	if w.c.Ahead > 0 {
		w.s.ScheduleAfter(w.c.Flight, (*readReported)(r), int64(r.cycles), 0)
	}
}

type readReported ru

// Handle: the scheduler knows how far the readout unit has read.
func (e *readReported) Handle(cycles, _ int64) {
	r := (*ru)(e)
	w := r.w
	w.recordError(w.tagnet.ApplyUpdate(r.index, w.readUpdate(uint64(cycles+int64(w.c.Ahead))*uint64(w.tagnet.Places()))))
	w.issue()
}

// issue sends the tokens that may go to all readout units.
func (w *World) issue() {
	b := &tagnet.Batch{}
	b.Reset(w.tagnet.NextCycle(), w.tagnet.Places())
	if w.tagnet.Issue(b) == 0 {
		return
	}
	for _, mep := range b.MEPs {
		if mep != tagnet.NoMEP {
			w.issued[mep] = w.s.Now()
		}
	}
	w.s.ScheduleAfter(w.c.Flight, (*tokensArrived)(w), w.batches.store(b), 0)
	w.launchTags()
}

type tokensArrived World

// Handle: tokens are at all readout units, which read the MEPs and announce their sizes.
func (e *tokensArrived) Handle(at, _ int64) {
	w := (*World)(e)
	b := w.batches.things[at]
	for _, r := range w.rus {
		for i := range b.Len() {
			w.recordError(r.order.AddCycle(b, i))
		}
		for _, mep := range b.MEPs {
			if mep != tagnet.NoMEP {
				r.sizes[mep] = w.model.Size(r.index, mep)
			}
		}
	}
	if w.c.Windows == 0 {
		(*windowsArrived)(w).Handle(at, 0)
		return
	}
	w.s.ScheduleAfter(w.c.Windows, (*windowsArrived)(w), at, 0)
}

type windowsArrived World

// Handle: the builder units have had all sizes, and their windows are at the readout units: all of them, or those that
// they ask for at first.
func (e *windowsArrived) Handle(at, _ int64) {
	w := (*World)(e)
	b := w.batches.remove(at)
	for i := range b.Len() {
		for p := range b.Places {
			t, ok := b.Token(i, p)
			switch {
			case !ok:
			case w.c.Discipline.Pull:
				w.bus[p].addRequest(t)
			default:
				for _, r := range w.rus {
					r.grant(&t)
				}
			}
		}
	}
	for _, r := range w.rus {
		r.step()
		r.forward()
	}
}

// Feedback tells the scheduler the outcome of a MEP.
func (w *World) Feedback(bu int, f tagnet.Feedback) {
	if w.From.At > 0 || w.c.Warm == 0 {
		w.Latency.Add(int64(w.s.Now() - w.issued[f.MEP]))
	}
	delete(w.issued, f.MEP)
	w.recordError(w.tagnet.ApplyFeedback(bu, f))
	w.issue()
}

// countPart ends the run when it has counted enough: parts of so many cycles. MEPs come to their ends by many at once.
func (w *World) countPart() {
	if w.c.Count == 0 {
		return
	}
	n := uint64(len(w.rus))
	switch w.parts {
	case n * uint64(w.c.Warm):
		w.From = w.snapshot()
	case n * uint64(w.c.Warm+w.c.Count):
		w.To = w.snapshot()
		w.s.Stop()
	}
}

// snapshot says how far the run is.
func (w *World) snapshot() Snapshot {
	m := Snapshot{At: w.s.Now(), Parts: w.parts, Placed: w.placed}
	for _, r := range w.rus {
		r.setActivity(r.activity)
		for d, t := range r.spent {
			m.Spent[d] += t
		}
	}
	return m
}
