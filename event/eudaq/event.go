package eudaq

import (
	"encoding/binary"
	"fmt"

	"ringlet/event"
)

const (
	// rawEventType is the type of all events that producers and data collectors make: cstr2hash("RawEvent").
	rawEventType uint32 = 0x8026656D
	// formatVersion is the version of the serialisation.
	formatVersion = 2
	// fixedHeaderSize is where the description begins.
	fixedHeaderSize = 48
	// maxDepth is how deep sub-events may be nested. Data collectors make one level.
	maxDepth = 8
	// formatName is FormatError.Format of this package's errors.
	formatName = "eudaq"
)

// Flags of an event that has a trigger number, and a time.
const (
	HasTrigger = 16
	HasTime    = 32
)

// Event is a view of one event. Docs: docs/format/eudaq.md.
type Event struct {
	Bytes              []byte // the whole event, sub-events included
	Description        []byte // the producer's name for its kind of data
	Flags              uint32 // 1 begin of run, 2 end of run, 4 fake, 8 packet, 16 has a trigger number, 32 has a time
	Stream             uint32 // number of the device
	Run                uint32
	Number             uint32 // of the event
	TriggerNumber      uint32
	BeginTime, EndTime uint64 // time, in units of the device
}

// HasSignature says whether a file that begins with head, at least 8 bytes, may hold events.
func HasSignature(head []byte) bool {
	return len(head) >= 8 && binary.LittleEndian.Uint32(head) == rawEventType &&
		binary.LittleEndian.Uint32(head[4:]) == formatVersion
}

// Parse views the first event in b; bytes after it are ignored. It appends the event's own sub-events to subs[:0], and
// allocates only if they do not fit. The error is a *event.FormatError of kind ErrTruncated, ErrUnsupported (another
// class or version) or ErrRange (sub-events nested more than maxDepth deep), with its offset from the start of b.
func Parse(b []byte, subs []Event) (Event, []Event, error) {
	p := parser{b: b, subs: subs[:0]}
	e := p.event(0)
	if p.err != nil {
		return Event{}, subs[:0], p.err
	}
	return e, p.subs, nil
}

// parser walks through an event. After an error it reads nothing more.
type parser struct {
	b      []byte
	offset int
	subs   []Event
	err    error
}

func (p *parser) fail(kind error, field string, at int, reason string, args ...any) {
	if p.err != nil {
		return
	}
	p.err = &event.FormatError{
		Format: formatName,
		Field:  field,
		Reason: fmt.Sprintf(reason, args...),
		Record: event.NoRecord,
		Offset: int64(at),
		Err:    kind,
	}
}

// next gives the next n bytes, or nil.
func (p *parser) next(n uint64, field string) []byte {
	if p.err != nil {
		return nil
	}
	if remaining := len(p.b) - p.offset; n > uint64(remaining) {
		p.fail(event.ErrTruncated, field, p.offset, "it takes %d bytes, %d are left", n, remaining)
		return nil
	}
	p.offset += int(n)
	return p.b[p.offset-int(n) : p.offset : p.offset]
}

func (p *parser) u32(field string) uint32 {
	if b := p.next(4, field); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// text reads a string: its length in bytes, and its bytes.
func (p *parser) text(field string) []byte { return p.next(uint64(p.u32(field)), field) }

// event reads an event that is nested in deep others.
func (p *parser) event(deep int) Event {
	from := p.offset
	h := p.next(fixedHeaderSize, "header")
	if h == nil {
		return Event{}
	}
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(h[at:]) }
	switch {
	case word(0) != rawEventType:
		p.fail(event.ErrUnsupported, "type", from, "class 0x%08X is not RawEvent, 0x%08X", word(0), rawEventType)
	case word(4) != formatVersion:
		p.fail(event.ErrUnsupported, "version", from+4, "version %d, only %d is known", word(4), formatVersion)
	case deep > maxDepth:
		p.fail(event.ErrRange, "sub-events", from, "they are nested more than %d deep", maxDepth)
	}
	e := Event{
		Flags:         word(8),
		Stream:        word(12),
		Run:           word(16),
		Number:        word(20),
		TriggerNumber: word(24),
		BeginTime:     binary.LittleEndian.Uint64(h[32:]),
		EndTime:       binary.LittleEndian.Uint64(h[40:]),
		Description:   p.text("description"),
	}
	for n := p.u32("number of tags"); n > 0 && p.err == nil; n-- {
		p.text("name of a tag")
		p.text("value of a tag")
	}
	for n := p.u32("number of blocks"); n > 0 && p.err == nil; n-- {
		p.u32("number of a block")
		p.text("block")
	}
	for n := p.u32("number of sub-events"); n > 0 && p.err == nil; n-- {
		if sub := p.event(deep + 1); deep == 0 && p.err == nil {
			p.subs = append(p.subs, sub)
		}
	}
	e.Bytes = p.b[from:p.offset:p.offset]
	return e
}
