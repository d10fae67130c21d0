package core

import (
	"errors"
	"fmt"
	"slices"
	"time"

	hdrhistogram "github.com/HdrHistogram/hdrhistogram-go"

	"ringlet/internal/standstill"
	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// Core is the scheduler of one view: its Allocator, the sessions of its units, and the stream of notices that it sends.
// The caller passes inputs to Step and gets from Ready what it has to do. A Core does no I/O, starts no goroutine and
// has no clock. One goroutine owns it.
type Core struct {
	set      Settings
	alloc    *Allocator
	sessions [2][]session // by Role and index

	succession *succession // nil: the Core has its state
	now        int64       // ns since Settings.Began, from the last call
	batch      Batch       // reused by each Ready
	ready      Ready
	taken      bool // the caller has had ready: the next call empties it

	// What was published.

	next                 uint64   // sequence number of the next notice
	mark                 Notice   // state, watermark and next cycle as of the newest notice, without its news
	absenceNotices       []uint64 // sequence number of the notice of each absence
	statePublished       State    // state at the last Ready
	withdrawalsPublished int
	cutsPublished        uint64 // MEP up to which cuts were published
	releasedPublished    uint64 // MEPs released, without those held up, at the last notice for readout units
	releasedSeen         uint64 // the same when publish last looked
	releaseStep          uint64 // MEPs that the watermark must advance to be worth a notice of its own
	idle                 bool   // at the last publish no cycle was in flight that the others wait for

	// Times, in ns since Settings.Began; 0: has not happened yet.

	standstill standstill.Detector // of builder units that hold up the others
	doneSeen   uint64              // MEPs with an outcome when mustPassOver last looked
	nextLook   int64               // when it looks again

	firstCycleIncompleteAt int64 // when the first cycle could have been issued, but was not full
	firstTokenAt           int64
	lastMEPAt              int64
	absenceTimes           []int64                 // of each absence, since the Unix epoch
	issueTimes             []int64                 // of the token for slot s of builder unit j, at j × Slots + s
	latency                *hdrhistogram.Histogram // µs from the issue of the token to the complete MEP
	clippedLatencies       uint64                  // latencies that were negative or did not fit the histogram
}

// Settings of a Core.
type Settings struct {
	View  Config
	Term  uint64 // of the stream of notices, not 0; unique among schedulers
	Began int64  // ns since the Unix epoch: the zero of all times passed to the Core
	// ResumeTimeout is how long a unit may take to resume its session after a broken stream; less than zero: no time.
	ResumeTimeout time.Duration
	// Living are the units that take part, for the successor of a lost scheduler: it waits for their Recalls. Nil: the
	// Core is the first scheduler of the view.
	Living []Unit
	// FirstTokenNs is when the first token of a lost scheduler was issued, in ns since the Unix epoch; 0: not known.
	FirstTokenNs int64
}

// maxLatencyUs bounds the latency histogram: ten minutes, three digits, some 200 KiB of memory.
const maxLatencyUs = 600_000_000

// New makes a Core in state Idle.
func New(set Settings) (*Core, error) {
	alloc, err := NewAllocator(set.View)
	if err != nil {
		return nil, err
	}
	set.View = alloc.cfg
	c := &Core{
		set:               set,
		alloc:             alloc,
		now:               1,
		next:              1,
		cutsPublished:     set.View.FirstMEP,
		releasedPublished: set.View.FirstMEP,
		releasedSeen:      set.View.FirstMEP,
		releaseStep:       uint64(max(alloc.placesPerCycle, batchStep(alloc.maxInFlight()))),
		idle:              true,
		issueTimes:        make([]int64, len(set.View.BUs)*set.View.Slots),
		latency:           hdrhistogram.New(1, maxLatencyUs, 3),
	}
	for role, n := range [2]int{len(set.View.RUs), len(set.View.BUs)} {
		c.sessions[role] = make([]session, n)
	}
	if set.Living != nil {
		if c.succession, err = newSuccession(&c.set.View, set.Living); err != nil {
			return nil, err
		}
		if set.FirstTokenNs > 0 {
			c.firstTokenAt = set.FirstTokenNs - set.Began
		}
	}
	c.mark = Notice{State: Idle, Released: set.View.FirstMEP, Batch: Batch{PlacesPerCycle: alloc.placesPerCycle}}
	n := c.mark
	n.For = ForControl
	c.append(n)
	return c, nil
}

// CyclesKept is how many cycles back a readout unit may resume: the caller keeps the notices with that many cycles.
func (c *Core) CyclesKept() int { return c.alloc.maxCyclesBehind() }

// Input is one thing that has happened: Attach, Detached, ResumeOver, Report, Outcomes, Command, AttachOver or
// RecallOver.
type Input interface{ step(c *Core) Answer }

// Answer is the result of an input, for its sender.
type Answer struct {
	Err      error    // an *inputError or a *SessionError: the Core refused the input
	Reissued int      // MEPs that an exclusion had issued again, or that were abandoned
	Triggers uint64   // of triggers: how many were taken
	State    State    // of a Command: the scheduler's state after it
	Known    []Notice // of an Attach: the snapshot that the unit gets before the stream
	Next     uint64   // of an Attach: sequence number of the notice from which the unit gets the stream
	Taken    uint64   // of an Attach: entries of the session that the Core has taken
	Pending  bool     // of an Attach to a successor: the answer comes with Ready.Admitted
}

// Ready is what the caller has to do. Its lists are valid until the next call of Step or Ready.
type Ready struct {
	Taken     []Taken       // acknowledgements to send
	Notices   []Notice      // to store and send, in their order
	Ended     []Ended       // streams to end
	Broken    []Broken      // streams to pass to ResumeOver after Settings.ResumeTimeout
	Admitted  []Admitted    // streams whose Attach was Pending
	Remarks   []error       // outcomes that were refused, or accepted with a remark: to log
	TickAfter time.Duration // call Ready again after this time even without an input; 0: no need
}

// Taken acknowledges the entries of a stream's session that the Core has taken. A builder unit may wait for it.
type Taken struct {
	Stream  uint64
	Entries uint64
}

// Ended is a stream that is over.
type Ended struct {
	Stream uint64
	Err    error // a *SessionError, or ErrSuperseded
}

// Broken is a stream that broke, whose unit may resume its session.
type Broken struct {
	Unit   Unit
	Stream uint64
	Err    error
}

// begin sets the time, and empties ready if the caller has had it.
func (c *Core) begin(now int64) {
	c.now = now
	if c.taken {
		r := &c.ready
		*r = Ready{Taken: r.Taken[:0], Notices: r.Notices[:0], Ended: r.Ended[:0], Broken: r.Broken[:0],
			Admitted: r.Admitted[:0]}
		c.taken = false
	}
}

// Step applies an input. now is in ns since Settings.Began, and more than 0.
func (c *Core) Step(now int64, in Input) Answer {
	c.begin(now)
	return in.step(c)
}

// Ready issues what can be issued after all inputs so far, and returns what the caller has to do.
func (c *Core) Ready(now int64) *Ready {
	c.begin(now)
	c.alloc.cutMEPs()
	c.alloc.findEnd()
	c.batch.Reset(c.alloc.nextCycle, c.alloc.placesPerCycle)
	if !c.firstCycleWaits() && !c.alloc.worthBatching() {
		c.alloc.Issue(&c.batch)
		if c.mustPassOver() {
			c.alloc.passOver()
			c.alloc.Issue(&c.batch)
		}
	}
	issued := c.batch
	issued.MEPs, issued.Slots = slices.Clone(c.batch.MEPs), slices.Clone(c.batch.Slots) // readers may keep them
	if issued.Len() > 0 {
		for i := range issued.Len() {
			for bu := range issued.PlacesPerCycle {
				if t, ok := issued.Token(i, bu); ok {
					*c.issuedAt(bu, t.Slot) = now
				}
			}
		}
		if c.firstTokenAt == 0 {
			c.firstTokenAt = now
		}
	}
	c.publish(issued, c.alloc.LaunchTags(nil))
	c.stampAbsences()
	for bu := range c.sessions[Builder] {
		s := &c.sessions[Builder][bu]
		ending := c.mark.State != c.statePublished && c.mark.State >= Draining
		if s.link == linkOpen && (ending || c.awaitsTaken(bu, s)) {
			s.unacked, s.asksTaken = 0, false
			c.ready.Taken = append(c.ready.Taken, Taken{s.stream, s.taken})
		}
	}
	c.statePublished, c.taken = c.mark.State, true
	return &c.ready
}

// maxFirstCycleWait is how long the first cycle waits to be full. When the units have attached, their sources have only
// just begun. A cycle with the few MEPs that the fastest have read by then would take as long as a full one: 7 % of a
// run of 14 cycles (8 nodes, 2026-11-21).
const maxFirstCycleWait = 100 * time.Millisecond

// firstCycleWaits tells that the first cycle is not full yet, and may still become so.
func (c *Core) firstCycleWaits() bool {
	if !c.alloc.firstCycleIncomplete() {
		return false
	}
	if c.firstCycleIncompleteAt == 0 {
		c.firstCycleIncompleteAt, c.ready.TickAfter = c.now, maxFirstCycleWait
	}
	return c.now-c.firstCycleIncompleteAt < maxFirstCycleWait.Nanoseconds()
}

// mustPassOver tells that builder units have held up the others for too long: no unit has given an outcome meanwhile.
// Under Skip the Allocator waits for none.
func (c *Core) mustPassOver() bool {
	n, now := c.alloc.counters, time.Duration(c.now)
	done := n.Built + n.Discarded + n.Rejected
	if !c.alloc.waitsForBuilders() || done != c.doneSeen {
		c.doneSeen = done
		c.standstill.Warm = done >= uint64(warmMEPs*c.alloc.placesPerCycle)
		c.standstill.End(now)
	}
	if !c.alloc.waitsForBuilders() {
		return false
	}
	if c.standstill.Wait(now) {
		c.standstill.GiveUp()
		return true
	}
	if c.now >= c.nextLook {
		c.nextLook, c.ready.TickAfter = c.now+standstill.Tick.Nanoseconds(), standstill.Tick
	}
	return false
}

// warmMEPs is how many MEPs for each builder unit must have an outcome before the times between outcomes count.
const warmMEPs = 4

// AttachOver is the end of the time in which the units have to attach.
type AttachOver struct{}

func (AttachOver) step(c *Core) Answer {
	if !c.alloc.started && c.succession == nil {
		for _, u := range c.missingUnits() {
			c.report(u, UnitMissing, nil)
		}
	}
	return Answer{}
}

// Command is an operation that the control asks for.
type Command struct {
	Operation tagnetv1.ControlRequest_Operation
	Unit      int    // of an operation on a unit: its index
	End       uint64 // of a drain: the first MEP that is not to be issued; 0: issue no new ones
	User      string // of a clear: who asked for it
	Count     uint64 // of triggers by hand: how many
	Request   uint64 // of triggers by hand: the number of the request, which may be repeated
}

func (in Command) step(c *Core) (a Answer) {
	switch in.Operation {
	case tagnetv1.ControlRequest_OPERATION_PAUSE:
		a.Err = c.alloc.Pause()
	case tagnetv1.ControlRequest_OPERATION_RESUME:
		a.Err = c.alloc.Resume()
	case tagnetv1.ControlRequest_OPERATION_DRAIN:
		c.alloc.Drain(in.End)
	case tagnetv1.ControlRequest_OPERATION_ABANDON:
		a.Reissued = c.alloc.abandon()
	case tagnetv1.ControlRequest_OPERATION_EXCLUDE_BU:
		a.Reissued, a.Err = c.excludeBU(in.Unit, false)
	case tagnetv1.ControlRequest_OPERATION_LOSE_BU:
		a.Reissued, a.Err = c.excludeBU(in.Unit, true)
	case tagnetv1.ControlRequest_OPERATION_INCLUDE_BU:
		a.Err = c.includeBU(in.Unit)
	case tagnetv1.ControlRequest_OPERATION_READMIT_BU:
		a.Err = c.readmitBU(in.Unit)
	case tagnetv1.ControlRequest_OPERATION_EXCLUDE_RU:
		a.Err = c.excludeRU(in.Unit)
	case tagnetv1.ControlRequest_OPERATION_INCLUDE_RU:
		a.Err = c.includeRU(in.Unit)
	case tagnetv1.ControlRequest_OPERATION_CLEAR_REGISTERS:
		c.alloc.clearRegisters(in.User, c.unixNano(c.now))
	case tagnetv1.ControlRequest_OPERATION_TRIGGER:
		if c.succession != nil {
			a.Err = c.alloc.refuse(NotNow, "scheduler", "the successor of a lost scheduler cannot take triggers yet")
			break
		}
		a.Triggers, a.Err = c.alloc.triggerByHand(in.Count, in.Request)
	default:
		a.Err = &SessionError{Why: RefusedOperation, Got: in.Operation, Message: fmt.Sprintf("no operation %v", in.Operation)}
	}
	a.State = c.alloc.State()
	return a
}

// Report is what a readout unit holds and has done since its last report.
type Report struct {
	Unit          int
	Stream        uint64
	Update        Update   // a unit that rejoined counts events from its rejoin on
	Reach         *Reach   // nil: not reported
	Stop          *uint64  // nil: not reported; see Allocator.applyStop
	Returned      []Tag    // tags that have come round; the unit repeats them until they are acknowledged
	ReturnedFirst uint64   // number of the first of them in the session, from 0
	Cleared       uint64   // absences after which the unit has dropped all tags; 0: none
	Confirmed     []uint64 // exclusions, numbered from 0, of which the unit has nothing under way any more
}

func (in Report) step(c *Core) (a Answer) {
	u := Unit{Readout, in.Unit}
	s := c.session(u)
	if s.link != linkOpen || s.stream != in.Stream {
		return a // the stream was cut or replaced meanwhile; its watermark is of no use any more
	}
	update := in.Update
	update.ReadBelow = max(update.ReadBelow, c.set.View.FirstMEP, s.firstMEP)
	update.Events += s.eventsBefore
	read := c.alloc.readWatermark
	err := c.alloc.ApplyUpdate(in.Unit, update)
	c.stampRead(read)
	if in.Stop != nil && (err == nil || errors.Is(err, EndMismatch)) {
		err = errors.Join(err, c.alloc.applyStop(in.Unit, *in.Stop))
	}
	if err == nil && in.Reach != nil {
		err = c.alloc.applyReach(in.Unit, *in.Reach)
	}
	if errors.Is(err, EndMismatch) { // the update and the tags with it are valid; the run control decides what to do
		c.report(u, UnitMisbehaved, err)
		err = nil
	}
	if err == nil && in.Cleared > 0 {
		err = c.alloc.ApplyCleared(in.Unit, in.Cleared)
	}
	if err == nil {
		err = c.takeOnce(s, &in)
	}
	if err != nil {
		c.cutMisbehaving(u, RefusedInput, update.ReadBelow, "", err)
	}
	return a
}

// takeOnce applies the entries of a report that count once, though the unit repeats them when its stream broke.
func (c *Core) takeOnce(s *session, in *Report) error {
	known, ok := CountRepeated(s.taken, in.ReturnedFirst, len(in.Returned))
	if !ok {
		return fmt.Errorf("%s returned the tags from number %d on, and only %d before them have come",
			c.name(Unit{Readout, in.Unit}), in.ReturnedFirst, s.taken)
	}
	c.alloc.counters.EntriesRepeated += uint64(known)
	for i := range in.Returned[known:] {
		if err := c.alloc.ReturnTag(in.Unit, &in.Returned[known+i]); err != nil {
			return err
		}
		s.taken++
	}
	if len(in.Returned) > 0 {
		c.ready.Taken = append(c.ready.Taken, Taken{s.stream, s.taken})
	}
	for _, exclusion := range in.Confirmed {
		if c.alloc.isConfirmed(in.Unit, exclusion) {
			c.alloc.counters.EntriesRepeated++
			continue
		}
		if err := c.alloc.ConfirmExclusion(in.Unit, exclusion); err != nil {
			return err
		}
	}
	return nil
}

// Outcomes is a batch of feedback. The caller has checked that its lists have fitting lengths.
type Outcomes struct {
	Unit   int
	Stream uint64
	Batch  *tagnetv1.FeedbackBatch
}

func (in Outcomes) step(c *Core) (a Answer) {
	u, m := Unit{Builder, in.Unit}, in.Batch
	s := c.session(u)
	if s.link != linkOpen || s.stream != in.Stream {
		return a // the stream was cut or replaced meanwhile; other builder units get the unit's MEPs
	}
	known, ok := CountRepeated(s.taken, m.GetFirst(), len(m.GetMeps()))
	if !ok {
		c.cutMisbehaving(u, RefusedMessage, m.GetFirst(), s.taken, fmt.Errorf(
			"%s sent feedback from entry %d on, and only %d before it have come", c.name(u), m.GetFirst(), s.taken))
		return a
	}
	c.alloc.counters.EntriesRepeated += uint64(known)
	var run latencyRun
	for i := known; i < len(m.GetMeps()); i++ {
		f := Feedback{
			MEP:     m.Meps[i],
			Slot:    m.Slots[i] & slotMask,
			Attempt: uint8(m.Slots[i] >> attemptShift),
			Events:  ElementAt(m.Events, i),
			Outcome: Outcome(ElementAt(m.Outcomes, i)),
		}
		c.alloc.learnShortMEP(&f)
		early := c.alloc.cfg.Push && f.MEP >= c.alloc.readWatermark // whole before its readout units have reported it
		err := c.alloc.ApplyFeedback(in.Unit, f)
		if err == nil || errors.Is(err, WrongEvents) {
			at := c.now - int64(ElementAt(m.HeldUs, i))*1000
			if issued := c.issuedAt(in.Unit, f.Slot); c.alloc.cfg.Push && (early || at < *issued) {
				*issued = at
			}
			c.recordCompletion(in.Unit, f, at, &run)
		}
		if err != nil {
			c.ready.Remarks = append(c.ready.Remarks, err)
		}
	}
	c.recordLatency(run)
	s.taken += uint64(len(m.GetMeps()) - known)
	s.unacked += len(m.GetMeps())
	had := m.GetHad()
	s.asksTaken = s.asksTaken || len(m.GetMeps()) == 0 && had == nil
	if had != nil {
		c.goBy(u, Position{had.GetTerm(), had.GetNext()})
	}
	return a
}

// goBy notes up to which notice a builder unit goes by the absences that it was sent.
func (c *Core) goBy(u Unit, p Position) {
	if !c.wasPublished(p) {
		c.cutMisbehaving(u, RefusedInput, p, c.next, fmt.Errorf(
			"%s acknowledges the notices below %d of term %d, which were never sent", c.name(u), p.Next, p.Term))
		return
	}
	c.alloc.bus[u.Index].unconfirmed = false
	known, _ := slices.BinarySearch(c.absenceNotices, p.Next)
	if err := c.alloc.ackAbsences(u.Index, uint64(known), len(c.alloc.absences)); err != nil {
		c.cutMisbehaving(u, RefusedInput, p, "", err)
	}
}

// ElementAt is element i of a list; a list of one element has that element for every i.
func ElementAt[T any](list []T, i int) T {
	if len(list) == 1 {
		return list[0]
	}
	return list[i]
}

// awaitsTaken tells that a builder unit should now get an acknowledgement of its entries: there are many, the unit has
// nothing more to report, or the unit asks. Where there is room for many MEPs, one acknowledgement per message would
// double the messages.
func (c *Core) awaitsTaken(bu int, s *session) bool {
	few := batchStep(c.alloc.maxInFlight()) / max(1, c.alloc.activeBUs)
	return s.asksTaken || s.unacked > 0 && (s.unacked >= few || c.alloc.bus[bu].usedSlots.Now == 0)
}
