package fragring

import "context"

// The way of a fragment into the ring (sequential, one goroutine):
//
//  1. Reserve finds room by the taken position that it knows, and loads it anew only where there is none.
//  2. The caller writes the data into the place.
//  3. Commit writes the record's header, and before it a wrap record where the place is at the ring's beginning again;
//     then the mark; then the written position, which makes the record the consumer's.
//
// A death between any two of these leaves the ring as it was before 1 or as it is after 3.

// Producer is the writing end of a ring. Its methods are for one goroutine.
type Producer struct {
	ring
	position     uint64 // written, as this producer keeps it
	taken        uint64 // last loaded, and checked
	nextEvent    uint64 // the event after the last one committed or dropped
	currentMark  int    // the mark that holds now
	reservedAt   uint64 // of the place that is reserved
	reservedData []byte // nil where none is
	reserved     bool
	nextRange    uint64 // ranges given up that NextGivenUp has passed
}

// ProducerInfo is a producer, for people.
type ProducerInfo struct {
	PID  uint32
	Name string // at most MaxName bytes; more are cut off
}

// AttachProducer attaches to the writing end of a ring; the caller holds the lock of ProducerByte. Errors are
// *BrokenError, ErrEnded, ErrClosed and ErrRefused.
func AttachProducer(name string, mem []byte, who ProducerInfo) (*Producer, error) {
	r, err := openRing(name, mem)
	if err != nil {
		return nil, err
	}
	p := &Producer{ring: r}
	if State(r.state.Load()) == Ended {
		return nil, ErrEnded
	}
	if err := p.CheckOpen(); err != nil {
		return nil, err
	}
	p.position = r.written.Load()
	if err := p.loadTaken(); err != nil {
		return nil, err
	}
	if err := p.restoreMark(); err != nil {
		return nil, err
	}
	p.writeIdentity(who.Name)
	r.pid.Store(who.PID)
	r.producerSilent.Store(0)
	r.state.Store(uint32(Attached)) // first: who sees the new number sees no state of the one before
	r.attached.Add(1)
	r.recordsBell.Wake()
	return p, nil
}

// restoreMark finds the mark of the last record. A drop writes a mark of the same position: of two the higher one
// holds.
func (p *Producer) restoreMark() error {
	found := false
	for i := range p.marks {
		m := &p.marks[i]
		if next := m.nextEvent.Load(); m.position.Load() == p.position && (!found || next > p.nextEvent) {
			p.nextEvent, p.currentMark, found = next, i, true
		}
	}
	if found {
		return nil
	}
	return &BrokenError{
		Ring:   p.name,
		What:   "mark",
		At:     p.position,
		Value:  p.marks[0].position.Load(),
		Reason: "no mark belongs to what is written",
	}
}

// loadTaken loads how far the consumer has taken.
func (p *Producer) loadTaken() error {
	t := p.words.taken.Load()
	if t < p.taken {
		t = p.position + 1 // it has moved back: no position
	}
	if err := p.checkSpan("taken position", t, t, p.position); err != nil {
		return err
	}
	p.taken = t
	return nil
}

// CheckOpen says whether the consumer reads: nil, ErrClosed or ErrRefused.
func (p *Producer) CheckOpen() error {
	switch State(p.consumerState.Load()) {
	case consumerReading:
		return nil
	case consumerRefused:
		return ErrRefused
	}
	return ErrClosed
}

// Source is the id of the source that the ring's fragments belong to.
func (p *Producer) Source() uint16 { return uint16(p.source) }

// Run is the number of the run that the ring belongs to.
func (p *Producer) Run() uint64 { return p.run }

// Safe is the event below which all events are safe: nobody will ask for them again.
func (p *Producer) Safe() uint64 { return p.safe.Load() }

// Dropped is how many fragments the producers of this ring have dropped.
func (p *Producer) Dropped() uint64 { return p.dropped.Load() }

// Expected is the number of the event after the last one that was committed or dropped, by this or another producer of
// the ring; 0 in a new one.
func (p *Producer) Expected() uint64 { return p.nextEvent }

// Reserve hands out a place of that size, or false where the ring is full. Errors are ErrTooLarge, errReservation,
// ErrClosed, ErrRefused and *BrokenError.
func (p *Producer) Reserve(size int) ([]byte, bool, error) {
	switch {
	case size < 0 || size > maxFragment:
		return nil, false, ErrTooLarge
	case p.reserved:
		return nil, false, errReservation
	}
	if err := p.CheckOpen(); err != nil {
		return nil, false, err
	}
	need := recordStride(uint64(size))
	at := p.position
	if rest := p.size - at%p.size; need > rest {
		at += rest // a wrap record takes the rest
	}
	if at+need-p.taken > p.size {
		if err := p.loadTaken(); err != nil || at+need-p.taken > p.size {
			return nil, false, err
		}
	}
	from := at%p.size + recordHeader
	p.reservedAt, p.reserved = at, true
	p.reservedData = p.data[from : from+uint64(size) : from+uint64(size)]
	return p.reservedData, true, nil
}

// Commit makes the first size bytes of the reserved place the fragment of that event. Errors are errReservation and
// errEventReserved: the place is then still reserved.
func (p *Producer) Commit(event uint64, kind uint8, size int) error {
	switch {
	case !p.reserved || size < 0 || size > len(p.reservedData):
		return errReservation
	case event == noEvent:
		return errEventReserved
	}
	if p.reservedAt != p.position {
		*p.ring.recordAt(p.position) = record{size: uint32(p.reservedAt - p.position - recordHeader), flags: flagWrap}
	}
	*p.ring.recordAt(p.reservedAt) = record{event: event, size: uint32(size), kind: kind}
	from := p.position
	p.position = p.reservedAt + recordStride(uint64(size))
	p.writeMark(event + 1)
	p.written.Store(p.position)
	// Once for each sleep: a consumer takes long to wake up, and meanwhile each ring would be a system call.
	if w := p.wakePosition.Load(); from < w && w <= p.position {
		p.recordsBell.Wake()
	}
	p.reserved = false
	return nil
}

// writeMark writes the mark that does not hold now. Its position first: half written, it belongs to no record, or to
// one that the other mark tells more of.
func (p *Producer) writeMark(next uint64) {
	p.currentMark ^= 1
	p.nextEvent = next
	p.marks[p.currentMark].position.Store(p.position)
	p.marks[p.currentMark].nextEvent.Store(next)
}

// Cancel gives the reserved place back.
func (p *Producer) Cancel() { p.reserved = false }

// Drop counts the fragment of an event as dropped. The error is errEventReserved.
func (p *Producer) Drop(event uint64) error {
	if event == noEvent {
		return errEventReserved
	}
	p.dropped.Add(1)
	p.writeMark(event + 1)
	return nil
}

// Wait sleeps until poll says true, as shmem.Bell.Await does.
func (p *Producer) Wait(ctx context.Context, poll func() (bool, error), alive func() error) error {
	return p.spaceBell.Await(ctx, 0, poll, alive)
}

// Detach says that this producer has gone, for good where ended: no fragment of this run follows.
func (p *Producer) Detach(ended bool) {
	s := Detached
	if ended {
		s = Ended
	}
	p.reserved = false
	p.state.Store(uint32(s))
	p.recordsBell.Wake()
}
