package sink

import (
	"fmt"

	"ringlet/builderunit/recording"
	"ringlet/event"
)

// The way of a MEP to a file, one goroutine:
//
//  1. as MEP: written as it is, straight from the slot if it is large
//  2. as MFP: each of its MFPs likewise
//  3. as MDF: a cursor per MFP walks the events; each event's fragments are appended to the file's buffer as one record
//
// The bytes stay the caller's. The cursors and slices below are kept from MEP to MEP.

// bunchesPerOrbit divides event ids into orbit and bunch crossing in the headers of generated records: an LHC orbit has 3564
// places for bunches, so consecutive events look like consecutive crossings.
const bunchesPerOrbit = 3564

// encoder writes MEPs in a format. Its slices are scratch.
type encoder struct {
	mfps      []event.MFP
	cursors   []event.FragmentCursor
	fragments [][]byte
	sources   []event.SourceFragment
	rebuilder event.Rebuilder
}

func (e *encoder) write(out *stream, format recording.Format, m Meta, mep []byte) error {
	if err := e.parse(m, mep); err != nil {
		return out.fail(fmt.Sprintf("write MEP %d", m.MEP), err)
	}
	switch format {
	case recording.MDF:
		return e.records(out, m)
	case recording.MFP:
		for i := range e.mfps {
			if err := out.write(e.mfps[i].Bytes()); err != nil {
				return err
			}
		}
		return nil
	default:
		return out.write(mep)
	}
}

// parse views the MFPs and holds them against m.
func (e *encoder) parse(m Meta, mep []byte) error {
	packet, err := event.ParseMEP(mep)
	if err != nil {
		return err
	}
	if len(packet.Bytes()) != len(mep) {
		return fmt.Errorf("%w: it has %d bytes, %d were given", ErrMeta, len(packet.Bytes()), len(mep))
	}
	e.mfps = e.mfps[:0]
	for i := range packet.N() {
		p, err := packet.MFP(i)
		if err != nil {
			return err
		}
		if p.N() != m.Events || p.FirstEvent() != m.FirstEvent {
			return fmt.Errorf("%w: source %d has %d from %d, not %d from %d", ErrMeta, p.Source(), p.N(), p.FirstEvent(), m.Events, m.FirstEvent)
		}
		e.mfps = append(e.mfps, p)
	}
	return nil
}

// records appends one MDF record per event.
func (e *encoder) records(out *stream, m Meta) error {
	e.cursors, e.fragments, e.sources = e.cursors[:0], e.fragments[:0], e.sources[:0]
	for i := range e.mfps {
		p := &e.mfps[i]
		e.cursors = append(e.cursors, p.Cursor())
		e.fragments = append(e.fragments, nil)
		e.sources = append(e.sources, event.SourceFragment{Version: p.Version(), Source: p.Source()})
	}
	for i := range m.Events {
		if err := e.record(out, m, m.FirstEvent+uint64(i)); err != nil {
			return err
		}
	}
	return nil
}

// record appends the record of the event that all cursors step to next.
func (e *encoder) record(out *stream, m Meta, id uint64) (err error) {
	replayed := false
	for i := range e.cursors {
		c := &e.cursors[i]
		c.Next()
		e.fragments[i] = c.Data()
		e.sources[i].Type, e.sources[i].Data = c.Type(), c.Data()
		replayed = replayed || c.Type() == event.FragmentContainer
	}
	if replayed {
		out.buf, err = e.rebuilder.Append(out.buf, e.fragments)
	} else {
		out.buf, err = event.AppendRecordFromFragments(out.buf, event.MDFHeader{
			Run: m.Run, Orbit: uint32(id / bunchesPerOrbit), Bunch: uint32(id % bunchesPerOrbit),
		}, e.sources)
	}
	if err != nil {
		return out.fail(fmt.Sprintf("write event %d of MEP %d as an MDF record", id, m.MEP), err)
	}
	return out.drain()
}
