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
	Slots      int               // of each builder unit
	LookAhead  int               // how many cycles may be issued and not complete; 0: the scheduler's default
	Packing    int
	// RoundsAhead is how many rounds a readout unit reads ahead of the round it sends; 0: the caller uses ReportRead.
	RoundsAhead      int
	PullWindow       int // parts that a builder unit requests at a time, with pull
	MaxUnackedWrites int // how many writes of a readout unit may wait for an acknowledgement; 0: no limit

	Hosts           int
	Topology        *topology.Topology   // host i is node i; nil: one switch
	Port            component.PortConfig // of a host, of the switch to it, and of each link between switches
	SelfThroughCard bool                 // bytes from a host to itself pass through its card; else they stay in memory
	InFlightLimit   int64                // bytes that may be on their way to a host; 0: no limit

	SegmentBytes int                  // bytes of data in a segment
	WireBytes    func(data int) int32 // bytes of data with their headers

	MessageDelay sim.Time // of a message, besides the processor time at its ends
	WindowDelay  sim.Time // from the tokens to the windows; 0: windows are pre-granted
	AckDelay     sim.Time // from a part's end to its readout unit

	// Cycles before counting, and cycles counted; with CountedCycles 0 the caller ends the run.
	WarmUpCycles, CountedCycles int
	Trace                       *sim.Trace
}

// MessageKind is the kind of a request for processor time: a kind of message, or LeaveBarrier.
type MessageKind uint8

// The kinds. LeaveBarrier is no message: a unit that leaves a barrier waits until the processor is free.
const (
	BarrierSignal MessageKind = iota // of a barrier, at each of its ends
	LeaveBarrier
	PartRequest // of a builder unit for a part; also a tag that is passed on
)

// HostModel gives the times of hosts. Times are absolute: the end of work that begins now.
type HostModel interface {
	PartSize(ru int, mep uint64) int                        // bytes of a readout unit's part; called once for each
	PrepareDoneAt(ru int) sim.Time                          // of a write
	SendDoneAt(ru, bu, bytes int) sim.Time                  // of a segment, before it is sent
	ReceiveDoneAt(ru, bu, bytes int, last bool) sim.Time    // of a received segment, maybe the last of its part
	MessageDoneAt(host int, of MessageKind) sim.Time        // at one of the message's ends
	ResentBytes(waited sim.Time, bytes int, sz int32) int64 // bytes of a segment that are sent again because it waited
	Built(bu int, f core.Feedback)                          // called when a MEP is complete
}

// World is one run.
type World struct {
	c           Config
	s           *sim.Sim
	model       HostModel
	hosts       []*host
	switchLinks []*component.Port // between switches, by the topology's index
	pool        component.Pool
	rus         []*ru
	bus         []*bu

	tagnet          *core.Allocator
	batches         inFlight[*core.Batch]
	barrierMessages inFlight[barrier.Message]
	requests        inFlight[core.Token]
	tagsInRing      inFlight[core.Tag]
	tokenSentAt     map[uint64]sim.Time // by MEP without an outcome: when its token was sent

	sentBytes, placedBytes uint64
	placedParts            uint64 // complete parts
	err                    error
	draining               bool // no unit begins a write

	onPartPlaced func(from *ru, place int64, to *bu) // called when a complete part is at its builder unit
	places       []uint64                            // scratch
	tags         []core.Tag                          // scratch
	route        []int                               // scratch

	// Results of a run. Only BuildLatency and BarrierTimes are about the counted cycles alone.
	CountedFrom, CountedTo Snapshot
	BarrierMessageCount    uint64
	BuildLatency           sim.Histogram // from a MEP's token to its outcome, once counting has begun
	BarrierTimes           sim.Histogram // from entering to leaving
}

// Snapshot is the progress of a run at a time.
type Snapshot struct {
	At          sim.Time
	PlacedParts uint64
	PlacedBytes uint64
	TimeSpent   [NumActivities]sim.Time // by activity, sum over readout units
}

// inFlight holds items on their way: an event carries the item's index.
type inFlight[T any] struct {
	items []T
	free  []int64
}

// store stores an item, and returns its index.
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

// remove frees an index, and returns its item.
func (m *inFlight[T]) remove(at int64) T {
	m.free = append(m.free, at)
	return m.items[at]
}

// recordError keeps the first error of a core of the product: the model has broken the core's rules.
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
		Push:          d.Push,
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
				FencePhases: c.Barrier != barrier.None, // without a barrier no fence is needed
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

// sampleInterval is the initial interval between two points of a curve.
const sampleInterval = 10 * sim.Microsecond

// instrument watches the bytes in ports, summed over all ports of a kind.
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

// Play runs the simulation until it has counted enough, or to a limit, and says why it ended.
func (w *World) Play(ctx context.Context, l sim.Limits) (sim.EndReason, error) {
	w.tagnet.Start()
	if w.c.RoundsAhead > 0 {
		for _, r := range w.rus {
			r.read(uint64(w.c.RoundsAhead) * uint64(w.tagnet.PlacesPerCycle()))
			w.s.ScheduleAt(0, (*readReported)(r), 0, 0)
		}
	}
	end := w.s.Run(ctx, l)
	if w.c.CountedCycles == 0 {
		w.CountedTo = w.snapshot()
	}
	return end, w.err
}

// Drain lets the simulation go on without new writes until nothing moves. It returns an error if bytes were lost.
func (w *World) Drain(ctx context.Context) error {
	w.draining = true
	w.s.Run(ctx, sim.Limits{})
	if w.err == nil && w.sentBytes != w.placedBytes {
		w.err = fmt.Errorf("bytes were lost: %d were sent, and %d are in place", w.sentBytes, w.placedBytes)
	}
	ports := slices.Clone(w.switchLinks)
	for _, h := range w.hosts {
		ports = append(ports, h.cardPort, h.switchPort)
	}
	for i, p := range ports {
		if p.HeldBytes.Value() != 0 && w.err == nil {
			w.err = fmt.Errorf("port %d still holds %d bytes when nothing moves any more", i, p.HeldBytes.Value())
		}
	}
	return w.err
}

// ReportRead reports to the scheduler that each readout unit has read the first meps MEPs.
func (w *World) ReportRead(meps uint64) {
	for i, r := range w.rus {
		w.recordError(w.tagnet.ApplyUpdate(i, w.readUpdate(meps)))
		r.read(meps)
	}
	w.issue()
}

func (w *World) readUpdate(meps uint64) core.Update {
	return core.Update{ReadBelow: meps, Events: meps * uint64(w.c.Packing)}
}

// reportRUProgress reports to the scheduler how far a readout unit has read: RoundsAhead rounds ahead.
func (w *World) reportRUProgress(r *ru) {
	if w.c.RoundsAhead > 0 {
		r.read(uint64(r.cyclesDone+w.c.RoundsAhead) * uint64(w.tagnet.PlacesPerCycle()))
		w.s.ScheduleAfter(w.c.MessageDelay, (*readReported)(r), int64(r.cyclesDone), 0)
	}
}

type readReported ru

// Handle updates the scheduler when a report of a readout unit arrives.
func (e *readReported) Handle(cycles, _ int64) {
	r := (*ru)(e)
	w := r.w
	w.recordError(w.tagnet.ApplyUpdate(r.index,
		w.readUpdate(uint64(cycles+int64(w.c.RoundsAhead))*uint64(w.tagnet.PlacesPerCycle()))))
	w.issue()
}

// issue sends the tokens that the scheduler issues to all readout units.
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
	if w.c.Discipline.Push {
		w.addCredits(w.batches.remove(at))
		return
	}
	if w.c.WindowDelay == 0 {
		(*windowsArrived)(w).Handle(at, 0)
		return
	}
	w.s.ScheduleAfter(w.c.WindowDelay, (*windowsArrived)(w), at, 0)
}

type windowsArrived World

// Handle: the builder units have all sizes, and their windows are at the readout units: all windows, or with pull the
// first ones requested.
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

// SendFeedback reports the outcome of a MEP to the scheduler.
func (w *World) SendFeedback(bu int, f core.Feedback) {
	if w.CountedFrom.At > 0 || w.c.WarmUpCycles == 0 {
		w.BuildLatency.Add(int64(w.s.Now() - w.tokenSentAt[f.MEP]))
	}
	delete(w.tokenSentAt, f.MEP)
	w.recordError(w.tagnet.ApplyFeedback(bu, f))
	w.issue()
}

// countPart begins and ends counting at numbers of parts, since many MEPs complete at the same time.
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

// snapshot is the progress of the run.
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
