package readoutunit

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"

	"ringlet/readoutunit/source"
)

// Retention keeps the blocks that a readout unit has read until the scheduler says that their MEPs have an outcome. Blocks lie in rooms
// of one size, each in one of its own, and leave in any order: what a builder unit holds up takes no room but its own. A room's bytes
// belong to the source between Reserve and Commit and to the network between Lend and Return; it is free again once the MEP is
// released and nothing of it is lent. The scheduler may release a MEP before the response of its write is here, and until then the
// link may still send the bytes again.
type Retention struct {
	// immutable
	arena   []byte
	stride  int  // bytes of a room
	rotates bool // block k of all lies in room k mod the number of rooms
	mask    uint64

	mu       sync.Mutex // guards what follows
	freed    *sync.Cond
	rooms    []kept
	chains   []int32  // 1 + the first room of the MEPs that end alike, by MEP & mask; 0 for none
	free     []int32  // rooms, the last used on top: its memory is in the cache. Empty where rooms are taken in rotation
	reserved int32    // room, or -1
	room     int      // bytes reserved there
	n        int      // blocks held
	begun    bool     // there was a first block
	next     uint64   // MEP of the next block to come
	turn     int      // blocks that came, modulo the number of rooms
	below    uint64   // MEPs below are released, but those held up
	swept    uint64   // blocks of MEPs below were looked at
	heldUp   []uint64 // those of them that are not released, in order
	high     int      // most bytes ever held
	held     int      // bytes held now
	closed   bool
}

// kept is a room with a block; with none when next is vacant.
type kept struct {
	block    source.Block
	lent     int   // writes under way
	next     int32 // 1 + the next room of the chain; 0 for none
	released bool
}

// vacant stands in kept.next of a room without a block.
const vacant = -1

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

// NewRetention makes so many rooms, at least one, of size bytes each.
func NewRetention(size, rooms int) *Retention {
	size = max(1, size)
	return newRetention(make([]byte, size*max(1, rooms)), size)
}

// RetentionIn is NewRetention in memory of the caller's, who may take it back when unit and links are closed.
func RetentionIn(arena []byte, size int) (*Retention, error) {
	if size < 1 || len(arena) < size {
		return nil, &BlockTooLargeError{Need: size, Have: len(arena)}
	}
	return newRetention(arena, size), nil
}

// RetentionInRotation is RetentionIn with rooms taken in strict rotation: block k of all lies in room k mod the number of rooms. That is
// for a source which finds in a room what it left there. A block that is held up then stops those that come to its room.
func RetentionInRotation(arena []byte, size int) (*Retention, error) {
	r, err := RetentionIn(arena, size)
	if err == nil {
		r.rotates, r.free = true, nil
	}
	return r, err
}

func newRetention(arena []byte, size int) *Retention {
	n := len(arena) / size
	chains := 1 << bits.Len(uint(n-1))
	r := &Retention{arena: arena, stride: size, mask: uint64(chains - 1), rooms: make([]kept, n), chains: make([]int32, chains), reserved: -1}
	for i := range r.rooms {
		r.rooms[i].next = vacant
		r.free = append(r.free, int32(n-1-i))
	}
	r.freed = sync.NewCond(&r.mu)
	return r
}

// Reserve waits for a room and gives n bytes of it for the next block. It fails with ctx's cause, ErrClosed or a *BlockTooLargeError. One
// goroutine calls Reserve and Commit; a Reserve that no Commit follows is forgotten by the next.
func (r *Retention) Reserve(ctx context.Context, n int) ([]byte, error) {
	if n > r.stride {
		return nil, &BlockTooLargeError{Need: n, Have: r.stride}
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
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case r.closed:
			return nil, ErrClosed
		case r.take():
			r.room = n
			off := int(r.reserved) * r.stride
			return r.arena[off : off+n : off+n], nil
		}
		if guard == nil {
			guard = context.AfterFunc(ctx, r.wake)
		}
		r.freed.Wait()
	}
}

func (r *Retention) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.freed.Broadcast()
}

// take reserves a room, unless one is reserved already. It reports false when none is free. mu is held.
func (r *Retention) take() bool {
	last := len(r.free) - 1
	switch {
	case r.reserved >= 0:
	case r.rotates && r.rooms[r.turn].next == vacant:
		r.reserved = int32(r.turn)
	case !r.rotates && last >= 0:
		r.reserved = r.free[last]
		r.free = r.free[:last]
	default:
		return false
	}
	return true
}

// Commit keeps the block that was written to the bytes reserved last. It refuses one out of sequence, or larger than reserved.
func (r *Retention) Commit(b *source.Block) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.begun && b.MEP != r.next {
		return fmt.Errorf("the source gave MEP %d where %d follows", b.MEP, r.next)
	}
	if b.Size > r.room || r.reserved < 0 {
		return fmt.Errorf("the source says that MEP %d has %d bytes, for a block it was given %d", b.MEP, b.Size, r.room)
	}
	if !r.begun {
		r.begun, r.swept = true, b.MEP
	}
	k := &r.rooms[r.reserved]
	block := *b
	block.MFPs = k.block.MFPs[:0]
	block.MFPs = append(block.MFPs, b.MFPs...)
	chain := &r.chains[b.MEP&r.mask]
	*k = kept{block: block, next: *chain}
	*chain = r.reserved + 1
	r.reserved, r.room = -1, 0
	if r.turn++; r.turn == len(r.rooms) {
		r.turn = 0
	}
	r.n++
	r.next = b.MEP + 1
	r.held += b.Size
	r.high = max(r.high, r.held)
	return nil
}

// find is the room of a MEP, or -1. mu is held.
func (r *Retention) find(mep uint64) int32 {
	i := r.chains[mep&r.mask] - 1
	for i >= 0 && r.rooms[i].block.MEP != mep {
		i = r.rooms[i].next - 1
	}
	return i
}

// kept is the room of a MEP that is held and not released. mu is held.
func (r *Retention) kept(mep uint64) (int32, error) {
	if i := r.find(mep); i >= 0 && !r.rooms[i].released {
		return i, nil
	}
	return 0, fmt.Errorf("%w: MEP %d; %d are, the next to come is %d, and what is below %d is released, but for %d that are held up",
		ErrRetention, mep, r.n, r.next, r.below, len(r.heldUp))
}

// Get returns the block of a MEP and its bytes. Both stay valid until the MEP is released.
func (r *Retention) Get(mep uint64) (*source.Block, []byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, err := r.kept(mep)
	if err != nil {
		return nil, nil, err
	}
	return &r.rooms[i].block, r.bytes(i), nil
}

func (r *Retention) bytes(i int32) []byte {
	off := int(i) * r.stride
	end := off + r.rooms[i].block.Size
	return r.arena[off:end:end]
}

// Lend returns the bytes of a MEP for a write. They stay valid until Return, which the caller owes for every Lend, even if the
// MEP is released meanwhile.
func (r *Retention) Lend(mep uint64) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, err := r.kept(mep)
	if err != nil {
		return nil, err
	}
	r.rooms[i].lent++
	return r.bytes(i), nil
}

// Return ends a write begun by Lend. A Return that no Lend is behind changes nothing.
func (r *Retention) Return(mep uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := r.find(mep); i >= 0 && r.rooms[i].lent > 0 {
		r.rooms[i].lent--
		r.vacate(i)
	}
}

// Release says that every MEP below the given one has its outcome, but those held up, which are in order. A watermark that goes back
// changes nothing.
func (r *Retention) Release(below uint64, heldUp []uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	still := r.heldUp[:0]
	for _, mep := range r.heldUp {
		still = r.letGo(mep, heldUp, still)
	}
	r.below = max(r.below, below)
	for end := min(r.below, r.next); r.swept < end; r.swept++ {
		still = r.letGo(r.swept, heldUp, still)
	}
	r.heldUp = still
}

// letGo releases a MEP, unless it is held up: then it appends it to still. mu is held.
func (r *Retention) letGo(mep uint64, heldUp, still []uint64) []uint64 {
	if _, is := slices.BinarySearch(heldUp, mep); is {
		return append(still, mep)
	}
	if i := r.find(mep); i >= 0 {
		r.rooms[i].released = true
		r.vacate(i)
	}
	return still
}

// vacate makes a room free whose block is released and not lent. mu is held.
func (r *Retention) vacate(i int32) {
	k := &r.rooms[i]
	if !k.released || k.lent > 0 {
		return
	}
	link := &r.chains[k.block.MEP&r.mask]
	for *link != i+1 {
		link = &r.rooms[*link-1].next
	}
	*link = k.next
	k.next = vacant
	r.held -= k.block.Size
	r.n--
	if !r.rotates {
		r.free = append(r.free, i)
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
