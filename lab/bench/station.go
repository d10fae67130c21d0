package bench

// A station is a node of the patterns. Pipeline of a write:
//
//	sender    1 send               (sequential)  waits for credit and for free slots; makes the words; WriteMany or Write
//	          2 transport          (parallel)    the carrier
//	receiver  3 Placed, PlacedMany (sequential)  checks each word where it lies; at times sends credit
//	sender    4 Completed          (parallel)    frees the slot; records the time
//
// Only the carrier connects the two sides: a sender knows about its receiver only by signals. Steps 1, 3 and 4 allocate
// only for the first error.

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"ringlet/shmem"
	"ringlet/transport"
	"ringlet/transport/link"
)

const (
	maxSlots  = 64 // batches under way from one sender to one receiver, if a batch is one write
	flowSlots = 8  // the same if a batch has several writes
	flowBatch = 64 // writes of a batch
)

// slotsOf is how many batches may be under way.
func slotsOf(batch int) int {
	if batch == 1 {
		return maxSlots
	}
	return flowSlots
}

// flow is all writes from one station to another, or to itself.
type flow struct {
	// immutable
	from, to       int
	size           int // bytes of a write
	batch          int // writes that travel together; 1: each alone
	slots          int // batches that may be under way
	refs           []shmem.Ref
	mem            []byte // the receiver's: a window for each of refs
	creditInterval int    // the receiver sends credit each time it has checked this many writes

	// owned by the sender
	next        uint64 // sequence of the next write
	sentBatches uint64
	nextBatch   int    // writes of the next batch
	data        []byte // of each batch that may be under way
	pieces      [maxSlots][]link.Piece
	began       [maxSlots]time.Time

	// atomic
	slotBusy       [maxSlots]atomic.Bool
	creditedWrites atomic.Uint64 // the sender's: writes that the receiver has checked, in sequence

	mu         sync.Mutex
	took       *hdr.Histogram // guarded by mu: from the call to the outcome; the last may come while a report is written
	roundTrips *hdr.Histogram // the sender's round trips, if the receiver answers; else nil

	// owned by the receiver's handler
	windowWrites     []uint64 // by window: writes that have arrived
	writesInSequence uint64   // writes that have arrived, in sequence
	creditReported   uint64

	// atomic, of the receiver
	checkedWrites atomic.Uint64 // writes
	wrongWords    atomic.Uint64
	misplaced     atomic.Uint64 // writes with another length or place than granted
	firstWrong    atomic.Pointer[string]
}

// newFlow makes a flow; the receiver grants its windows.
func newFlow(from, to, size, batch int, mem []byte) *flow {
	windows := len(mem) / size
	return &flow{
		from:           from,
		to:             to,
		size:           size,
		batch:          batch,
		slots:          slotsOf(batch),
		mem:            mem,
		data:           make([]byte, flowMemory(size, batch)),
		windowWrites:   make([]uint64, windows),
		creditInterval: max(1, windows/4),
		took:           newTimes(),
	}
}

// flowMemory is the memory of a flow, in bytes.
func flowMemory(size, batch int) int { return size * batch * slotsOf(batch) }

// station is one node.
type station struct {
	*end
	segment           *shmem.Segment
	outFlows, inFlows []*flow        // by rank; nil: no flow to or from that station
	onSignal          func()         // called for a signal; may be nil
	onWrite           func(rank int) // called when a write is seen; may be nil
	polled            bool           // an eventPoller checks the memory: the handler checks nothing, and gives no credit
	relayedAddr       string         // address that the others dial; "": its own
}

// grant grants the windows of a flow to its sender.
func (s *station) grant(l *flow, seg shmem.SegmentID, at int) error {
	for w := range l.windowWrites {
		r, err := s.table.Grant(shmem.Peer(l.from), seg, at+w*l.size, l.size, shmem.AccessNwrite)
		if err != nil {
			return err
		}
		l.refs = append(l.refs, r)
	}
	return nil
}

// Placed checks a write.
func (s *station) Placed(peer int, p transport.Placement) {
	if s.onWrite != nil {
		s.onWrite(s.rank)
	}
	s.checkPlacement(peer, &p)
	s.wakeWaiter()
}

// PlacedMany checks writes.
func (s *station) PlacedMany(peer int, ps []transport.Placement) {
	for i := range ps {
		s.checkPlacement(peer, &ps[i])
	}
	s.wakeWaiter()
}

func (s *station) checkPlacement(peer int, p *transport.Placement) {
	l := s.inFlows[peer]
	if s.polled || l == nil {
		s.placedWrites.Add(1)
		return
	}
	w := int(p.Imm)
	if w >= len(l.refs) || l.refs[w] != p.Ref || p.Offset != 0 || int(p.Length) != l.size {
		l.misplaced.Add(1)
		return
	}
	windows := uint64(len(l.windowWrites))
	seq := l.windowWrites[w]*windows + uint64(w)
	l.windowWrites[w]++
	if b := l.mem[w*l.size : (w+1)*l.size]; countWrong(b, l.from, seq) > 0 {
		l.recordWrong(b, seq)
	}
	for at := l.writesInSequence % windows; l.windowWrites[at] > l.writesInSequence/windows; {
		l.writesInSequence++
		at = l.writesInSequence % windows
	}
	l.checkedWrites.Add(1)
	if l.writesInSequence-l.creditReported >= uint64(l.creditInterval) {
		l.creditReported = l.writesInSequence
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], l.writesInSequence)
		if err := s.endpoint.Signal(peer, b[:]); err != nil {
			s.fail(err)
		}
	}
}

// recordWrong counts the wrong words of a write, and describes the first.
func (l *flow) recordWrong(b []byte, seq uint64) {
	l.wrongWords.Add(uint64(countWrong(b, l.from, seq)))
	if l.firstWrong.Load() != nil {
		return
	}
	for i := 0; i < len(b); i += wordSize {
		got := binary.LittleEndian.Uint64(b[i:])
		if got == word(l.from, seq, i/wordSize) {
			continue
		}
		source, other, index := decodeWord(got)
		why := fmt.Sprintf("word %d of write %d from n%d is %016x, which is word %d of write %d from n%d", i/wordSize, seq,
			l.from, got, index, other, source)
		l.firstWrong.CompareAndSwap(nil, &why)
		return
	}
}

// Signal takes credit, or an interrupt.
func (s *station) Signal(peer int, b []byte) {
	if l := s.outFlows[peer]; l != nil && len(b) == 8 {
		l.creditedWrites.Store(max(l.creditedWrites.Load(), binary.LittleEndian.Uint64(b)))
	} else if l == nil && s.onSignal != nil {
		s.onSignal()
	}
	s.wakeWaiter()
}

// Completed ends a batch.
func (s *station) Completed(peer int, cookie uint64, err error) {
	l := s.outFlows[peer]
	l.mu.Lock()
	_ = l.took.RecordValue(int64(time.Since(l.began[cookie]))) // at most 10 s: the link would be down
	l.mu.Unlock()
	l.slotBusy[cookie].Store(false)
	if err != nil {
		s.refusedWrites.Add(1)
		s.fail(err)
	}
	s.wakeWaiter()
}

// mergeTimes adds the times of a flow: round trips if the receiver answers, else times until the outcome.
func (l *flow) mergeTimes(into *hdr.Histogram) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.roundTrips != nil {
		into.Merge(l.roundTrips)
		return
	}
	into.Merge(l.took)
}

// limitWindows restricts a flow to the given number of windows.
func (l *flow) limitWindows(windows int) {
	l.windowWrites = l.windowWrites[:windows]
	// Credit comes at the end of each turn through the windows: a sender may wait there for the credit of the turn before.
	for l.creditInterval = max(1, windows/4); windows%l.creditInterval > 0; {
		l.creditInterval--
	}
}

// slot is the slot of the next batch.
func (l *flow) slot() int { return int(l.sentBatches % uint64(l.slots)) }

// canSend says whether the next batch may be sent: its slot is free, and the last writes into its windows are checked.
func (l *flow) canSend() bool {
	windows := uint64(len(l.windowWrites))
	return !l.slotBusy[l.slot()].Load() && l.next+uint64(l.nextBatch) <= l.creditedWrites.Load()+windows
}

// send sends up to n writes, at most a batch and not beyond the last window, when there is room. It returns how many it
// sent.
func (s *station) send(ctx context.Context, l *flow, n int) (int, error) {
	first := int(l.next % uint64(len(l.windowWrites)))
	n = min(n, l.batch, len(l.windowWrites)-first)
	l.nextBatch = n
	if err := s.await(ctx, l.canSend); err != nil {
		return 0, err
	}
	slot := l.slot()
	l.slotBusy[slot].Store(true)
	data := l.data[slot*l.batch*l.size:]
	for i := range n {
		fillWords(data[i*l.size:(i+1)*l.size], l.from, l.next+uint64(i))
	}
	l.next += uint64(n)
	l.sentBatches++
	l.began[slot] = time.Now()
	if l.batch == 1 {
		return n, s.endpoint.Write(l.to, link.Write{
			Ref:    l.refs[first],
			Data:   data[:l.size],
			Imm:    uint64(first),
			Cookie: uint64(slot),
		})
	}
	pieces := l.pieces[slot][:0]
	for i := range n {
		w := first + i
		pieces = append(pieces, link.Piece{
			Ref:  l.refs[w],
			Imm:  uint64(w),
			Data: data[i*l.size : (i+1)*l.size],
		})
	}
	l.pieces[slot] = pieces
	return n, s.endpoint.WriteMany(l.to, pieces, uint64(slot))
}

// idle says whether each batch has its outcome.
func (s *station) idle() bool {
	for _, l := range s.outFlows {
		if l == nil {
			continue
		}
		for i := range l.slotBusy {
			if l.slotBusy[i].Load() {
				return false
			}
		}
	}
	return true
}
