package readoutunit

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"ringlet/readoutunit/source"
)

// Retention keeps the blocks that a readout unit has read until the scheduler says that their MEPs have an outcome. Blocks lie
// in one arena, in order, each contiguous. The arena's bytes belong to the source between Reserve and Commit and to the network
// between Lend and Return; they are free again once the MEP is released and nothing of it is lent. The scheduler may release a
// MEP before the response of its write is here, and until then the link may still send the bytes again.
type Retention struct {
	// immutable
	arena  []byte
	stride int // bytes of a room where each block has one of its own, in rotation; else 0

	mu     sync.Mutex // guards what follows
	freed  *sync.Cond
	blocks []kept // ring of blocks in order of MEP
	first  int    // index of the oldest in blocks
	n      int
	begun  bool   // there was a first block
	next   uint64 // MEP of the next block to come
	below  uint64 // MEPs below are released
	head   int    // where the next block would start
	room   int    // bytes reserved there
	high   int    // most bytes ever held
	held   int    // bytes held now
	closed bool
}

type kept struct {
	block source.Block
	off   int // of its first byte in the arena
	lent  int // writes under way
}

// ErrRetention is wrapped by the error for a MEP whose block is not held.
var ErrRetention = errors.New("block is not retained")

// ErrClosed is returned to who waits for memory of a readout unit that is closed.
var ErrClosed = errors.New("the readout unit is closed")

// A BlockTooLargeError is a block that the readout unit's memory cannot hold even when it is empty.
type BlockTooLargeError struct {
	Need, Have int // bytes
}

func (e *BlockTooLargeError) Error() string {
	return fmt.Sprintf("a block may take %d bytes, but the readout unit's memory holds %d: lower the packing factor, "+
		"the streams or the fragment size", e.Need, e.Have)
}

// NewRetention makes room for size bytes and at most blocks blocks, at least one.
func NewRetention(size, blocks int) *Retention { return RetentionIn(make([]byte, size), blocks) }

// RetentionIn is NewRetention in memory of the caller's, who may take it back when unit and links are closed.
func RetentionIn(arena []byte, blocks int) *Retention {
	r := &Retention{arena: arena, blocks: make([]kept, max(1, blocks))}
	r.freed = sync.NewCond(&r.mu)
	return r
}

// RetentionInRooms is RetentionIn with a room of stride bytes for each block, in rotation: block k of all lies in room k mod the number of
// rooms. That is for a source which finds in a room what it left there.
func RetentionInRooms(arena []byte, stride int) (*Retention, error) {
	if stride < 1 || len(arena) < stride {
		return nil, &BlockTooLargeError{Need: stride, Have: len(arena)}
	}
	r := RetentionIn(arena, len(arena)/stride)
	r.stride = stride
	return r, nil
}

// Reserve waits for n contiguous bytes for the next block. It fails with ctx's cause, ErrClosed or a *BlockTooLargeError. One
// goroutine calls Reserve and Commit; a Reserve that no Commit follows is forgotten by the next.
func (r *Retention) Reserve(ctx context.Context, n int) ([]byte, error) {
	if room := r.largest(); n > room {
		return nil, &BlockTooLargeError{Need: n, Have: room}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var guard func() bool // only who waits must be woken when ctx ends
	defer func() {
		if guard != nil {
			guard()
		}
	}()
	for {
		switch off, ok := r.fit(n); {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case r.closed:
			return nil, ErrClosed
		case ok:
			r.head, r.room = off, n
			return r.arena[off : off+n : off+n], nil
		}
		if guard == nil {
			guard = context.AfterFunc(ctx, r.wake)
		}
		r.freed.Wait()
	}
}

// largest is the largest block there can be.
func (r *Retention) largest() int {
	if r.stride > 0 {
		return r.stride
	}
	return len(r.arena)
}

func (r *Retention) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.freed.Broadcast()
}

// fit finds n bytes behind the newest block, or at the arena's start when the end is too short.
func (r *Retention) fit(n int) (int, bool) {
	if r.stride > 0 {
		return (r.first + r.n) % len(r.blocks) * r.stride, r.n < len(r.blocks)
	}
	if r.n == 0 {
		return 0, true
	}
	if r.n == len(r.blocks) {
		return 0, false
	}
	tail := r.blocks[r.first].off
	if r.head > tail {
		if r.head+n <= len(r.arena) {
			return r.head, true
		}
		return 0, n <= tail
	}
	return r.head, r.head+n <= tail
}

// Commit keeps the block that was written to the bytes reserved last. It refuses one out of sequence, or larger than reserved.
func (r *Retention) Commit(b *source.Block) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.begun && b.MEP != r.next {
		return fmt.Errorf("the source gave MEP %d where %d follows", b.MEP, r.next)
	}
	if b.Size > r.room {
		return fmt.Errorf("the source says that MEP %d has %d bytes, for a block it was given %d", b.MEP, b.Size, r.room)
	}
	k := &r.blocks[(r.first+r.n)%len(r.blocks)]
	block := *b
	block.MFPs = k.block.MFPs[:0]
	block.MFPs = append(block.MFPs, b.MFPs...)
	*k = kept{block: block, off: r.head}
	r.head, r.room = r.head+b.Size, 0
	r.n++
	r.begun, r.next = true, b.MEP+1
	r.held += b.Size
	r.high = max(r.high, r.held)
	r.free()
	return nil
}

// find is the block of a MEP that is held and not released. mu is held.
func (r *Retention) find(mep uint64) (*kept, error) {
	oldest := r.next - uint64(r.n)
	if mep < max(oldest, r.below) || mep >= r.next {
		return nil, fmt.Errorf("%w: MEP %d; %d are, the next to come is %d, and what is below %d is released",
			ErrRetention, mep, r.n, r.next, r.below)
	}
	return &r.blocks[(r.first+int(mep-oldest))%len(r.blocks)], nil
}

// Get returns the block of a MEP and its bytes. Both stay valid until the MEP is released.
func (r *Retention) Get(mep uint64) (*source.Block, []byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k, err := r.find(mep)
	if err != nil {
		return nil, nil, err
	}
	return &k.block, r.bytes(k), nil
}

func (r *Retention) bytes(k *kept) []byte {
	end := k.off + k.block.Size
	return r.arena[k.off:end:end]
}

// Lend returns the bytes of a MEP for a write. They stay valid until Return, which the caller owes for every Lend, even if the
// MEP is released meanwhile.
func (r *Retention) Lend(mep uint64) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k, err := r.find(mep)
	if err != nil {
		return nil, err
	}
	k.lent++
	return r.bytes(k), nil
}

// Return ends a write begun by Lend. A Return that no Lend is behind changes nothing.
func (r *Retention) Return(mep uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	oldest := r.next - uint64(r.n)
	if mep < oldest || mep >= r.next {
		return
	}
	if k := &r.blocks[(r.first+int(mep-oldest))%len(r.blocks)]; k.lent > 0 {
		k.lent--
		r.free()
	}
}

// Release says that every MEP below the given one has its outcome. A watermark that goes back changes nothing.
func (r *Retention) Release(below uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.below = max(r.below, below)
	r.free()
}

// free lets go of the oldest blocks that are released and not lent. mu is held.
func (r *Retention) free() {
	before := r.n
	for r.n > 0 && r.next-uint64(r.n) < r.below && r.blocks[r.first].lent == 0 {
		r.held -= r.blocks[r.first].block.Size
		r.first = (r.first + 1) % len(r.blocks)
		r.n--
	}
	if r.n < before {
		r.freed.Broadcast()
	}
}

// Held is how many blocks and bytes are kept, and the most bytes there ever were.
func (r *Retention) Held() (blocks, bytes, high int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n, r.held, r.high
}

// Close wakes and fails whoever waits.
func (r *Retention) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.freed.Broadcast()
}
