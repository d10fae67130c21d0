package readoutunit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"ringlet/readoutunit/source"
)

// A Retention keeps the parts that a readout unit has read until the scheduler says that their MEPs have an outcome:
// buffers of one size in rotation, MEP k in buffer k mod N, so that neither a look-up nor a free list is needed. A
// buffer belongs to the source between reserve and commit, and to the network from then on, until freeBelow says that
// nothing below a MEP is needed any more. What a builder unit holds up beyond that is put aside, or its buffer would
// stop all that come after it.
//
// One goroutine reads: it calls reserve and commit. copyHeldUp and lookUp are called under a lock of the caller's. Any
// goroutine may call freeBelow.
type Retention struct {
	// immutable
	mem         []byte
	stride      int    // bytes of a buffer
	bufferCount uint64 // buffers
	mask        uint64 // n - 1 where n is a power of two, else 0

	sizes []uint32 // of the part in each buffer; written before the MEP is committed, read after

	firstMEP uint64 // MEPs below are none of the unit's; 0 unless it came back in the run

	heldUp []heldUpPart // in order of MEP; guarded by the caller's lock

	mu            sync.Mutex // guards what follows
	bufferFreed   *sync.Cond
	heldTo        uint64 // MEPs below are there
	heldFrom      uint64 // MEPs below are gone
	neededBuffers uint64 // buffers that the reader waits for; 0 if it does not
	maxHeld       uint64 // most buffers ever taken
}

// heldUpPart is a copy of a part that is held up.
type heldUpPart struct {
	mep  uint64
	part []byte
}

// errNotRetained is wrapped by the error for a MEP whose part is not held.
var errNotRetained = errors.New("block is not retained")

// errClosed is why what goes on in a readout unit that is closed ends.
var errClosed = errors.New("the readout unit is closed")

// A blockTooLargeError is a block that the readout unit's memory cannot hold even when it is empty.
type blockTooLargeError struct {
	Need, Have int // bytes
}

func (e *blockTooLargeError) Error() string {
	return fmt.Sprintf("a block may take %d bytes, but the readout unit's memory holds %d: lower the packing factor, "+
		"the streams or the fragment size", e.Need, e.Have)
}

// NewRetention makes as many buffers of stride bytes as mem holds. The caller may take mem back when unit and links are
// closed.
func NewRetention(mem []byte, stride int) (*Retention, error) {
	if stride < 1 || len(mem) < stride {
		return nil, &blockTooLargeError{Need: stride, Have: len(mem)}
	}
	n := len(mem) / stride
	r := &Retention{
		mem:         mem,
		stride:      stride,
		bufferCount: uint64(n),
		sizes:       make([]uint32, n),
	}
	if n&(n-1) == 0 {
		r.mask = r.bufferCount - 1
	}
	r.bufferFreed = sync.NewCond(&r.mu)
	return r, nil
}

// beginAt has the MEPs from the given one on read. It is called before anything else.
func (r *Retention) beginAt(mep uint64) { r.firstMEP, r.heldTo, r.heldFrom = mep, mep, mep }

// reserve waits until least buffers are free, at most all of them, and gives those that lie one behind the other, which
// may be fewer. They are for the MEPs from the first on. It fails with ctx's cause.
func (r *Retention) reserve(ctx context.Context,
	least int) (first uint64, s source.BufferStrip, sizes []uint32, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	need := min(r.bufferCount, uint64(max(1, least)))
	var stopWake func() bool // only who waits must be woken when ctx ends
	defer func() {
		if stopWake != nil {
			stopWake()
		}
	}()
	for {
		if ctx.Err() != nil {
			return 0, s, nil, context.Cause(ctx)
		}
		if free := r.bufferCount - (r.heldTo - r.heldFrom); free >= need {
			i := r.bufferIndex(r.heldTo)
			end := min(r.bufferCount, i+free)
			s = source.BufferStrip{Mem: r.mem[int(i)*r.stride : int(end)*r.stride], Stride: r.stride}
			return r.heldTo, s, r.sizes[i:end], nil
		}
		if stopWake == nil {
			stopWake = context.AfterFunc(ctx, r.wake)
		}
		r.neededBuffers = need
		r.bufferFreed.Wait()
	}
}

func (r *Retention) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bufferFreed.Broadcast()
}

// commit keeps the next blocks that were written to what was reserved.
func (r *Retention) commit(blocks int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heldTo += uint64(blocks)
	r.neededBuffers = 0
	r.maxHeld = max(r.maxHeld, r.heldTo-r.heldFrom)
}

// heldSpan is which MEPs are held, but for those put aside.
func (r *Retention) heldSpan() span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return span{r.heldFrom, r.heldTo}
}

// bufferIndex is which buffer a MEP has. A division would take longer than all else that is done to find it.
func (r *Retention) bufferIndex(mep uint64) uint64 {
	if r.mask > 0 {
		return mep & r.mask
	}
	return mep % r.bufferCount
}

// retainedPart is the part of a MEP that is held.
func (r *Retention) retainedPart(mep uint64) []byte {
	i := r.bufferIndex(mep)
	at := int(i) * r.stride
	end := at + int(r.sizes[i])
	return r.mem[at:end:end]
}

// partSize is the size of the part of a MEP that is held, in bytes.
func (r *Retention) partSize(mep uint64) int { return int(r.sizes[r.bufferIndex(mep)]) }

// copyHeldUp keeps copies of the parts of the MEPs that are held up, which are in order, and lets go of those that were
// and are not any more. Their buffers may then be given up. It allocates, and copies each part once. Nothing is kept of
// what was given up before, by a decision: nobody fetches it.
func (r *Retention) copyHeldUp(heldUp []uint64) {
	r.heldUp = slices.DeleteFunc(r.heldUp, func(p heldUpPart) bool {
		_, found := slices.BinarySearch(heldUp, p.mep)
		return !found
	})
	gone := r.heldSpan().From
	for _, mep := range heldUp {
		if mep < r.firstMEP {
			continue
		}
		if i, found := r.findHeldUp(mep); !found && mep >= gone {
			r.heldUp = slices.Insert(r.heldUp, i, heldUpPart{mep, bytes.Clone(r.retainedPart(mep))})
		}
	}
}

// heldUpPart is the part of a MEP that was put aside, or nil.
func (r *Retention) heldUpPart(mep uint64) []byte {
	if i, found := r.findHeldUp(mep); found {
		return r.heldUp[i].part
	}
	return nil
}

func (r *Retention) findHeldUp(mep uint64) (int, bool) {
	return slices.BinarySearchFunc(r.heldUp, mep, func(p heldUpPart, mep uint64) int { return cmp.Compare(p.mep, mep) })
}

// A span is which MEPs are in their buffers: from the first up to, but not with, the second.
type span struct{ From, To uint64 }

// lookUp is the part of a MEP that is held, in its buffer if that is in s, or aside.
func (r *Retention) lookUp(s span, mep uint64) ([]byte, error) {
	if mep >= s.From && mep < s.To {
		return r.retainedPart(mep), nil
	}
	if part := r.heldUpPart(mep); part != nil {
		return part, nil
	}
	return nil, fmt.Errorf("%w: MEP %d; those from %d up to %d are, and %d that are held up",
		errNotRetained, mep, s.From, s.To, len(r.heldUp))
}

// Len is the number of buffers.
func (r *Retention) Len() int { return int(r.bufferCount) }

// freeBelow gives up every MEP below the given one, of those that were read. A watermark that goes back changes
// nothing.
func (r *Retention) freeBelow(below uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if below = min(below, r.heldTo); below <= r.heldFrom {
		return
	}
	r.heldFrom = below
	if r.neededBuffers > 0 && r.bufferCount-(r.heldTo-r.heldFrom) >= r.neededBuffers {
		r.neededBuffers = 0
		r.bufferFreed.Broadcast()
	}
}

// usage is how many parts are kept in buffers, and the bytes of the most buffers that ever were taken. What was put
// aside is not among them.
func (r *Retention) usage() (parts, high int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int(r.heldTo - r.heldFrom), int(r.maxHeld) * r.stride
}
