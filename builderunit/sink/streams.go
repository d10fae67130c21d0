package sink

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"ringlet/internal/stopwatch"
)

// Pipeline of a MEP where a builder unit has several output streams (LHCb-EB §IV.B):
//
//	1 pick    (sequential: the builder unit)  the rule picks the stream that gets the MEP, or all streams get it
//	2 write   (sequential: the builder unit)  to one stream after the other; of all streams, one that lends is the last
//	3 flush   (parallel: another goroutine)   one stream after the other
//
// A stream that lends (see Lender) does not copy the MEP, but lends the memory of the slot to its readers, and the slot
// gets other memory. So the other streams must have copied the MEP before.
//
// A stream that waits, for a disk or a reader, makes the others wait, so that no stream loses a MEP because another one
// is slow. The first error of a stream ends the output; every stream is closed, and keeps the MEPs that it has.

// MaxStreams is how many output streams a builder unit may have.
const MaxStreams = 8

// Streams is the sink that divides MEPs among other sinks, its streams.
type Streams struct {
	// immutable
	route           Route
	streams         []*branch
	lastLenderIndex int // the last stream that lends; if all get each MEP, only it lends; -1: there is none

	writtenMEPs uint64 // owned by the goroutine that writes
}

// branch is a stream with its counters.
type branch struct {
	sink      Sink
	lender    Lender // nil: the stream does not lend
	label     string // for errors
	writeTime stopwatch.Stopwatch

	// atomic
	meps, events, bytes atomic.Uint64
}

// NewStreams divides MEPs among at least two sinks, which the Streams owns from now on.
func NewStreams(route Route, sinks []Sink) *Streams {
	s := &Streams{route: route, lastLenderIndex: -1}
	for i, to := range sinks {
		b := &branch{sink: to, label: fmt.Sprintf("output stream %d of %d", i, len(sinks))}
		if lender, ok := to.(Lender); ok && lender.Lends() {
			b.lender = lender
			s.lastLenderIndex = i
		}
		s.streams = append(s.streams, b)
	}
	return s
}

// Sinks returns the streams, in order.
func (s *Streams) Sinks() (list []Sink) {
	for _, b := range s.streams {
		list = append(list, b.sink)
	}
	return list
}

// Write writes the MEP to the stream that the rule picks, or to all.
func (s *Streams) Write(ctx context.Context, m Meta, mep []byte) error {
	return s.write(ctx, m, -1, mep)
}

// Lends says whether a stream lends.
func (s *Streams) Lends() bool { return s.lastLenderIndex >= 0 }

// Lend is Write of a MEP in a slot. Streams that do not lend get a copy.
func (s *Streams) Lend(ctx context.Context, m Meta, slot int, mep []byte) error {
	return s.write(ctx, m, slot, mep)
}

// write writes a MEP to its streams. slot is -1 if the MEP is in none.
func (s *Streams) write(ctx context.Context, m Meta, slot int, mep []byte) error {
	turn := s.writtenMEPs
	s.writtenMEPs++
	if !s.route.ToAll {
		return s.streams[s.route.pickStream(len(s.streams), turn, m, mep)].write(ctx, m, slot, mep)
	}
	for i, b := range s.streams {
		if i == s.lastLenderIndex {
			continue
		}
		if err := b.write(ctx, m, -1, mep); err != nil {
			return err
		}
	}
	if s.lastLenderIndex < 0 {
		return nil
	}
	return s.streams[s.lastLenderIndex].write(ctx, m, slot, mep)
}

func (b *branch) write(ctx context.Context, m Meta, slot int, mep []byte) (err error) {
	b.writeTime.Start()
	if slot >= 0 && b.lender != nil {
		err = b.lender.Lend(ctx, m, slot, mep)
	} else {
		err = b.sink.Write(ctx, m, mep)
	}
	b.writeTime.Stop()
	if err != nil {
		return fmt.Errorf("%s: %w", b.label, err)
	}
	b.meps.Add(1)
	b.events.Add(uint64(m.Events))
	b.bytes.Add(uint64(len(mep)))
	return nil
}

// Flush flushes every stream.
func (s *Streams) Flush() error {
	return s.each(func(b *branch) error { return b.sink.Flush() })
}

// each calls do for every stream, even after errors.
func (s *Streams) each(do func(*branch) error) error {
	var errs []error
	for _, b := range s.streams {
		if err := do(b); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", b.label, err))
		}
	}
	return errors.Join(errs...)
}

// Finish completes every stream. The result is their sum; a MEP that all streams got counts once, but its bytes count
// for each.
func (s *Streams) Finish() (sum Result, err error) {
	first := true
	err = s.each(func(b *branch) error {
		r, err := b.sink.Finish()
		if sum.Bytes, sum.Segments = sum.Bytes+r.Bytes, sum.Segments+r.Segments; !s.route.ToAll {
			r.MEPs, r.Events = sum.MEPs+r.MEPs, sum.Events+r.Events
		} else if !first {
			r.MEPs, r.Events = min(sum.MEPs, r.MEPs), min(sum.Events, r.Events)
		}
		first, sum.MEPs, sum.Events = false, r.MEPs, r.Events
		return err
	})
	return sum, err
}

// Abort gives every stream up.
func (s *Streams) Abort() error {
	return s.each(func(b *branch) error { return b.sink.Abort() })
}

// Written returns how many bytes the streams have taken so far.
func (s *Streams) Written() (n uint64) {
	for _, b := range s.streams {
		n += b.bytes.Load()
		if w, ok := b.sink.(interface{ Written() uint64 }); ok {
			n += w.Written()
		}
	}
	return n
}

// StreamStats are the counters of the streams, by number, if there are several.
type StreamStats struct {
	Streams map[string]StreamCounters `count:"output_stream_"`
}

// StreamCounters are the counters of one stream.
type StreamCounters struct {
	MEPs      uint64        `count:"meps" help:"MEPs given to an output stream, by its number"`
	Events    uint64        `count:"events" help:"events given to an output stream, by its number"`
	Bytes     uint64        `count:"bytes" unit:"bytes" help:"bytes of MEPs given to an output stream, by its number"`
	WriteTime time.Duration `count:"us" help:"time in an output stream, by its number"`
}

// Stats reads the counters, from any goroutine.
func (s *Streams) Stats() StreamStats {
	all := map[string]StreamCounters{}
	for i, b := range s.streams {
		all[strconv.Itoa(i)] = StreamCounters{
			MEPs:      b.meps.Load(),
			Events:    b.events.Load(),
			Bytes:     b.bytes.Load(),
			WriteTime: b.writeTime.Total(),
		}
	}
	return StreamStats{Streams: all}
}
