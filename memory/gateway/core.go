package gateway

// The checks, as a pure core: which of a client's requests are carried out, and why others are refused.

import (
	"encoding/binary"
	"sync/atomic"

	"ringlet/memory"
)

// target is a segment as the core needs it.
type target interface {
	Allows(off int64, n int, want memory.Allow) (memory.Attributes, memory.Cause)
}

// handleRow is a row of the table of handles.
type handleRow struct {
	generation uint32 // of the handle; 24 bits
	inUse      atomic.Bool
	target     atomic.Pointer[target] // nil until the import is done
}

// core is the state of one client. Only the session's goroutine may call its methods, except freeRow, setTarget and
// finish: the goroutine that carries out a request may call these, too.
type core struct {
	dataSize            uint64 // size of the data area, bytes
	consumedDescriptors uint64 // descriptors taken so far
	pending             [ringDescriptors]atomic.Bool
	rows                [maxSegments]handleRow
	activeWaits         atomic.Int32
}

// countNew returns how many descriptors are new.
func (c *core) countNew(started uint64) (n uint64, err error) {
	if started < c.consumedDescriptors || started-c.consumedDescriptors > ringDescriptors {
		return 0, &brokenError{Started: started, Consumed: c.consumedDescriptors}
	}
	return started - c.consumedDescriptors, nil
}

// consume checks the next descriptor, of which d is a copy. It copies a list from the data area before it checks the
// list. A refused request has ended. Every other one must get an answer, and finish before that.
func (c *core) consume(d *[descriptorSize]byte, data []byte, r *request) Cause {
	r.decode(c.consumedDescriptors, d)
	c.consumedDescriptors++
	why := c.check(d, data, r)
	if why == 0 {
		switch r.op {
		case opImport:
			why = c.reserveRow(r)
		case opLeave:
			c.freeRow(r.handle)
		case opWait:
			if c.activeWaits.Load() >= maxWaits {
				return tooManyWaits
			}
			c.activeWaits.Add(1)
		}
	}
	return why
}

func (c *core) check(d *[descriptorSize]byte, data []byte, r *request) Cause {
	if r.op == 0 || r.op >= numOperations {
		return badOperation
	}
	rule := &rules[r.op]
	le := binary.LittleEndian
	switch rest := le.Uint64(d[dEnd:]) | le.Uint64(d[dEnd+8:]) | uint64(le.Uint32(d[dEnd+16:])) | uint64(d[3]); {
	case r.flags&^rule.allowedFlags != 0 || rest != 0:
		return badFlags
	case r.context >= numContexts:
		return badContext
	case c.pending[r.position%ringDescriptors].Load():
		return descriptorPending
	}
	if rule.needsSegment {
		if r.target = c.findTarget(r.handle); r.target == nil {
			return unknownSegment
		}
	}
	if rule.maxLocalBytes == 0 {
		if rule.remoteBytes == 0 {
			return 0
		}
		return c.checkGrants(r, rule, r.remote, rule.remoteBytes)
	}
	if r.flags&flagList != 0 {
		return c.checkList(data, r, rule)
	}
	return c.checkPiece(r, rule, r.piece)
}

// checkPiece checks a piece.
func (c *core) checkPiece(r *request, rule *rule, p piece) Cause {
	switch {
	case p.length < 1 || int(p.length) > rule.maxLocalBytes:
		return badLength
	case uint64(p.local)+uint64(p.length) > c.dataSize:
		return outsideData
	case rule.needsSegment:
		return c.checkGrants(r, rule, p.remote, int(p.length))
	}
	return 0
}

// checkGrants checks remote bytes against the grants.
func (c *core) checkGrants(r *request, rule *rule, off int64, n int) Cause {
	at, why := r.target.Allows(off, n, rule.allow)
	if why == 0 && r.flags&flagNotify != 0 {
		_, why = r.target.Allows(r.remote, 1, memory.AllowNotify)
	}
	r.attributes |= at
	return Cause(why)
}

// checkList copies a list and checks it.
func (c *core) checkList(data []byte, r *request, rule *rule) Cause {
	switch {
	case r.length < 1 || r.length > maxList:
		return badLength
	case uint64(r.local)+uint64(r.length)*listEntry > c.dataSize:
		return outsideData
	}
	r.list = make([]piece, r.length)
	for i := range r.list {
		var entry [listEntry]byte
		copy(entry[:], data[int(r.local)+i*listEntry:])
		p := piece{
			remote: int64(binary.LittleEndian.Uint64(entry[:])),
			local:  binary.LittleEndian.Uint32(entry[8:]),
			length: binary.LittleEndian.Uint32(entry[12:]),
		}
		if why := c.checkPiece(r, rule, p); why != 0 {
			return why
		}
		r.list[i] = p
	}
	return 0
}

// A handle is the number of a row, and above that bit how often the row was given out.
const rowBits = 8

func (c *core) findTarget(handle uint32) target {
	i := handle & (1<<rowBits - 1)
	if i >= maxSegments || c.rows[i].generation != handle>>rowBits {
		return nil
	}
	if t := c.rows[i].target.Load(); t != nil {
		return *t
	}
	return nil
}

// reserveRow takes a row for an import.
func (c *core) reserveRow(r *request) Cause {
	for i := range c.rows {
		row := &c.rows[i]
		if row.inUse.Load() {
			continue
		}
		row.inUse.Store(true)
		row.generation = (row.generation + 1) & (1<<(32-rowBits) - 1)
		r.handle = row.generation<<rowBits | uint32(i)
		return 0
	}
	return tooManySegments
}

// freeRow frees a row: its handle is unknown from then on.
func (c *core) freeRow(handle uint32) {
	row := &c.rows[handle&(1<<rowBits-1)]
	row.target.Store(nil)
	row.inUse.Store(false)
}

// setTarget makes a handle valid.
func (c *core) setTarget(handle uint32, t target) { c.rows[handle&(1<<rowBits-1)].target.Store(&t) }

// markPending notes that a request will be answered later.
func (c *core) markPending(r *request) { c.pending[r.position%ringDescriptors].Store(true) }

// finish notes that a request is about to get its answer.
func (c *core) finish(r *request) {
	if r.op == opWait {
		c.activeWaits.Add(-1)
	}
	c.pending[r.position%ringDescriptors].Store(false)
}
