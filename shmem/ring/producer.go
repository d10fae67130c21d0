package ring

import (
	"cmp"
	"context"
	"fmt"
)

// The way of a record into the ring (sequential, one goroutine):
//
//  1. Allocate finds space by the taken position that it loaded last, and loads it again only if there is none.
//  2. The caller writes the data into the place.
//  3. Publish writes a wrap record if the place is at the ring's beginning again, then the record's header, for a
//     fragment the mark, and then the written position, which lets the consumer read the record.
//
// If the producer dies between two of these steps, the ring is as before 1 or as after 3.

// Producer is the writing end of a ring. Its methods are for one goroutine.
type Producer struct {
	ring
	position, offset uint64 // of the next record: bytes since the ring was made, and in data
	taken            uint64 // the taken position, last loaded and checked
	reservedAt       uint64 // position of the reserved place
	reservedData     []byte
	reservedWords    Words
	reserved         bool
	promised         uint64 // bytes of space reserved by Promise

	formerTicket uint64 // commands up to this ticket were for producers before

	nextEvent   uint64 // the event after the last one committed or dropped
	currentMark int    // index of the valid mark
	nextRange   uint64 // number of ranges that NextGivenUp has returned or skipped
}

// OpenProducer opens the writing end of a ring of messages. Errors are *BrokenError.
func OpenProducer(name string, mem []byte) (*Producer, error) {
	p, err := newProducer(name, mem, Messages)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func newProducer(name string, mem []byte, use Use) (*Producer, error) {
	r, err := openRing(name, mem, use)
	if err != nil {
		return nil, err
	}
	p := &Producer{ring: r, position: r.written.Load()}
	p.offset = p.position % p.size
	return p, p.loadTaken()
}

// ProducerInfo describes a producer of fragments, for messages.
type ProducerInfo struct {
	PID  uint32
	Name string // at most MaxName bytes; longer names are cut
	// Follows: it hears commands of the run, and replies; a consumer of an earlier release tells none.
	Follows bool
}

// AttachProducer opens the writing end of a ring of fragments; the caller holds the lock of ProducerByte. Errors are
// *BrokenError, ErrEnded, ErrClosed and ErrRefused.
func AttachProducer(name string, mem []byte, who ProducerInfo) (*Producer, error) {
	p, err := newProducer(name, mem, Fragments)
	switch {
	case p == nil:
		return nil, err
	case State(p.state.Load()) == Ended:
		return nil, ErrEnded
	}
	if err := cmp.Or(p.CheckOpen(), err, p.restoreMark()); err != nil {
		return nil, err
	}
	p.writeIdentity(who.Name)
	p.reply.Store(0)
	p.formerTicket, _ = unpack(p.command.Load()) // of a command to the producer before
	if who.Follows {
		p.follows.Store(p.attached.Load() + 1)
	}
	p.pid.Store(who.PID)
	p.producerSilent.Store(0)
	p.state.Store(uint32(Attached)) // before attached: a reader of the new count must not see the old producer's state
	p.attached.Add(1)
	p.RecordsBell.Wake()
	return p, nil
}

// restoreMark finds the mark of the last record. Drop writes a mark with the same position: if both match, the higher
// one counts.
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
	return p.brokenError("mark", p.position, p.marks[0].position.Load(), "no mark belongs to what is written")
}

// loadTaken loads and checks the taken position.
func (p *Producer) loadTaken() error {
	t := p.words.taken.Load()
	if t < p.taken {
		t = p.position + 1 // it has moved back: make checkSpan fail
	}
	if err := p.checkSpan("taken position", t, t, p.position); err != nil {
		return err
	}
	p.taken = t
	return nil
}

// Taken is the taken position as last loaded by this producer. A producer that has found no space waits until TakenNow
// differs.
func (p *Producer) Taken() uint64 { return p.taken }

// TakenNow loads the taken position, unchecked.
func (p *Producer) TakenNow() uint64 { return p.words.taken.Load() }

// CheckOpen returns nil while the consumer reads, then ErrClosed or ErrRefused.
func (p *Producer) CheckOpen() error {
	switch State(p.consumerState.Load()) {
	case consumerReading:
		return nil
	case consumerRefused:
		return ErrRefused
	}
	return ErrClosed
}

// Source is the id of the source of the ring's fragments.
func (p *Producer) Source() uint16 { return uint16(p.source) }

// Run is the number of the ring's run.
func (p *Producer) Run() uint64 { return p.run }

// Nonce is the random number that the consumer has put into the ring.
func (p *Producer) Nonce() Nonce { return p.nonce }

// Safe is the event below which all events are safe: the producer will not need their fragments again.
func (p *Producer) Safe() uint64 { return p.safe.Load() }

// Dropped is how many fragments the producers of this ring have dropped.
func (p *Producer) Dropped() uint64 { return p.dropped.Load() }

// Expected is the number of the event after the last one that a producer of this ring has committed or dropped; 0 in a
// new ring.
func (p *Producer) Expected() uint64 { return p.nextEvent }

// Reserve is Allocate with a check that the consumer reads; its errors include ErrClosed and ErrRefused.
func (p *Producer) Reserve(size int) ([]byte, bool, error) { return p.ReserveWith(size, Words{}) }

// ReserveWith is Reserve for a fragment with words.
func (p *Producer) ReserveWith(size int, words Words) ([]byte, bool, error) {
	if err := p.CheckOpen(); err != nil {
		return nil, false, err
	}
	return p.allocate(size, words)
}

// Allocate returns a place of size bytes, or false if the ring is full. Errors are ErrTooLarge, errReservation and
// *BrokenError.
func (p *Producer) Allocate(size int) ([]byte, bool, error) { return p.allocate(size, Words{}) }

func (p *Producer) allocate(size int, words Words) ([]byte, bool, error) {
	switch {
	case size < 0 || size > p.largest:
		return nil, false, fmt.Errorf("%w: it has %d bytes, and %d are the most that its reader declares", ErrTooLarge, size,
			p.largest)
	case p.reserved:
		return nil, false, errReservation
	}
	extra := extraBytes(words.flags())
	need, at, offset := stride(uint64(size)+extra), p.position, p.offset
	if rest := p.size - offset; need > rest {
		at, offset = at+rest, 0 // a wrap record fills the rest
	}
	if ok, err := p.hasSpace(at + need); !ok {
		return nil, false, err
	}
	from := offset + recordHeader + extra
	p.reservedAt, p.reserved, p.reservedWords = at, true, words
	p.reservedData = p.data[from : from+uint64(size) : from+uint64(size)]
	return p.reservedData, true, nil
}

// hasSpace reports whether records may reach up to position end, beside the promised space.
func (p *Producer) hasSpace(end uint64) (bool, error) {
	if end += p.promised; end-p.taken <= p.size {
		return true, nil
	}
	err := p.loadTaken()
	return err == nil && end-p.taken <= p.size, err
}

// Promise reserves space for a record of size bytes until Redeem, whatever is published in between; false if the ring
// is full. Errors are *BrokenError.
func (p *Producer) Promise(size int) (bool, error) {
	keep := 2 * Stride(size) // twice: a wrap record before it may take as much
	ok, err := p.hasSpace(p.position + keep)
	if ok {
		p.promised += keep
	}
	return ok, err
}

// PromisedBytes is the space that promises reserve, bytes.
func (p *Producer) PromisedBytes() uint64 { return p.promised }

// Redeem ends a promise: the next Allocate finds the space.
func (p *Producer) Redeem(size int) { p.promised -= 2 * Stride(size) }

// Commit makes the first size bytes of the reserved place the fragment of an event. After an error, errReservation or
// errEventReserved, the place is still reserved.
func (p *Producer) Commit(event uint64, kind uint8, size int) error {
	switch {
	case !p.reserved || size < 0 || size > len(p.reservedData):
		return errReservation
	case event == noEvent:
		return errEventReserved
	}
	if p.publish(event, kind, size) {
		p.RecordsBell.ForceWake()
	}
	return nil
}

// Publish makes the allocated place a message. It reports whether the consumer sleeps; then the caller must wake it by
// RecordsBell.ForceWake.
func (p *Producer) Publish(number uint64, kind uint8) (wake bool) {
	return p.publish(number, kind, len(p.reservedData))
}

func (p *Producer) publish(number uint64, kind uint8, size int) (wake bool) {
	from := p.position
	if p.reservedAt != from {
		*p.recordAt(p.offset) = recordWords{size: uint32(p.reservedAt - from - recordHeader), flags: flagWrap}
		p.offset = 0
	}
	flags := p.reservedWords.flags()
	*p.recordAt(p.offset) = recordWords{number: number, size: uint32(size), kind: kind, flags: flags}
	extra := extraBytes(flags)
	p.reservedWords.put(p.data[p.offset+recordHeader:][:extra])
	length := stride(uint64(size) + extra)
	p.position = p.reservedAt + length
	if p.offset += length; p.offset == p.size {
		p.offset = 0
	}
	p.reserved = false
	if p.marked {
		p.writeMark(number + 1)
	}
	p.written.Store(p.position)
	// The count of waiters comes first: the wake word is in a cache line that the consumer writes often. The bell rings
	// once per sleep: a consumer takes long to wake up, and each further ring would be a system call.
	if !p.RecordsBell.HasWaiters() {
		return false
	}
	w := p.wakePosition.Load()
	return from < w && w <= p.position
}

// writeMark overwrites the mark that is not valid now, its position first. Half-written, the mark matches no record, or
// one for which the other mark has the higher number.
func (p *Producer) writeMark(next uint64) {
	p.currentMark ^= 1
	p.nextEvent = next
	p.marks[p.currentMark].position.Store(p.position)
	p.marks[p.currentMark].nextEvent.Store(next)
}

// Cancel frees the reserved place.
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

// Wait sleeps until poll returns true, as shmem.Bell.Await does.
func (p *Producer) Wait(ctx context.Context, poll func() (bool, error), alive func() error) error {
	return p.spaceBell.Await(ctx, 0, poll, alive)
}

// Detach says that this producer leaves; ended: for good, no fragment of this run follows.
func (p *Producer) Detach(ended bool) {
	s := Detached
	if ended {
		s = Ended
	}
	p.reserved = false
	p.state.Store(uint32(s))
	p.RecordsBell.Wake()
}
