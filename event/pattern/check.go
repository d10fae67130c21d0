package pattern

import (
	"fmt"

	"ringlet/event"
)

// contentError names the first difference between what a source must have sent and what arrived.
type contentError struct {
	// Source and Event name the fragment; if the MFP as a whole is wrong, Event is its first one.
	Source uint16
	Event  uint64
	// What differs: "byte", "fragment size", "fragment type", "source id", "version", "align".
	What string
	// Offset of the wrong byte in the fragment, in bytes. Zero where What is not "byte".
	Offset int
	// Want and Got are the two values of What.
	Want, Got uint64
}

func (e *contentError) Error() string {
	if e.What == "byte" {
		return fmt.Sprintf("source %d, event %d: byte %d of the fragment is 0x%02x, the generator wrote 0x%02x",
			e.Source, e.Event, e.Offset, e.Got, e.Want)
	}
	return fmt.Sprintf("source %d, event %d: %s is %d, the generator wrote %d", e.Source, e.Event, e.What, e.Got, e.Want)
}

// CheckFragment compares data with the fragment of (source, ev). The error is a *contentError.
func (p *Pattern) CheckFragment(source uint16, ev uint64, data []byte) error {
	h := mix(p.key(source) + ev*eventIncrement)
	if want := p.sizeByHash(source, ev, h); len(data) != want {
		return &contentError{
			Source: source,
			Event:  ev,
			What:   "fragment size",
			Want:   uint64(want),
			Got:    uint64(len(data)),
		}
	}
	if at, want, got := mismatch(data, h); at >= 0 {
		return &contentError{
			Source: source,
			Event:  ev,
			What:   "byte",
			Offset: at,
			Want:   uint64(want),
			Got:    uint64(got),
		}
	}
	return nil
}

// CheckMFP compares every header field, size, type and byte of m with what the generator writes for its source and
// events. The error is a *contentError with the first difference. Padding is not looked at: only a CRC covers it.
func (p *Pattern) CheckMFP(m event.MFP) error {
	source, first := m.Source(), m.FirstEvent()
	switch {
	case int(source) >= p.cfg.Sources:
		return &contentError{
			Source: source,
			Event:  first,
			What:   "source id",
			Want:   uint64(p.cfg.Sources - 1),
			Got:    uint64(source),
		}
	case m.Version() != Version:
		return &contentError{
			Source: source,
			Event:  first,
			What:   "version",
			Want:   uint64(Version),
			Got:    uint64(m.Version()),
		}
	case m.Align() != p.cfg.Align:
		return &contentError{
			Source: source,
			Event:  first,
			What:   "align",
			Want:   uint64(p.cfg.Align),
			Got:    uint64(m.Align()),
		}
	}
	kind := p.FragmentType(source)
	group, large := &p.sizes[p.group(source)], p.cfg.LargeFragments.hasLarge(source)
	key := p.key(source) + first*eventIncrement
	for c := m.Cursor(); c.Next(); key += eventIncrement {
		data := c.Data()
		h := mix(key)
		size := group.lookUp(h)
		if large {
			size *= p.cfg.LargeFragments.factorAt(c.Event())
		}
		if len(data) == size && c.Type() == kind {
			if at, _, _ := mismatch(data, h); at < 0 {
				continue
			}
		}
		if c.Type() != kind {
			return &contentError{
				Source: source,
				Event:  c.Event(),
				What:   "fragment type",
				Want:   uint64(kind),
				Got:    uint64(c.Type()),
			}
		}
		return p.CheckFragment(source, c.Event(), data)
	}
	return nil
}
