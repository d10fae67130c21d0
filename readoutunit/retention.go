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
// buffer belongs to the source between reserve and Commit, and to the network from then on, until Free says that
// nothing below a MEP is needed any more. What a builder unit holds up beyond that is put aside, or its buffer would
// stop all that come after it.
//
// One goroutine reads: it calls reserve and Commit. putAside and lookUp are called under a lock of the caller's. Any
// goroutine may call Free.
type Retention struct {
	// immutable
	mem    []byte
	stride int    // bytes of a buffer
	n      uint64 // buffers
	mask   uint64 // n - 1 where n is a power of two, else 0

	sizes []uint32 // of the part in each buffer; written before the MEP is committed, read after

	first uint64 // MEPs below are none of the unit's; 0 unless it came back in the run

	aside []asidePart // in order of MEP; guarded by the caller's lock

	mu     sync.Mutex // guards what follows
	freed  *sync.Cond
	read   uint64 // MEPs below are there
	below  uint64 // MEPs below are gone
	need   uint64 // buffers that the reader waits for; 0 if it does not
	high   uint64 // most buffers ever taken
	closed bool
}

// asidePart is a copy of a part that is held up.
type asidePart struct {
	mep  uint64
	part []byte
}

// errRetention is wrapped by the error for a MEP whose part is not held.
var errRetention = errors.New("block is not retained")

// errClosed is returned to who waits for memory of a readout unit that is closed.
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
		mem:    mem,
		stride: stride,
		n:      uint64(n),
		sizes:  make([]uint32, n),
	}
	if n&(n-1) == 0 {
		r.mask = r.n - 1
	}
	r.freed = sync.NewCond(&r.mu)
	return r, nil
}

// begin has the MEPs from the given one on read. It is called before anything else.
func (r *Retention) begin(mep uint64) { r.first, r.read, r.below = mep, mep, mep }

// reserve waits until least buffers are free, at most all of them, and gives those that lie one behind the other, which
// may be fewer. They are for the MEPs from the first on. It fails with ctx's cause or errClosed.
func (r *Retention) reserve(ctx context.Context, least int) (first uint64, s source.Strip, sizes []uint32, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	need := min(r.n, uint64(max(1, least)))
	var guard func() bool // only who waits must be woken when ctx ends
	defer func() {
		if guard != nil {
			guard()
		}
	}()
	for {
		switch {
		case ctx.Err() != nil:
			return 0, s, nil, context.Cause(ctx)
		case r.closed:
			return 0, s, nil, errClosed
		}
		if free := r.n - (r.read - r.below); free >= need {
			i := r.index(r.read)
			end := min(r.n, i+free)
			s = source.Strip{Mem: r.mem[int(i)*r.stride : int(end)*r.stride], Stride: r.stride}
			return r.read, s, r.sizes[i:end], nil
		}
		if guard == nil {
			guard = context.AfterFunc(ctx, r.wake)
		}
		r.need = need
		r.freed.Wait()
	}
}

func (r *Retention) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.freed.Broadcast()
}

// commit keeps the next blocks that were written to what was reserved.
func (r *Retention) commit(blocks int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read += uint64(blocks)
	r.need = 0
	r.high = max(r.high, r.read-r.below)
}

// span is which MEPs are held, but for those put aside.
func (r *Retention) span() span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return span{r.below, r.read}
}

// index is which buffer a MEP has. A division would take longer than all else that is done to find it.
func (r *Retention) index(mep uint64) uint64 {
	if r.mask > 0 {
		return mep & r.mask
	}
	return mep % r.n
}

// part is the part of a MEP that is held.
func (r *Retention) part(mep uint64) []byte {
	i := r.index(mep)
	at := int(i) * r.stride
	end := at + int(r.sizes[i])
	return r.mem[at:end:end]
}

// putAside keeps copies of the parts of the MEPs that are held up, which are in order, and lets go of those that were
// and are not any more. Their buffers may then be given up. It allocates, and copies each part once. Nothing is kept of
// what was given up before, by a decision: nobody fetches it.
func (r *Retention) putAside(heldUp []uint64) {
	r.aside = slices.DeleteFunc(r.aside, func(p asidePart) bool {
		_, is := slices.BinarySearch(heldUp, p.mep)
		return !is
	})
	gone := r.span().From
	for _, mep := range heldUp {
		if mep < r.first {
			continue
		}
		if at, is := r.find(mep); !is && mep >= gone {
			r.aside = slices.Insert(r.aside, at, asidePart{mep, bytes.Clone(r.part(mep))})
		}
	}
}

// setApart is the part of a MEP that was put aside, or nil.
func (r *Retention) setApart(mep uint64) []byte {
	if at, is := r.find(mep); is {
		return r.aside[at].part
	}
	return nil
}

func (r *Retention) find(mep uint64) (int, bool) {
	return slices.BinarySearchFunc(r.aside, mep, func(p asidePart, mep uint64) int { return cmp.Compare(p.mep, mep) })
}

// A span is which MEPs are in their buffers: from the first up to, but not with, the second.
type span struct{ From, To uint64 }

// lookUp is the part of a MEP that is held, in its buffer if that is in s, or aside.
func (r *Retention) lookUp(s span, mep uint64) ([]byte, error) {
	if mep >= s.From && mep < s.To {
		return r.part(mep), nil
	}
	if part := r.setApart(mep); part != nil {
		return part, nil
	}
	return nil, fmt.Errorf("%w: MEP %d; those from %d up to %d are, and %d that are held up",
		errRetention, mep, s.From, s.To, len(r.aside))
}

// Len is the number of buffers.
func (r *Retention) Len() int { return int(r.n) }

// free gives up every MEP below the given one, of those that were read. A watermark that goes back changes nothing.
func (r *Retention) free(below uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if below = min(below, r.read); below <= r.below {
		return
	}
	r.below = below
	if r.need > 0 && r.n-(r.read-r.below) >= r.need {
		r.need = 0
		r.freed.Broadcast()
	}
}

// held is how many parts are kept in buffers, and the bytes of the most buffers that ever were taken. What was put
// aside is not among them.
func (r *Retention) held() (parts, high int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int(r.read - r.below), int(r.high) * r.stride
}

// Close wakes and fails whoever waits.
func (r *Retention) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.freed.Broadcast()
}
