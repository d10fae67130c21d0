package sink

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ringlet/recording"
)

// The way of a MEP to the disk:
//
//  1. Write encodes it into a block (sequential: the holder of writeMu). A large piece is written to its place.
//  2. After the last byte of the MEP, the block gets the MEP's entry of the index, with the running checksum of the
//     segment.
//  3. A full block is handed over, and Write goes on in the other one. The holder of ioMu writes it: the background
//     goroutine, Flush, or Write itself when both blocks are full. It writes the data first, then the entries.
//  4. At durability Disk, Flush synchronises data and index of every open segment. Only its callers wait for that.
//  5. A segment that is large or old enough ends with the MEP. The background goroutine synchronises it, gives it its
//     name and lists it in the manifest, while Write goes on in the next.
//
// Locks are taken in the order writeMu, ioMu, mu; a segment's syncMu comes after ioMu and before mu.

// Defaults of a SegmentsConfig.
const (
	defaultSegmentBytes = 1 << 30
	defaultSegmentAge   = time.Minute
)

// maxBlockIdle is how long a MEP stays in a block at most before it is written, if Flush is not called.
const maxBlockIdle = time.Second

// maxClosing is how many segments may wait to be closed. Beyond that Write waits: the disk is slower than the data.
const maxClosing = 2

// SegmentsConfig describes the output of one builder unit to the directory of a run.
type SegmentsConfig struct {
	Dir     string        // of the run, from recording.OpenRun
	Run     uint32        // as given to OpenRun
	Key     recording.Key // as given to OpenRun
	Builder int           // index of the builder unit
	Format  recording.Format

	Node, Host, Program string // for the manifest

	MaxSegmentBytes int64         // a segment ends with the MEP that reaches this size; 0: defaultSegmentBytes
	MaxSegmentAge   time.Duration // a segment ends at this age; 0: defaultSegmentAge
	Durability      recording.Durability
	Now             func() time.Time // nil: time.Now
}

// Segments is the sink that records a run: output segments in its directory (package recording).
type Segments struct {
	// immutable after NewSegments
	c    SegmentsConfig
	hook hook
	wake chan struct{} // wakes the background goroutine; capacity 1
	quit chan struct{}
	done chan struct{} // the background goroutine has ended

	// writeMu is held by Write, and by a goroutine that ends a segment between two Writes
	writeMu          sync.Mutex
	out              stream
	enc              encoder
	currentSegment   *segment // being written; nil before the first MEP and between segments
	crc              uint32   // of the current segment up to crcAt
	crcAt            int      // bytes of out.buf that crc covers
	lastNumber       int      // of the last segment
	ended            bool
	closedAfterError bool

	// ioMu is held by the goroutine that writes blocks
	ioMu sync.Mutex

	mu              sync.Mutex
	changed         *sync.Cond    // uses mu: closingSegments has become shorter, or err is set
	fillingBlock    *segmentBlock // Write appends to it
	fullBlock       *segmentBlock // waits to be written, or is being written
	spareBlock      *segmentBlock // nil while there is a fullBlock
	openSegments    []*segment    // not closed yet
	closingSegments []*segment    // completely written, to be closed
	result          Result        // closed segments
	err             error         // the first error; final

	// endMu is held by Finish and Abort
	endMu    sync.Mutex
	finished bool
	endErr   error

	count counted[SegmentsStats]
}

// NewSegments makes the sink of one builder unit, and adds the builder unit to the run's manifest. The first MEP makes
// the first segment. The error is a *SinkError.
func NewSegments(c SegmentsConfig) (*Segments, error) { return newSegments(c, hook{}) }

func newSegments(c SegmentsConfig, h hook) (*Segments, error) {
	if c.MaxSegmentBytes <= 0 {
		c.MaxSegmentBytes = defaultSegmentBytes
	}
	if c.MaxSegmentAge <= 0 {
		c.MaxSegmentAge = defaultSegmentAge
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	s := &Segments{
		c:            c,
		hook:         h,
		wake:         make(chan struct{}, 1),
		quit:         make(chan struct{}),
		done:         make(chan struct{}),
		fillingBlock: newBlock(),
		spareBlock:   newBlock(),
	}
	s.changed = sync.NewCond(&s.mu)
	s.out = newStream(c.Dir, s)
	s.result.Path = c.Dir
	if err := s.register(); err != nil {
		return nil, wrapError(c.Dir, fmt.Sprintf("record builder unit %d", c.Builder), err)
	}
	go s.runBackground()
	return s, nil
}

// register enters the builder unit in the manifest, and finds there the number of its last segment. The next segment
// gets the number after it.
func (s *Segments) register() error {
	if !s.c.Format.Valid() {
		return fmt.Errorf("%v is not a format of segments", s.c.Format)
	}
	return recording.UpdateManifest(s.c.Dir, func(m *recording.Manifest) error {
		if m.Run != s.c.Run || m.Key != s.c.Key || m.Format != s.c.Format {
			return fmt.Errorf("the directory holds run %d with key %s as %s, and is to hold run %d with key %v as %v",
				m.Run, m.Key, m.Format, s.c.Run, s.c.Key, s.c.Format)
		}
		b := s.manifestEntry(m, recording.StateWriting)
		if n := len(b.Segments); n > 0 {
			s.lastNumber = b.Segments[n-1].Number
		}
		return nil
	})
}

// manifestEntry returns the entry of the builder unit in the manifest, after updating it.
func (s *Segments) manifestEntry(m *recording.Manifest, state recording.State) *recording.Builder {
	b := m.Builder(s.c.Builder)
	b.Node, b.Host, b.Program = s.c.Node, s.c.Host, s.c.Program
	b.Durability, b.State = s.c.Durability.String(), state
	return b
}

// Write appends the MEP. It allocates nothing once its buffers are warm. A MEP that cannot be written in the format,
// or that does not have the events of m, ends the output as a full disk does: the error is final, and the MEPs before
// are kept.
func (s *Segments) Write(ctx context.Context, m Meta, mep []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if s.ended {
		return wrapError(s.c.Dir, "write", errClosed)
	}
	err := s.failure()
	if err == nil {
		err = s.appendMEP(m, mep)
	}
	if err != nil {
		s.fail(err)
		s.closeAfterError()
	}
	return s.failure()
}

// appendMEP writes one MEP, and ends the segment if it is due.
func (s *Segments) appendMEP(m Meta, mep []byte) error {
	if s.currentSegment == nil {
		if err := s.beginSegment(); err != nil {
			return err
		}
	}
	from := s.endOffset()
	if err := s.enc.write(&s.out, s.c.Format, m, mep); err != nil {
		return err
	}
	s.appendEntry(m, from)
	if !s.segmentDue() {
		return nil
	}
	if err := s.retireSegment(); err != nil {
		return err
	}
	return s.waitForClosing()
}

// endOffset is the offset in the segment of the next byte.
func (s *Segments) endOffset() int64 { return s.fillingBlock.offset + int64(len(s.out.buf)) }

// segmentDue says whether the segment ends with the last MEP.
func (s *Segments) segmentDue() bool {
	return s.currentSegment != nil && (s.endOffset() >= s.c.MaxSegmentBytes ||
		s.c.Now().Sub(s.currentSegment.created) >= s.c.MaxSegmentAge)
}

func (s *Segments) beginSegment() error {
	g, err := s.createSegment()
	if err != nil {
		return err
	}
	s.currentSegment, s.crc, s.crcAt = g, 0, 0
	s.lastNumber = g.id.Number
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fillingBlock.reset(g, 0)
	s.out.buf = s.fillingBlock.data
	s.openSegments = append(s.openSegments, g)
	return nil
}

// retireSegment ends the segment: it hands its last block over, and the background goroutine closes it.
func (s *Segments) retireSegment() error {
	if err := s.handOver(true); err != nil {
		return err
	}
	s.currentSegment = nil
	return nil
}

// waitForClosing waits until fewer than maxClosing segments wait to be closed. The background goroutine, which closes
// them, must not call it.
func (s *Segments) waitForClosing() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.closingSegments) >= maxClosing && s.err == nil {
		s.changed.Wait()
	}
	return s.err
}

// Flush makes every MEP whose Write has returned as safe as the durability says. At DurabilityMemory it does nothing.
func (s *Segments) Flush() error {
	if s.c.Durability == recording.DurabilityMemory {
		return s.failure()
	}
	s.count.update(func(s *SegmentsStats) { s.Flushes++ })
	if err := s.writeOut(true); err != nil || s.c.Durability != recording.DurabilityDisk {
		return err
	}
	s.mu.Lock()
	open := append([]*segment(nil), s.openSegments...)
	s.mu.Unlock()
	for _, g := range open {
		if err := g.synchronise(&s.count); err != nil {
			s.fail(err)
		}
	}
	return s.failure()
}

// runBackground writes blocks, closes segments, and ends segments that have become old.
func (s *Segments) runBackground() {
	defer close(s.done)
	tick := time.NewTicker(max(min(maxBlockIdle, s.c.MaxSegmentAge), time.Millisecond))
	defer tick.Stop()
	for {
		due := false
		select {
		case <-s.quit:
			return
		case <-s.wake:
		case <-tick.C:
			due = true
		}
		if due && s.writeMu.TryLock() { // a Write under way checks the age itself
			if s.failure() == nil && s.segmentDue() {
				if err := s.retireSegment(); err != nil {
					s.fail(err)
				}
			}
			s.writeMu.Unlock()
		}
		_ = s.writeOut(due) // the error is kept
		s.closeWritten()
		if s.failure() != nil {
			s.writeMu.Lock()
			s.closeAfterError()
			s.writeMu.Unlock()
		}
	}
}

func (s *Segments) wakeBackground() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Finish closes the last segment and records in the manifest that the output is complete. A second call returns the
// same again.
func (s *Segments) Finish() (Result, error) { return s.close(recording.StateFinished) }

// Abort closes the last segment, too, but records in the manifest that the output was given up. After Finish it does
// nothing.
func (s *Segments) Abort() error {
	_, err := s.close(recording.StateGivenUp)
	return err
}

func (s *Segments) close(state recording.State) (Result, error) {
	s.endMu.Lock()
	defer s.endMu.Unlock()
	if s.finished {
		if state == recording.StateGivenUp {
			return s.result, nil
		}
		return s.result, s.endErr
	}
	s.finished = true
	s.writeMu.Lock()
	s.ended = true
	if s.currentSegment != nil && s.failure() == nil {
		if err := s.retireSegment(); err != nil {
			s.fail(err)
		}
	}
	s.writeMu.Unlock()
	close(s.quit)
	<-s.done
	_ = s.writeOut(true) // the error is kept
	s.closeWritten()
	if s.failure() != nil {
		state = recording.StateGivenUp
		s.writeMu.Lock()
		s.closeAfterError()
		s.writeMu.Unlock()
	}
	err := recording.UpdateManifest(s.c.Dir, func(m *recording.Manifest) error {
		s.manifestEntry(m, state)
		return nil
	})
	s.endErr = errors.Join(s.failure(), wrapError(s.c.Dir, "write the manifest", err))
	return s.result, s.endErr
}
