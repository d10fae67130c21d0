package selection

import (
	"fmt"
	"iter"

	"ringlet/event"
)

// Packet is a view of one MEP, from which events can be copied. Its zero value is ready for Parse, and each Parse
// replaces the MEP; it is for one goroutine at a time.
type Packet struct {
	Meta
	mfps      []event.MFP
	cursors   []event.FragmentCursor
	fragments []Fragment // of the event that Events shows
}

// Meta says where a MEP comes from, which its bytes do not.
type Meta struct {
	Run     uint32 // number of the run
	MEP     uint64 // number of the MEP
	Attempt uint32 // how often the MEP was given to a builder unit, from 1; 0: not known
	Builder string // name of the node that built the MEP; empty: not known
}

// Parse views a MEP, and checks that all its MFPs cover the same events. The bytes must not change while the packet is
// in use. The error is one of event.ParseMEP or event.ParseMFP, or of kind event.ErrOrder.
func (p *Packet) Parse(meta Meta, mep []byte) error {
	p.Meta, p.mfps = meta, p.mfps[:0]
	packet, err := event.ParseMEP(mep)
	if err != nil {
		return err
	}
	for i := range packet.NumMFPs() {
		m, err := packet.MFP(i)
		if err == nil && i > 0 && (m.FirstEvent() != p.mfps[0].FirstEvent() || m.NumFragments() != p.mfps[0].NumFragments()) {
			err = fmt.Errorf("MEP %d: source %d has %d events from %d, source %d has %d from %d: %w", meta.MEP, m.Source(),
				m.NumFragments(), m.FirstEvent(), p.mfps[0].Source(), p.mfps[0].NumFragments(), p.mfps[0].FirstEvent(),
				event.ErrOrder)
		}
		if err != nil {
			p.mfps = p.mfps[:0]
			return err
		}
		p.mfps = append(p.mfps, m)
	}
	return nil
}

// NumEvents is the number of events.
func (p *Packet) NumEvents() int {
	if len(p.mfps) == 0 {
		return 0
	}
	return p.mfps[0].NumFragments()
}

// firstEvent is the number of event 0; of a packet without events 0.
func (p *Packet) firstEvent() uint64 {
	if len(p.mfps) == 0 {
		return 0
	}
	return p.mfps[0].FirstEvent()
}

// cutBytes is how many bytes a copied event has of a fragment above event.MaxNarrowFragment: people look at its
// beginning.
const cutBytes = 1 << 10

// copiedBytes is how many of a fragment's bytes a copied event has.
func copiedBytes(size int) int {
	if size > event.MaxNarrowFragment {
		return cutBytes
	}
	return size
}

// Event is a copy of event i, with or without the data of its fragments. Of a fragment above event.MaxNarrowFragment it
// has the first 1,024 bytes; Size is that of the fragment. It panics unless 0 ≤ i < N.
func (p *Packet) Event(i int, data bool) Event {
	e := p.head(i)
	for k := range p.mfps {
		m := &p.mfps[k]
		f := Fragment{
			Source:  m.Source(),
			Type:    m.FragmentType(i),
			Version: m.Version(),
			Size:    m.FragmentSize(i),
		}
		e.Fragments = append(e.Fragments, f)
	}
	if !data {
		return e
	}
	all := make([]byte, 0, p.CopiedSize(i))
	for k := range p.mfps {
		from := len(all)
		all = append(all, p.mfps[k].Fragment(i)[:copiedBytes(e.Fragments[k].Size)]...)
		e.Fragments[k].Data = all[from:len(all):len(all)]
	}
	return e
}

// CopiedSize is how many bytes the fragments have in a copy of event i with data.
func (p *Packet) CopiedSize(i int) (size int) {
	for k := range p.mfps {
		size += copiedBytes(p.mfps[k].FragmentSize(i))
	}
	return size
}

// head is event i without fragments, but with room for them.
func (p *Packet) head(i int) Event {
	return Event{
		Meta:      p.Meta,
		Number:    p.mfps[0].FirstEvent() + uint64(i),
		Fragments: make([]Fragment, 0, len(p.mfps)),
	}
}

// Events ranges over all events in order, with their data. An event is a view of the MEP, valid until the next one.
func (p *Packet) Events() iter.Seq[Event] {
	return func(yield func(Event) bool) {
		if p.NumEvents() == 0 {
			return
		}
		p.cursors = p.cursors[:0]
		for k := range p.mfps {
			p.cursors = append(p.cursors, p.mfps[k].Cursor())
		}
		e := Event{Meta: p.Meta, Fragments: p.fragments}
		for range p.NumEvents() {
			e.Fragments = e.Fragments[:0]
			for k := range p.cursors {
				c := &p.cursors[k]
				c.Next()
				e.Number = c.Event()
				e.Fragments = append(e.Fragments, Fragment{
					Source:  p.mfps[k].Source(),
					Type:    c.Type(),
					Version: p.mfps[k].Version(),
					Size:    len(c.Data()),
					Data:    c.Data(),
				})
			}
			p.fragments = e.Fragments
			if !yield(e) {
				return
			}
		}
	}
}

// Event is one built event.
type Event struct {
	Meta
	Number    uint64 // the event number
	Fragments []Fragment
}

// Fragment is the data of one source for the event.
type Fragment struct {
	Source  uint16
	Type    event.BankType
	Version uint8
	Size    int    // bytes
	Data    []byte // nil: the Spec asks for no data
}

// Size is the size of all the event's fragments in bytes.
func (e *Event) Size() (n int) {
	for i := range e.Fragments {
		n += e.Fragments[i].Size
	}
	return n
}

// hasData says whether a fragment comes with its bytes.
func (e *Event) hasData() bool {
	for i := range e.Fragments {
		if e.Fragments[i].Data != nil {
			return true
		}
	}
	return false
}
