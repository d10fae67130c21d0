package decision

import (
	"encoding/binary"
	"fmt"

	"ringlet/filter"
)

// Omitted is the decision of a Span whose decisions the readout unit does not learn, since it was too slow.
const Omitted filter.Decision = 0

// A Span is consecutive events with one decision.
type Span struct {
	Events   uint64 // 1 to maxSpanEvents
	Decision filter.Decision
}

// DecisionMessage is a message of the decision unit to a readout unit: decisions on consecutive events, and Void for
// numbers without an event. A message begins with the event after the last one of the message before.
type DecisionMessage struct {
	Epoch      uint8
	FirstEvent uint64 // first event of Spans
	Spans      []Span // 1 to maxSpans
}

// Sizes of a DecisionMessage. With the byte of kind before it, it fits into a signal of 1024 bytes.
const (
	spanSize      = 4
	maxSpans      = 250
	maxSpanEvents = 1<<28 - 1
	spanVoid      = 15 // Void, in the four bits that a span has for its decision
)

// KindOf returns the kind of a message; 0 if it is too short to have one.
func KindOf(b []byte) MessageKind {
	if len(b) < MessageSize {
		return 0
	}
	return MessageKind(b[1])
}

// Append appends the encoded message to b.
func (d *DecisionMessage) Append(b []byte) []byte {
	m := Message{Kind: KindDecisions, Epoch: d.Epoch, Number: d.FirstEvent}
	b = m.Append(b)
	for _, s := range d.Spans {
		code := uint32(s.Decision)
		if s.Decision == Void {
			code = spanVoid
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(s.Events)<<4|code)
	}
	return b
}

// Parse parses a message, and reuses the memory of d.Spans. Append encodes an accepted message to the same bytes.
func (d *DecisionMessage) Parse(b []byte) error {
	if len(b) < MessageSize {
		return fmt.Errorf("%w: it has %d bytes, fewer than %d", ErrMessage, len(b), MessageSize)
	}
	var m Message
	if err := m.Parse(b[:MessageSize]); err != nil {
		return err
	}
	rest := b[MessageSize:]
	if m.Kind != KindDecisions || len(rest) == 0 || len(rest)%spanSize != 0 || len(rest) > maxSpans*spanSize {
		return fmt.Errorf("%w: kind %d with %d bytes of decisions: kind %d has 1 to %d spans of %d bytes", ErrMessage,
			m.Kind, len(rest), KindDecisions, maxSpans, spanSize)
	}
	d.Epoch, d.FirstEvent, d.Spans = m.Epoch, m.Number, d.Spans[:0]
	end := d.FirstEvent
	for ; len(rest) > 0; rest = rest[spanSize:] {
		word := binary.LittleEndian.Uint32(rest)
		s := Span{uint64(word >> 4), filter.Decision(word & 15)}
		if s.Decision == spanVoid {
			s.Decision = Void
		}
		if s.Events == 0 || !s.Decision.Valid() && s.Decision != Void && s.Decision != Omitted {
			return fmt.Errorf("%w: a span of %d events with the decision %d is impossible", ErrMessage, s.Events, s.Decision)
		}
		end += s.Events
		d.Spans = append(d.Spans, s)
	}
	if d.FirstEvent >= maxEventNumber || end > maxEventNumber {
		return fmt.Errorf("%w: it decides the events %d to %d, and events are below %d", ErrMessage, d.FirstEvent, end-1,
			uint64(maxEventNumber))
	}
	return nil
}

// A delivery queue holds at most 64 KiB of spans, and messages that the reader has not acknowledged. So a reader that
// stalls costs the decision unit 80 KiB, and misses no decision until 2000 accepted events among rejected ones wait.
const (
	maxQueuedSpans = 4096
	maxUnacked     = 16
)

// DeliveryStats count the decisions on their way to readout units, without void ones.
type DeliveryStats struct {
	Delivered      uint64 `count:"readout_told" help:"decisions that readout units have acknowledged, over all of them"`
	Omitted        uint64 `count:"readout_left_out" help:"decisions that readout units were too slow to hear"`
	Unacked        uint64 `count:"readout_unheard" help:"decisions under way to a readout unit that was lost, or stood still at the end of the run"`
	AfterReaderEnd uint64 `count:"readout_ended" help:"decisions made when readout units had ended their part"`
	Undelivered    uint64 `count:"readout_waiting" kind:"level" help:"decisions that readout units have not acknowledged yet; 0 after a run"`
}

func (s *DeliveryStats) add(o DeliveryStats) {
	s.Delivered += o.Delivered
	s.Omitted += o.Omitted
	s.Unacked += o.Unacked
	s.AfterReaderEnd += o.AfterReaderEnd
	s.Undelivered += o.Undelivered
}

// A deliveryQueue is the pure core of the decisions for one readout unit: it packs decisions in order into spans. One
// goroutine at a time owns it.
//
//	1 add         (decideLoop)        adds decisions on consecutive events; never waits. If too many spans wait, further
//	                                  ones are omitted, as one span that grows until there is room
//	2 nextMessage (the publisher)     returns the next message, unless too many are unacknowledged
//	3 ack         (a link's receiver) the readout unit has received so many messages
type deliveryQueue struct {
	epoch           uint8
	started         bool
	readerEnded     bool   // the readout unit has ended its part in the run
	firstWaiting    uint64 // event of the first waiting span
	nextEvent       uint64 // event after the last span
	spans           []Span // a ring buffer
	head, spanCount int

	messagesSent, messagesAcked uint64             // numbers of messages
	unackedCounts               [maxUnacked]uint64 // decisions in each message under way

	stats   DeliveryStats
	scratch DecisionMessage
}

func newDeliveryQueue(epoch uint8) *deliveryQueue {
	return &deliveryQueue{epoch: epoch, spans: make([]Span, maxQueuedSpans)}
}

// add adds decisions on consecutive events. Numbers between these and the ones before have no event.
func (d *deliveryQueue) add(first, events uint64, decision filter.Decision) {
	if d.readerEnded {
		d.stats.AfterReaderEnd += events
		return
	}
	if !d.started {
		d.started, d.firstWaiting, d.nextEvent = true, first, first
	}
	if first > d.nextEvent {
		d.push(first-d.nextEvent, Void)
	}
	d.push(events, decision)
}

// push adds a span, or extends the last one. The last place of the ring is for omitted events.
func (d *deliveryQueue) push(events uint64, decision filter.Decision) {
	d.nextEvent += events
	var last *Span
	if d.spanCount > 0 {
		last = &d.spans[(d.head+d.spanCount-1)%maxQueuedSpans]
	}
	if d.spanCount >= maxQueuedSpans-1 && last.Decision != decision {
		decision = Omitted
	}
	switch decision {
	case Omitted:
		d.stats.Omitted += events
	case Void:
	default:
		d.stats.Undelivered += events
	}
	if last != nil && last.Decision == decision {
		last.Events += events
		return
	}
	d.spans[(d.head+d.spanCount)%maxQueuedSpans] = Span{events, decision}
	d.spanCount++
}

// nextMessage returns the next message, valid until the next call; nil: there is none, or too many are unacknowledged.
func (d *deliveryQueue) nextMessage(b []byte) []byte {
	if d.spanCount == 0 || d.messagesSent-d.messagesAcked == maxUnacked {
		return nil
	}
	m := &d.scratch
	m.Epoch, m.FirstEvent, m.Spans = d.epoch, d.firstWaiting, m.Spans[:0]
	count := &d.unackedCounts[d.messagesSent%maxUnacked]
	*count = 0
	for d.spanCount > 0 && len(m.Spans) < maxSpans {
		s := &d.spans[d.head]
		one := Span{min(s.Events, maxSpanEvents), s.Decision}
		m.Spans = append(m.Spans, one)
		d.firstWaiting += one.Events
		if one.Decision.Valid() {
			*count += one.Events
		}
		if s.Events -= one.Events; s.Events == 0 {
			d.head = (d.head + 1) % maxQueuedSpans
			d.spanCount--
		}
	}
	d.messagesSent++
	return m.Append(b[:0])
}

// ack notes how many messages the reader has received in all. False: the number is impossible.
func (d *deliveryQueue) ack(messages uint64) bool {
	if messages < d.messagesAcked || messages > d.messagesSent {
		return false
	}
	for ; d.messagesAcked < messages; d.messagesAcked++ {
		n := d.unackedCounts[d.messagesAcked%maxUnacked]
		d.stats.Delivered += n
		d.stats.Undelivered -= n
	}
	return true
}

// endReader notes that the reader receives no more, and has acknowledged all that it received.
func (d *deliveryQueue) endReader() {
	d.readerEnded = true
	d.stats.AfterReaderEnd += d.stats.Undelivered
	d.stats.Undelivered, d.spanCount, d.messagesAcked = 0, 0, d.messagesSent
}

// close gives up the decisions that are not acknowledged, and returns the counters.
func (d *deliveryQueue) close() DeliveryStats {
	d.stats.Unacked += d.stats.Undelivered
	d.stats.Undelivered = 0
	return d.stats
}

// ReaderStats count the decisions that a readout unit received.
type ReaderStats struct {
	Decided countByDecision `count:"decisions_" help:"decisions that the readout unit was told, by what they are"`
	Omitted uint64          `count:"decisions_missed" help:"events whose decision the readout unit was too slow to hear; some may be events that a short MEP lacks"`
}

// A Reader is the pure core of a readout unit that receives decisions. The zero value waits for a decision unit. One
// goroutine at a time owns it.
type Reader struct {
	epoch            uint8
	connected        bool
	started          bool
	nextEvent        uint64 // next event expected
	messagesReceived uint64 // received since Open
	scratch          DecisionMessage
	stats            ReaderStats
}

// Open begins with a new decision unit, which chooses the first event of its messages.
func (r *Reader) Open(epoch uint8) {
	r.epoch, r.connected, r.started, r.messagesReceived = epoch, true, false, 0
}

// Close notes that the decision unit is gone, so that its messages do not count any more.
func (r *Reader) Close() { r.connected = false }

// Receive parses a message, and calls each with its spans in order. It returns the answer to the decision unit; false:
// there is none, since the message is from a decision unit that is gone. After an error, which says what is wrong with
// the message, nothing has changed.
func (r *Reader) Receive(b []byte, each func(first uint64, s Span)) (answer Message, ok bool, err error) {
	if err := r.scratch.Parse(b); err != nil {
		return answer, false, err
	}
	if !r.connected || r.scratch.Epoch != r.epoch {
		return answer, false, nil
	}
	if r.started && r.scratch.FirstEvent != r.nextEvent {
		return answer, false, fmt.Errorf("%w: decisions from event %d on, where event %d follows", ErrMessage,
			r.scratch.FirstEvent, r.nextEvent)
	}
	r.started, r.nextEvent = true, r.scratch.FirstEvent
	for _, s := range r.scratch.Spans {
		switch {
		case s.Decision.Valid():
			r.stats.Decided[s.Decision] += s.Events
		case s.Decision == Omitted:
			r.stats.Omitted += s.Events
		}
		each(r.nextEvent, s)
		r.nextEvent += s.Events
	}
	r.messagesReceived++
	return Message{Kind: KindAck, Epoch: r.epoch, Number: r.messagesReceived}, true, nil
}

// Stats returns the counters so far.
func (r *Reader) Stats() ReaderStats { return r.stats }
