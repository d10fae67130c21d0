package gateway

import (
	"encoding/binary"
	"errors"
	"testing"

	"ringlet/memory"
)

// pages is a target whose first page is open for all, its second for reading, of three.
type pages struct{}

func (pages) Allows(off int64, n int, want memory.Allow) (memory.Attributes, memory.Cause) {
	switch {
	case off < 0 || off > 3*memory.PageSize-int64(n):
		return 0, memory.ErrOutside
	case off+int64(n) > 2*memory.PageSize, off+int64(n) > memory.PageSize && want != memory.AllowRead:
		return 0, memory.ErrDenied
	}
	return memory.Ordered, 0
}

func newCore() *core {
	c := &core{dataSize: minData}
	c.rows[3].generation = 7
	c.rows[3].inUse.Store(true)
	c.setTarget(known, pages{})
	return c
}

const known = 7<<rowBits | 3

// put is a request as a client writes it.
func put(r request) (d [descriptorSize]byte) {
	le := binary.LittleEndian
	d[dOperation], d[dFlags], d[dContext] = byte(r.op), r.flags, r.context
	le.PutUint32(d[dSegment:], r.handle)
	le.PutUint64(d[dRemote:], uint64(r.remote))
	le.PutUint32(d[dLocal:], r.local)
	le.PutUint32(d[dLength:], r.length)
	le.PutUint64(d[dA:], r.a)
	le.PutUint64(d[dB:], r.b)
	le.PutUint32(d[dTime:], r.timeoutMillis)
	return d
}

func putPiece(data []byte, p piece) {
	binary.LittleEndian.PutUint64(data, uint64(p.remote))
	binary.LittleEndian.PutUint32(data[8:], p.local)
	binary.LittleEndian.PutUint32(data[12:], p.length)
}

// TestChecks is the table of what is refused, and why.
func TestChecks(t *testing.T) {
	data := make([]byte, minData)
	putPiece(data, piece{0, 512, 4096})
	putPiece(data[16:], piece{memory.PageSize - 1, 512, 2})
	putPiece(data[32:], piece{0, 512, 4097})
	outside, denied := Cause(memory.ErrOutside), Cause(memory.ErrDenied)
	good := request{op: opWrite, handle: known, piece: piece{100, 200, 300}}
	for name, c := range map[string]struct {
		change func(*request)
		why    Cause
	}{
		"good":                   {func(*request) {}, 0},
		"no operation":           {func(r *request) { r.op = 0 }, badOperation},
		"another operation":      {func(r *request) { r.op = numOperations }, badOperation},
		"another flag":           {func(r *request) { r.flags = 8 }, badFlags},
		"a notice of a read":     {func(r *request) { r.op, r.flags = opRead, flagNotify }, badFlags},
		"a list of words":        {func(r *request) { r.op, r.flags = opAdd, flagList }, badFlags},
		"context 16":             {func(r *request) { r.context = 16 }, badContext},
		"no bytes":               {func(r *request) { r.length = 0 }, badLength},
		"4096 bytes":             {func(r *request) { r.remote, r.length = 0, 4096 }, 0},
		"4097 bytes":             {func(r *request) { r.length = 4097 }, badLength},
		"to the end of the data": {func(r *request) { r.local = minData - 300 }, 0},
		"beyond the data":        {func(r *request) { r.local = minData - 299 }, outsideData},
		"far beyond the data":    {func(r *request) { r.local = 1<<32 - 100 }, outsideData},
		"row without segment":    {func(r *request) { r.handle = 7<<rowBits | 4 }, unknownSegment},
		"no row":                 {func(r *request) { r.handle = 7<<rowBits | 200 }, unknownSegment},
		"an earlier handle":      {func(r *request) { r.handle = 6<<rowBits | 3 }, unknownSegment},
		"outside":                {func(r *request) { r.remote = 3*memory.PageSize - 299 }, outside},
		"before the beginning":   {func(r *request) { r.remote = -1 }, outside},
		"denied":                 {func(r *request) { r.remote = memory.PageSize }, denied},
		"read":                   {func(r *request) { r.op, r.remote = opRead, memory.PageSize }, 0},
		"word":                   {func(r *request) { r.op, r.remote = opSwap, memory.PageSize-8 }, 0},
		"word denied":            {func(r *request) { r.op, r.remote = opSwap, memory.PageSize-7 }, denied},
		"wait":                   {func(r *request) { r.op = opWait }, 0},
		"fence":                  {func(r *request) { r.op = opFence }, 0},
		"fence of nothing":       {func(r *request) { r.op, r.handle = opFence, 1 }, unknownSegment},
		"name":                   {func(r *request) { r.op, r.length = opImport, 255 }, 0},
		"long name":              {func(r *request) { r.op, r.length = opImport, 256 }, badLength},
		"list":                   {func(r *request) { r.flags, r.local, r.length = flagList, 0, 1 }, 0},
		"list denied":            {func(r *request) { r.flags, r.local, r.length = flagList, 0, 2 }, denied},
		"list of reads":          {func(r *request) { r.op, r.flags, r.local, r.length = opRead, flagList, 0, 2 }, 0},
		"list of a long piece":   {func(r *request) { r.flags, r.local, r.length = flagList, 32, 1 }, badLength},
		"empty list":             {func(r *request) { r.flags, r.length = flagList, 0 }, badLength},
		"long list":              {func(r *request) { r.flags, r.length = flagList, 65 }, badLength},
		"list outside the data":  {func(r *request) { r.flags, r.local, r.length = flagList, minData-15, 1 }, outsideData},
		"notice":                 {func(r *request) { r.flags = flagNotify }, 0},
		"notice of no page":      {func(r *request) { r.flags, r.remote = flagNotify, 1<<40 }, outside},
	} {
		r := good
		c.change(&r)
		d := put(r)
		var got request
		if why := newCore().consume(&d, data, &got); why != c.why {
			t.Errorf("%s: %v, not %v", name, why, c.why)
		}
	}
	for _, at := range []int{3, dEnd, dEnd + 8, descriptorSize - 1} {
		d := put(good)
		d[at] = 1
		if why := newCore().consume(&d, data, &request{}); why != badFlags {
			t.Errorf("byte %d: %v", at, why)
		}
	}
}

// TestBounds holds that no client has more of anything than there is.
func TestBounds(t *testing.T) {
	c, data := newCore(), make([]byte, minData)
	take := func(r request) (request, Cause) {
		d := put(r)
		why := c.consume(&d, data, &r)
		if why == 0 {
			c.markPending(&r)
		}
		return r, why
	}
	var last request
	for range maxWaits {
		var why Cause
		if last, why = take(request{op: opWait, handle: known}); why != 0 {
			t.Fatal(why)
		}
	}
	if _, why := take(request{op: opWait, handle: known}); why != tooManyWaits {
		t.Error(why)
	}
	c.finish(&last)
	if _, why := take(request{op: opWait, handle: known}); why != 0 {
		t.Error(why)
	}
	for range maxSegments - 1 {
		r, why := take(request{op: opImport, piece: piece{0, 0, 1}})
		if why != 0 || c.findTarget(r.handle) != nil {
			t.Fatal(why)
		}
		c.setTarget(r.handle, pages{})
		c.finish(&r)
	}
	if _, why := take(request{op: opImport, piece: piece{0, 0, 1}}); why != tooManySegments {
		t.Error(why)
	}
	if _, why := take(request{op: opLeave, handle: known}); why != 0 {
		t.Error(why)
	}
	if _, why := take(request{op: opSize, handle: known}); why != unknownSegment {
		t.Error(why)
	}
	r, why := take(request{op: opImport, piece: piece{0, 0, 1}})
	if why != 0 || r.handle == known || r.handle&0xFF != known&0xFF {
		t.Errorf("%08x %v", r.handle, why)
	}
	for c.consumedDescriptors%ringDescriptors != 0 {
		d := put(request{op: opSize, handle: 1})
		_ = c.consume(&d, data, &r)
	}
	if _, why := take(request{op: opFence, handle: known}); why != descriptorPending {
		t.Error(why, "the first wait is under way")
	}
}

func TestLook(t *testing.T) {
	c := &core{consumedDescriptors: 5000}
	for started, want := range map[uint64]uint64{5000: 0, 5001: 1, 6024: 1024} {
		if n, err := c.countNew(started); n != want || err != nil {
			t.Error(started, n, err)
		}
	}
	for _, started := range []uint64{0, 4999, 6025, 1 << 63, 1<<64 - 1} {
		var broken *brokenError
		if _, err := c.countNew(started); !errors.As(err, &broken) || broken.Error() == "" {
			t.Error(started, err)
		}
	}
}

func TestTakeAllocatesNothing(t *testing.T) {
	c, data := newCore(), make([]byte, minData)
	d, r := put(request{op: opWrite, handle: known, piece: piece{0, 0, 64}}), request{}
	if n := testing.AllocsPerRun(1000, func() {
		if why := c.consume(&d, data, &r); why != 0 {
			t.Fatal(why)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzTake: whatever stands in the ring and in the data area, what is let through lies in the data area, and in pages
// that are open.
func FuzzTake(f *testing.F) {
	list := make([]byte, 32)
	putPiece(list, piece{0, 512, 4096})
	for op := range numOperations {
		d := put(request{op: op, handle: known, piece: piece{0, 0, 8}})
		f.Add(d[:], list)
		d = put(request{op: op, flags: flagList, handle: known, piece: piece{0, 0, 1}})
		f.Add(d[:], list)
	}
	f.Fuzz(func(t *testing.T, ring, in []byte) {
		c, data := newCore(), make([]byte, minData)
		copy(data, in)
		for ; len(ring) > 0; ring = ring[min(len(ring), descriptorSize):] {
			var d [descriptorSize]byte
			copy(d[:], ring)
			var r request
			if why := c.consume(&d, data, &r); why != 0 {
				if why.String() == "" {
					t.Fatal(why)
				}
				continue
			}
			rule := rules[r.op]
			pieces := r.list
			if rule.maxLocalBytes > 0 && r.flags&flagList == 0 {
				pieces = []piece{r.piece}
			}
			for _, p := range pieces {
				_ = data[p.local:][:p.length]
				if rule.needsSegment {
					if _, why := (pages{}).Allows(p.remote, int(p.length), rule.allow); why != 0 {
						t.Fatalf("%v: %v", &r, why)
					}
				}
			}
			if r.context >= numContexts || r.op == 0 || rule.needsSegment && r.target == nil {
				t.Fatal(&r)
			}
		}
	})
}
