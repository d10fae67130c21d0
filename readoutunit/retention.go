package readoutunit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"ringlet/source"
)

// A Retention keeps the parts that a readout unit has read until the scheduler reports an outcome of their MEPs:
// buffers of one size in rotation, MEP k in buffer k mod N, so that neither a look-up nor a free list is needed. A
// buffer belongs to the source between reserve and commit, and to the network from then on, until freeBelow frees its
// MEP. Parts that a builder unit holds up longer are copied aside: their buffers would otherwise stop all buffers after
// them.
//
// It takes no lock: the unit's core owns it and uses it under the core's lock. The source writes reserved buffers
// without the lock.
type Retention struct {
	// immutable
	mem         []byte
	stride      int    // bytes of a buffer
	bufferCount uint64 // buffers
	mask        uint64 // bufferCount - 1 if that is a power of two, else 0

	sizes []uint32 // of the part in each buffer; written before commit, read after

	firstMEP uint64 // the unit has no MEP below; 0 unless it rejoined in the run

	heldUp []heldUpPart // in order of MEP

	heldTo        uint64 // MEPs below have been read
	heldFrom      uint64 // MEPs below are freed
	neededBuffers uint64 // free buffers that the reader waits for; 0 if it does not wait
	maxHeld       uint64 // highest number of buffers in use so far
}

// heldUpPart is a copy of the part of a MEP that is held up.
type heldUpPart struct {
	mep  uint64
	part []byte
}

// errNotRetained is wrapped by the error for a MEP whose part the Retention does not have.
var errNotRetained = errors.New("the readout unit does not hold its part of the MEP")

// errClosed is the cause with which Close ends the unit's goroutines.
var errClosed = errors.New("the readout unit is closed")

// A blockTooLargeError is a block that does not fit into the readout unit's memory even when that is empty.
type blockTooLargeError struct {
	Need, Have int // bytes
}

func (e *blockTooLargeError) Error() string {
	return fmt.Sprintf("a block may take %d bytes, but the readout unit's memory holds %d: lower the packing factor, "+
		"the streams or the fragment size", e.Need, e.Have)
}

// NewRetention divides mem into buffers of stride bytes. The caller may use mem again when unit and links are closed.
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

// beginAt sets the first MEP that will be read. It is called before anything else.
func (r *Retention) beginAt(mep uint64) { r.firstMEP, r.heldTo, r.heldFrom = mep, mep, mep }

// reserve returns consecutive free buffers for the MEPs from first on: at most all buffers, and possibly fewer than
// least where the memory ends. ok is false if fewer than least buffers are free; the freeBelow that frees enough
// reports it.
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

// commit keeps the next blocks, which the source has written into reserved buffers.
func (r *Retention) commit(blocks int) {
	r.heldTo += uint64(blocks)
	r.maxHeld = max(r.maxHeld, r.heldTo-r.heldFrom)
}

// bufferIndex is the buffer of a MEP. A division would take longer than the rest of the look-up.
func (r *Retention) bufferIndex(mep uint64) uint64 {
	if r.mask > 0 {
		return mep & r.mask
	}
	return mep % r.bufferCount
}

// retainedPart is the part of a MEP in its buffer.
func (r *Retention) retainedPart(mep uint64) []byte {
	i := r.bufferIndex(mep)
	at := int(i) * r.stride
	end := at + int(r.sizes[i])
	return r.mem[at:end:end]
}

// partSize is the size in bytes of the part of a MEP in its buffer.
func (r *Retention) partSize(mep uint64) int { return int(r.sizes[r.bufferIndex(mep)]) }

// copyHeldUp keeps copies of the parts of the MEPs that are held up, which are in order, and drops the copies of MEPs
// that no longer are. The buffers may then be freed. It allocates, and copies each part once. It copies no part that
// was freed by a decision: no builder unit will fetch it.
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

// heldUpPart is the copy of the part of a held-up MEP; nil if there is none.
func (r *Retention) heldUpPart(mep uint64) []byte {
	if i, found := r.findHeldUp(mep); found {
		return r.heldUp[i].part
	}
	return nil
}

func (r *Retention) findHeldUp(mep uint64) (int, bool) {
	return slices.BinarySearchFunc(r.heldUp, mep, func(p heldUpPart, mep uint64) int { return cmp.Compare(p.mep, mep) })
}

// lookUp is the part of a MEP: its copy if the MEP is held up, else the part in its buffer. The buffer of a held-up MEP
// may be freed, and read into, before the caller has used the part.
func (r *Retention) lookUp(mep uint64) ([]byte, error) {
	if part := r.heldUpPart(mep); part != nil {
		return part, nil
	}
	if mep >= r.heldFrom && mep < r.heldTo {
		return r.retainedPart(mep), nil
	}
	return nil, fmt.Errorf("%w: MEP %d is not among those from %d up to %d (exclusive), nor among the %d that are held up",
		errNotRetained, mep, r.heldFrom, r.heldTo, len(r.heldUp))
}

// Len is the number of buffers.
func (r *Retention) Len() int { return int(r.bufferCount) }

// freeBelow frees the buffers of all read MEPs below the given one. A lower watermark than before changes nothing.
// enough reports once that as many buffers are free as reserve last wanted in vain.
func (r *Retention) freeBelow(below uint64) (enough bool) {
	r.heldFrom = max(r.heldFrom, min(below, r.heldTo))
	if enough = r.neededBuffers > 0 && r.bufferCount-(r.heldTo-r.heldFrom) >= r.neededBuffers; enough {
		r.neededBuffers = 0
	}
	return enough
}

// used is how many buffers are in use, of how many.
func (r *Retention) used() (used, all uint64) { return r.heldTo - r.heldFrom, r.bufferCount }

// usage is how many parts are in buffers, and the bytes of the most buffers that were ever in use. Copies aside do not
// count.
func (r *Retention) usage() (parts, high int) {
	return int(r.heldTo - r.heldFrom), int(r.maxHeld) * r.stride
}
