package readoutunit

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"ringlet/readoutunit/source"
)

// Retention keeps the blocks that a readout unit has read until the scheduler says that their MEPs have an outcome. Blocks lie
// in one arena, in order, each contiguous; the arena's bytes belong to the source between Reserve and Commit, to the network
// from Get on, and are free again after Release.
type Retention struct {
	arena []byte // immutable

	mu     sync.Mutex // guards what follows
	freed  *sync.Cond
	blocks []kept // ring of blocks in order of MEP
	first  int    // index of the oldest in blocks
	n      int
	next   uint64 // MEP of the next block to come
	head   int    // where the next block would start
	high   int    // most bytes ever held
	held   int    // bytes held now
	closed bool
}

type kept struct {
	block source.Block
	off   int
}

// ErrRetention is returned for a MEP whose block is not held.
var ErrRetention = errors.New("block is not retained")

// NewRetention makes room for size bytes and at most blocks blocks.
func NewRetention(size, blocks int) *Retention {
	r := &Retention{arena: make([]byte, size), blocks: make([]kept, blocks)}
	r.freed = sync.NewCond(&r.mu)
	return r
}

// Reserve waits for n contiguous bytes for the next block. It fails when ctx ends or the retention is closed.
func (r *Retention) Reserve(ctx context.Context, n int) ([]byte, error) {
	if n > len(r.arena) {
		return nil, fmt.Errorf("a block of %d bytes does not fit into the readout unit's memory of %d", n, len(r.arena))
	}
	stop := context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.freed.Broadcast()
	})
	defer stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		switch off, ok := r.fit(n); {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case r.closed:
			return nil, errors.New("the readout unit is closed")
		case ok:
			r.head = off
			return r.arena[off : off+n], nil
		}
		r.freed.Wait()
	}
}

// fit finds n bytes behind the newest block, or at the arena's start when the end is too short.
func (r *Retention) fit(n int) (int, bool) {
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

// Commit keeps the block that was written to the bytes reserved last.
func (r *Retention) Commit(b *source.Block) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n > 0 && b.MEP != r.next {
		return fmt.Errorf("the source gave MEP %d where %d follows", b.MEP, r.next)
	}
	k := &r.blocks[(r.first+r.n)%len(r.blocks)]
	mfps := append(k.block.MFPs[:0], b.MFPs...)
	k.block, k.off = *b, r.head
	k.block.MFPs = mfps
	r.head += b.Size
	r.n++
	r.next = b.MEP + 1
	r.held += b.Size
	r.high = max(r.high, r.held)
	return nil
}

// Get returns the block of a MEP and its bytes. Both stay valid until the MEP is released.
func (r *Retention) Get(mep uint64) (*source.Block, []byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	oldest := r.next - uint64(r.n)
	if mep < oldest || mep >= r.next {
		return nil, nil, fmt.Errorf("%w: MEP %d; held are %d to %d", ErrRetention, mep, oldest, r.next)
	}
	k := &r.blocks[(r.first+int(mep-oldest))%len(r.blocks)]
	return &k.block, r.arena[k.off : k.off+k.block.Size], nil
}

// Release frees every block of a MEP below the given one.
func (r *Retention) Release(below uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.n > 0 && r.next-uint64(r.n) < below {
		r.held -= r.blocks[r.first].block.Size
		r.first = (r.first + 1) % len(r.blocks)
		r.n--
	}
	r.freed.Broadcast()
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
