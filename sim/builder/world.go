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
	"ringlet/tagnet/core"
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
	// rounds that a readout unit reads ahead of the one that it sends; 0: the caller tells, by ReportRead
	RoundsAhead      int
	PullWindow       int // parts that a builder unit asks for at a time, with pull
	MaxUnackedWrites int // without an acknowledgement that a readout unit may have; 0: no limit

	Hosts           int
	Topology        *topology.Topology   // host i is its node i; nil: one switch
	Port            component.PortConfig // of a host, of the switch to it, and of each link between switches
	SelfThroughCard bool                 // what a host sends to itself passes through its card; else it stays in memory
	InFlightLimit   int64                // bytes that may be on their way to a host; 0: no limit

	SegmentBytes int                  // bytes of data that move at a time
	WireBytes    func(data int) int32 // so many bytes with their headers

	MessageDelay sim.Time // of a message, besides the work at its ends
	WindowDelay  sim.Time // from the tokens to the windows; 0: windows are pre-granted
	AckDelay     sim.Time // from a part's end to its readout unit

	// cycles that are left out, and that are counted; without Count the caller ends the run
	WarmUpCycles, CountedCycles int
	Trace                       *sim.Trace
}

// MessageKind is a kind of message, or another thing that a processor is asked for.
type MessageKind uint8

// The kinds. Leave is no message: who leaves a barrier waits until the processor is free.
const (
	BarrierSignal MessageKind = iota // of a barrier, at each of its ends
	LeaveBarrier
	PartRequest // of a builder unit for a part, and a tag that is passed on
)

// HostModel is what a run takes of its hosts. All times are absolute: when it is done that begins now.
type HostModel interface {
	PartSize(ru int, mep uint64) int                        // bytes of a readout unit's part; asked once for each
	PrepareDoneAt(ru int) sim.Time                          // a write
	SendDoneAt(ru, bu, bytes int) sim.Time                  // a segment, before it goes
	ReceiveDoneAt(ru, bu, bytes int, last bool) sim.Time    // a segment that has come, maybe the last of its part
	MessageDoneAt(host int, of MessageKind) sim.Time        // at one of its ends
	ResentBytes(waited sim.Time, bytes int, sz int32) int64 // bytes that are sent once more, of a segment that waited
	Built(bu int, f core.Feedback)                          // a MEP is whole
}

// World is one run.
type World struct {
	c           Config
	s           *sim.Sim
	model       HostModel
	hosts       []*host
	switchLinks []*component.Port // between switches, by the topology's number
	pool        component.Pool
	rus         []*ru
	bus         []*bu

	tagnet          *core.Allocator
	batches         inFlight[*core.Batch]
	barrierMessages inFlight[barrier.Message]
	requests        inFlight[core.Token]
	tagsInRing      inFlight[core.Tag]
	tokenSentAt     map[uint64]sim.Time // MEPs without an outcome: when their token went out

	sentBytes, placedBytes uint64 // bytes of data
	placedParts            uint64 // placed whole
	err                    error
	draining               bool // nobody begins anything any more

	onPartPlaced func(from *ru, place int64, to *bu) // a whole part is at its builder unit
	places       []uint64                            // scratch
	tags         []core.Tag                          // scratch
	route        []int                               // scratch

	// What a run came to. Only Latency and Barriers are of the counted cycles alone, as the caller may read them.
	CountedFrom, CountedTo Snapshot
	BarrierMessageCount    uint64        // of the barrier
	BuildLatency           sim.Histogram // from a MEP's token to its outcome, once counting has begun
	BarrierTimes           sim.Histogram // from entering to leaving
}

// Snapshot is how far a run was at a time.
type Snapshot struct {
	At          sim.Time
	PlacedParts uint64
	PlacedBytes uint64
	TimeSpent   [NumActivities]sim.Time // by all readout units
}

// inFlight is what is on its way: an event carries its place.
type inFlight[T any] struct {
	items []T
	free  []int64
}

// store gives a thing a place.
func (m *inFlight[T]) store(x T) int64 {
	if n := len(m.free); n > 0 {
		at := m.free[n-1]
		m.free = m.free[:n-1]
		m.items[at] = x
		return at
	}
	m.items = append(m.items, x)
	return int64(len(m.items) - 1)
}

// remove takes a thing from its place.
func (m *inFlight[T]) remove(at int64) T {
	m.free = append(m.free, at)
	return m.items[at]
}

// recordError keeps the first error of a core: the model has broken its rules.
func (w *World) recordError(err error) {
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("the model broke a rule of the product at %v: %w", w.s.Now(), err)
		w.s.Stop()
	}
}

// New makes the network, the scheduler and the units.
func New(s *sim.Sim, c *Config, m HostModel) (*World, error) {
	w := &World{
		c:           *c,
		s:           s,
		model:       m,
		tokenSentAt: map[uint64]sim.Time{},
	}
	w.onPartPlaced = w.completePart
	w.network()
	if s.InstrumentsEnabled() {
		w.instrument()
	}
	d := c.Discipline
	cfg := core.Config{
		Slots:         c.Slots,
		LookAhead:     c.LookAhead,
		Packing:       c.Packing,
		TagRing:       d.Tags,
		BypassBusyRUs: d.Bypass,
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
				SlotsPerBU:  c.Slots,
				Seats:       c.Seats,
				FencePhases: c.Barrier != barrier.None, // a barrier that holds nothing needs none
				RoundCycles: 1,
			}),
		}
		r.tagRing = r.order.TagOrder()
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
	w.tagnet, err = core.NewAllocator(cfg)
	return w, err
}

// sampleInterval is at first between two points of a curve.
const sampleInterval = 10 * sim.Microsecond

// instrument counts what waits, of all ports of a kind together.
func (w *World) instrument() {
	each := func(name string, ports func(yield func(*component.Port))) {
		w.s.Watch(name, sampleInterval, func() (sum int64) {
			ports(func(p *component.Port) { sum += p.HeldBytes.Value() })
			return sum
		})
	}
	each("bytes in cards", func(yield func(*component.Port)) {
		for _, h := range w.hosts {
			yield(h.cardPort)
		}
	})
	each("bytes in ports to hosts", func(yield func(*component.Port)) {
		for _, h := range w.hosts {
			yield(h.switchPort)
		}
	})
	each("bytes in ports between switches", func(yield func(*component.Port)) {
		for _, p := range w.switchLinks {
			yield(p)
		}
	})
	w.s.AddHistogram("from the token of a MEP to its end", &w.BuildLatency)
	w.s.AddHistogram("from entering a barrier to leaving it", &w.BarrierTimes)
}

// Play runs it until it has counted enough, or a limit is reached, and says why it ended.
func (w *World) Play(ctx context.Context, l sim.Limits) (sim.EndReason, error) {
	w.tagnet.Start()
	if w.c.RoundsAhead > 0 {
		for _, r := range w.rus {
			w.s.ScheduleAt(0, (*readReported)(r), 0, 0)
		}
	}
	end := w.s.Run(ctx, l)
	if w.c.CountedCycles == 0 {
		w.CountedTo = w.snapshot()
	}
	return end, w.err
}

// Drain goes on until nothing moves, while nobody begins anything any more. It says what was lost on the way.
func (w *World) Drain(ctx context.Context) error {
	w.draining = true
	w.s.Run(ctx, sim.Limits{})
	if w.err == nil && w.sentBytes != w.placedBytes {
		w.err = fmt.Errorf("%d bytes were sent, and %d are placed", w.sentBytes, w.placedBytes)
	}
	ports := slices.Clone(w.switchLinks)
	for _, h := range w.hosts {
		ports = append(ports, h.cardPort, h.switchPort)
	}
	for i, p := range ports {
		if p.HeldBytes.Value() != 0 && w.err == nil {
			w.err = fmt.Errorf("port %d still holds %d bytes", i, p.HeldBytes.Value())
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

func (w *World) readUpdate(meps uint64) core.Update {
	return core.Update{ReadBelow: meps, Events: meps * uint64(w.c.Packing)}
}

// reportRUProgress tells the scheduler how far a readout unit has read: so many rounds ahead.
func (w *World) reportRUProgress(r *ru) {
	if w.c.RoundsAhead > 0 {
		w.s.ScheduleAfter(w.c.MessageDelay, (*readReported)(r), int64(r.cyclesDone), 0)
	}
}

type readReported ru

// Handle: the scheduler knows how far the readout unit has read.
func (e *readReported) Handle(cycles, _ int64) {
	r := (*ru)(e)
	w := r.w
	w.recordError(w.tagnet.ApplyUpdate(r.index,
		w.readUpdate(uint64(cycles+int64(w.c.RoundsAhead))*uint64(w.tagnet.PlacesPerCycle()))))
	w.issue()
}

// issue sends the tokens that may go to all readout units.
func (w *World) issue() {
	b := &core.Batch{}
	b.Reset(w.tagnet.NextCycle(), w.tagnet.PlacesPerCycle())
	if w.tagnet.Issue(b) == 0 {
		return
	}
	for _, mep := range b.MEPs {
		if mep != core.NoMEP {
			w.tokenSentAt[mep] = w.s.Now()
		}
	}
	w.s.ScheduleAfter(w.c.MessageDelay, (*tokensArrived)(w), w.batches.store(b), 0)
	w.launchTags()
}

type tokensArrived World

// Handle: tokens are at all readout units, which read the MEPs and announce their sizes.
func (e *tokensArrived) Handle(at, _ int64) {
	w := (*World)(e)
	b := w.batches.items[at]
	for _, r := range w.rus {
		for i := range b.Len() {
			w.recordError(r.order.AddCycle(b, i))
		}
		for _, mep := range b.MEPs {
			if mep != core.NoMEP {
				r.sizes[mep] = w.model.PartSize(r.index, mep)
			}
		}
	}
	if w.c.WindowDelay == 0 {
		(*windowsArrived)(w).Handle(at, 0)
		return
	}
	w.s.ScheduleAfter(w.c.WindowDelay, (*windowsArrived)(w), at, 0)
}

type windowsArrived World

// Handle: the builder units have had all sizes, and their windows are at the readout units: all of them, or those that
// they ask for at first.
func (e *windowsArrived) Handle(at, _ int64) {
	w := (*World)(e)
	b := w.batches.remove(at)
	for i := range b.Len() {
		for p := range b.PlacesPerCycle {
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

// SendFeedback tells the scheduler the outcome of a MEP.
func (w *World) SendFeedback(bu int, f core.Feedback) {
	if w.CountedFrom.At > 0 || w.c.WarmUpCycles == 0 {
		w.BuildLatency.Add(int64(w.s.Now() - w.tokenSentAt[f.MEP]))
	}
	delete(w.tokenSentAt, f.MEP)
	w.recordError(w.tagnet.ApplyFeedback(bu, f))
	w.issue()
}

// countPart ends the run when it has counted enough: parts of so many cycles. MEPs come to their ends by many at once.
func (w *World) countPart() {
	if w.c.CountedCycles == 0 {
		return
	}
	n := uint64(len(w.rus))
	switch w.placedParts {
	case n * uint64(w.c.WarmUpCycles):
		w.CountedFrom = w.snapshot()
	case n * uint64(w.c.WarmUpCycles+w.c.CountedCycles):
		w.CountedTo = w.snapshot()
		w.s.Stop()
	}
}

// snapshot says how far the run is.
func (w *World) snapshot() Snapshot {
	m := Snapshot{At: w.s.Now(), PlacedParts: w.placedParts, PlacedBytes: w.placedBytes}
	for _, r := range w.rus {
		r.setActivity(r.activity)
		for d, t := range r.timeSpent {
			m.TimeSpent[d] += t
		}
	}
	return m
}
