package frontend

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"ringlet/event"
	"ringlet/internal/crc32c"
	"ringlet/internal/netyield"
	"ringlet/velo"
)

// MakerConfig is the configuration of a Maker.
type MakerConfig struct {
	Seed            uint64
	FirstSource     int   // source id, which is the number of the board, of the first stream
	Streams         int   // boards
	Align           uint8 // log2 of the bytes fragments are padded to
	SampleAllStrips bool  // every strip is sampled and prepared
	Workers         int   // goroutines that make events; the bytes do not depend on it
	KeepTruth       bool  // keep the truth of events, for Truths
	KeptBlocks      int   // blocks kept in memory for later calls of FillMFP; 0: the last one alone
}

// Maker makes the MFPs of some boards. The first FillMFP of a block of events makes the events for all boards; the
// calls for the other boards use them again. One goroutine calls it.
type Maker struct {
	// immutable after NewMaker
	d   *Detector
	cfg MakerConfig

	// owned by the goroutine that calls; while a block is made, worker i owns workers[i] and the block's parts[i]
	workers      []*simulator
	blocks       []*block
	last         *block
	nextReplaced int // index of the block that the next one replaces, when KeptBlocks are in use
	truths       []Truth
}

// block is the events of one MEP.
type block struct {
	first  uint64
	n      int
	ranges []eventRange // of each worker
}

// eventRange is the part of a block that one worker has made: the events from event on.
type eventRange struct {
	event       int
	clusters    []velo.Cluster
	clusterEnds []uint32 // for each stream of each event: where its clusters end in clusters
}

// NewMaker makes a Maker of a detector. The error is a *ConfigError.
func NewMaker(d *Detector, c MakerConfig) (*Maker, error) {
	if c.FirstSource < 0 || c.Streams < 1 || c.FirstSource+c.Streams > velo.MaxBoards {
		return nil, &ConfigError{"sources", fmt.Sprintf("%d from %d on are not within the %d boards that a fragment can name",
			c.Streams, c.FirstSource, velo.MaxBoards)}
	}
	m := &Maker{d: d, cfg: c}
	for range max(1, c.Workers) {
		m.workers = append(m.workers, d.newSimulator(c.Seed, c.SampleAllStrips))
	}
	return m, nil
}

// MaxMFP is the largest MFP of n events, in bytes: all fragments are full.
func (m *Maker) MaxMFP(_ uint16, n int) int { return MaxMFP(n, m.cfg.Align) }

// MaxMFP is the largest MFP of n events of a board, in bytes, its fragments padded to 2^align.
func MaxMFP(n int, align uint8) int { return event.MaxMFPSize(n, velo.MaxBoardSize, align) }

// MinMFP is the smallest MFP of n events, in bytes: no fragment has a cluster.
func MinMFP(n int, align uint8) int {
	round := 1<<align - 1
	return event.MFPHeaderSize(n) + n*((velo.MinBoardSize+round)&^round)
}

// Truths are the truths of the events in the last MFP that FillMFP wrote, valid until its next call.
func (m *Maker) Truths() []Truth { return m.truths[:m.last.n] }

// WriteTruths writes Truths as lines of JSON; nothing without KeepTruth.
func (m *Maker) WriteTruths(w io.Writer) error {
	if !m.cfg.KeepTruth {
		return nil
	}
	out := json.NewEncoder(w)
	for i := range m.Truths() {
		if err := out.Encode(&m.truths[i]); err != nil {
			return fmt.Errorf("the truth of event %d cannot be written: %w", m.truths[i].Event, err)
		}
	}
	return nil
}

// FillMFP writes the MFP of a source for the n events from first into dst and returns its size in bytes and, if
// withCRC, its CRC-32C. dst must hold MaxMFP bytes.
func (m *Maker) FillMFP(dst []byte, source uint16, first uint64, n int,
	withCRC bool) (size int, crc uint32, err error) {
	stream := int(source) - m.cfg.FirstSource
	switch limit := MaxMFP(n, m.cfg.Align); {
	case n < 0 || n > event.MaxPacking || uint64(n) > event.EndOfRun-first:
		return 0, 0, fmt.Errorf("an MFP of %d events from event %d cannot be expressed", n, first)
	case stream < 0 || stream >= m.cfg.Streams:
		return 0, 0, fmt.Errorf("source %d is not one of the %d from %d on", source, m.cfg.Streams, m.cfg.FirstSource)
	case len(dst) < limit:
		return 0, 0, fmt.Errorf("the MFP of source %d for %d events needs room for %d bytes, there are %d", source, n, limit,
			len(dst))
	}
	b := m.findBlock(first, n)
	types, sizes := event.MFPTables(dst, n)
	clear(types)
	clear(sizes)
	round := 1<<m.cfg.Align - 1
	at := event.MFPHeaderSize(n)
	for i := range b.ranges {
		p := &b.ranges[i]
		for k := stream; k < len(p.clusterEnds); k += m.cfg.Streams {
			begin := uint32(0)
			if k > 0 {
				begin = p.clusterEnds[k-1]
			}
			ev := p.event + k/m.cfg.Streams
			length := velo.PutBoard(dst[at:], uint16(first+uint64(ev)), int(source), p.clusters[begin:p.clusterEnds[k]], 0)
			types[ev] = byte(velo.BankType)
			binary.LittleEndian.PutUint16(sizes[2*ev:], uint16(length))
			end := at + (length+round)&^round
			clear(dst[at+length : end])
			at = end
		}
	}
	event.PutMFPHeader(dst, event.MFPHeader{
		NumFragments: n,
		Size:         uint32(at),
		FirstEvent:   first,
		Source:       source,
		Align:        m.cfg.Align,
		Version:      velo.Version,
	})
	if withCRC {
		crc = crc32c.Sum(dst[:at])
	}
	return at, crc, nil
}

// findBlock returns the block of n events from first on, and makes it if it is not kept.
func (m *Maker) findBlock(first uint64, n int) *block {
	if b := m.last; b != nil && b.first == first && b.n == n {
		return b
	}
	for _, b := range m.blocks {
		if b.first == first && b.n == n {
			m.last = b
			return b
		}
	}
	if len(m.blocks) < max(1, m.cfg.KeptBlocks) {
		m.last = &block{ranges: make([]eventRange, len(m.workers))}
		m.blocks = append(m.blocks, m.last)
	} else {
		m.last = m.blocks[m.nextReplaced]
		m.nextReplaced = (m.nextReplaced + 1) % len(m.blocks)
	}
	m.makeBlock(m.last, first, n)
	return m.last
}

// makeBlock makes the events of a block, each worker a part of them.
func (m *Maker) makeBlock(b *block, first uint64, n int) {
	b.first, b.n = first, n
	if m.cfg.KeepTruth {
		for len(m.truths) < n {
			m.truths = append(m.truths, Truth{})
		}
	}
	if len(m.workers) == 1 {
		m.makeRange(m.workers[0], &b.ranges[0], first, 0, n)
		return
	}
	each, at := (n+len(m.workers)-1)/len(m.workers), 0
	var all sync.WaitGroup
	for i, worker := range m.workers {
		from, to := at, min(at+each, n)
		all.Go(func() { m.makeRange(worker, &b.ranges[i], first, from, to) })
		at = to
	}
	all.Wait()
}

// makeRange makes the events of a block from from up to to.
func (m *Maker) makeRange(worker *simulator, p *eventRange, first uint64, from, to int) {
	p.event, p.clusters, p.clusterEnds = from, p.clusters[:0], p.clusterEnds[:0]
	for i := from; i < to; i++ {
		truth := worker.simulate(first + uint64(i))
		if m.cfg.KeepTruth {
			t := &m.truths[i]
			*t = Truth{
				Event:     truth.Event,
				Displaced: truth.Displaced,
				Vertices:  append(t.Vertices[:0], truth.Vertices...),
				Tracks:    append(t.Tracks[:0], truth.Tracks...),
			}
		}
		for stream := range m.cfg.Streams {
			p.clusters = worker.appendBoardClusters(p.clusters, m.cfg.FirstSource+stream)
			p.clusterEnds = append(p.clusterEnds, uint32(len(p.clusters)))
		}
		// The goroutines of the network may wait for this processor: yield to them every millisecond or two.
		if i%4 == 3 {
			netyield.Yield()
		}
	}
}

// Renumber gives the n fragments of an MFP that FillMFP has written the event numbers from first on. The caller writes
// the first event in the MFP's header.
func (m *Maker) Renumber(mfp []byte, first uint64, n int) {
	_, sizes := event.MFPTables(mfp, n)
	round := 1<<m.cfg.Align - 1
	at := event.MFPHeaderSize(n)
	for i := range n {
		length := int(binary.LittleEndian.Uint16(sizes[2*i:]))
		velo.SetEvent(mfp[at:at+length], uint16(first+uint64(i)))
		at += (length + round) &^ round
	}
}
