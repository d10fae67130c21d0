package readoutunit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"ringlet/source"
)

// A Retention keeps the parts that a readout unit has read until the scheduler says that their MEPs have an outcome:
// buffers of one size in rotation, MEP k in buffer k mod N, so that neither a look-up nor a free list is needed. A
// buffer belongs to the source between reserve and commit, and to the network from then on, until freeBelow says that
// nothing below a MEP is needed any more. What a builder unit holds up beyond that is put aside, or its buffer would
// stop all that come after it.
//
// It takes no lock: it belongs to the unit's core, and is used under the lock of that. What was reserved is written
// without.
type Retention struct {
	// immutable
	mem         []byte
	stride      int    // bytes of a buffer
	bufferCount uint64 // buffers
	mask        uint64 // n - 1 where n is a power of two, else 0

	sizes []uint32 // of the part in each buffer; written before the MEP is committed, read after

	firstMEP uint64 // MEPs below are none of the unit's; 0 unless it came back in the run

	heldUp []heldUpPart // in order of MEP

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
	return r, nil
}

// beginAt has the MEPs from the given one on read. It is called before anything else.
func (r *Retention) beginAt(mep uint64) { r.firstMEP, r.heldTo, r.heldFrom = mep, mep, mep }

// reserve gives buffers that are free and lie one behind the other, for the MEPs from the first on: where so many are
// free, at most all of them, but they may be fewer. False: so many are not free. The freeBelow that frees them says so.
func (r *Retention) reserve(least int) (first uint64, s source.BufferStrip, sizes []uint32, ok bool) {
	need, free := min(r.bufferCount, uint64(max(1, least))), r.bufferCount-(r.heldTo-r.heldFrom)
	if free < need {
		r.neededBuffers = need
		return 0, s, nil, false
	}
	i := r.bufferIndex(r.heldTo)
	end := min(r.bufferCount, i+free)
	s = source.BufferStrip{Mem: r.mem[int(i)*r.stride : int(end)*r.stride], Stride: r.stride}
	return r.heldTo, s, r.sizes[i:end], true
}

// commit keeps the next blocks that were written to what was reserved.
func (r *Retention) commit(blocks int) {
	r.heldTo += uint64(blocks)
	r.maxHeld = max(r.maxHeld, r.heldTo-r.heldFrom)
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
	for _, mep := range heldUp {
		if mep < r.firstMEP {
			continue
		}
		if i, found := r.findHeldUp(mep); !found && mep >= r.heldFrom {
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

// lookUp is the part of a MEP that is held, in its buffer or aside.
func (r *Retention) lookUp(mep uint64) ([]byte, error) {
	if mep >= r.heldFrom && mep < r.heldTo {
		return r.retainedPart(mep), nil
	}
	if part := r.heldUpPart(mep); part != nil {
		return part, nil
	}
	return nil, fmt.Errorf("%w: MEP %d; those from %d up to %d are, and %d that are held up",
		errNotRetained, mep, r.heldFrom, r.heldTo, len(r.heldUp))
}

// Len is the number of buffers.
func (r *Retention) Len() int { return int(r.bufferCount) }

// freeBelow gives up every MEP below the given one, of those that were read. A watermark that goes back changes
// nothing. It reports true once there are as many buffers free as reserve wanted in vain.
func (r *Retention) freeBelow(below uint64) (enough bool) {
	r.heldFrom = max(r.heldFrom, min(below, r.heldTo))
	if enough = r.neededBuffers > 0 && r.bufferCount-(r.heldTo-r.heldFrom) >= r.neededBuffers; enough {
		r.neededBuffers = 0
	}
	return enough
}

// usage is how many parts are kept in buffers, and the bytes of the most buffers that ever were taken. What was put
// aside is not among them.
func (r *Retention) usage() (parts, high int) {
	return int(r.heldTo - r.heldFrom), int(r.maxHeld) * r.stride
}
