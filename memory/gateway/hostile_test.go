package gateway

import (
	"bytes"
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"testing"

	"ringlet/memory"
)

var forged = flag.Int("forged", 20_000, "descriptors that the test forges; make check-forged has a million")

// Pages of the segment, and what they are open for.
const (
	pageRead = iota
	pageWrite
	pageLock
	pageNotify
	pageMany    // written and notified, ordered
	pageWitness // open to the witness alone
	pageClosed
	pagesOpened
)

func hostileRules() []memory.Pages {
	open := func(page, peer int, allow memory.Allow, at memory.Attributes) memory.Pages {
		return memory.Pages{First: page, Count: 1, Peer: peer, Allow: allow, Attributes: at}
	}
	return []memory.Pages{
		open(pageRead, memory.Everybody, memory.AllowRead, 0),
		open(pageWrite, memory.Everybody, memory.AllowWrite|memory.AllowRead, 0),
		open(pageLock, memory.Everybody, memory.AllowLock, 0),
		open(pageNotify, memory.Everybody, memory.AllowNotify|memory.AllowRead, 0),
		open(pageMany, memory.Everybody, memory.AllowWrite|memory.AllowNotify, memory.Ordered),
		open(pageWitness, 2, memory.AllowAll, 0),
	}
}

// hostile is a client that starts what it likes, and a model of what must come of it.
type hostile struct {
	*client
	rng     *rand.Rand
	mem     []byte // what the segment must hold
	local   []byte // what the data area must hold
	handles map[uint32]bool
	stale   []uint32
	notices [pagesOpened]uint64
	counts  Counts
	want    []wanted
	context uint8 // of this batch: what runs in one context runs in order
	alone   bool  // writes travel alone: over a network, those that travel together land in any order
	waits   int
}

// wanted is what a descriptor must come to. any: what is known is only that it ends.
type wanted struct {
	r   request
	a   answer
	any bool
}

// listsAt is where lists and names end in the data area. Nothing is read into that part.
const listsAt = 8192

// TestForgedDescriptors has a client start random and damaged descriptors. Each is answered and counted as what it is;
// the segment and the data area hold what a model has; and a client at another gateway is served all along.
func TestForgedDescriptors(t *testing.T) {
	for _, carrier := range []string{"local", "quic"} {
		t.Run(carrier, func(t *testing.T) {
			r := openRig(t, carrier, 2, hostileRules()...)
			rng := rand.New(rand.NewPCG(17, 3))
			for i := range r.mem {
				r.mem[i] = byte(rng.Uint32())
			}
			gateway, _, _ := r.open(1, 64<<10)
			_, _, _ = r.open(2, minData)
			h := &hostile{
				client:  attach(t, r.dir, segmentPrefix+"t-1"),
				rng:     rng,
				mem:     bytes.Clone(r.mem),
				handles: map[uint32]bool{},
				alone:   carrier != "local",
			}
			witness := attach(t, r.dir, segmentPrefix+"t-2")
			words := witness.open("words@n0")
			n := *forged
			if carrier != "local" {
				n /= 10
			}
			for sent := 0; sent < n; {
				sent += h.batch()
				h.check(r.mem)
				off := pageWitness*memory.PageSize + 8*h.rng.Int64N(512)
				a := witness.do(request{op: opAdd, handle: words, piece: piece{remote: off}, a: 3})
				word := h.mem[off:]
				if before := binary.LittleEndian.Uint64(word); a.outcome != outcomeDone || a.value != before {
					t.Fatalf("after %d descriptors the witness is not served: %+v", sent, a)
				}
				binary.LittleEndian.PutUint64(word, binary.LittleEndian.Uint64(word)+3)
			}
			h.check(r.mem)
			until(t, "count of all descriptors", func() bool { return gateway.snapshot().Descriptors == h.counts.Descriptors })
			got := gateway.snapshot().Counts
			for cause, n := range h.counts.Causes {
				waited := Cause(cause) == Cause(memory.ErrTimeout) || Cause(cause) == Cause(memory.ErrClosed)
				if !waited && got.Causes[cause] != n {
					t.Errorf("%d refused, where %d should have been: %v", got.Causes[cause], n, Cause(cause))
				}
			}
			for _, cause := range []Cause{Cause(memory.ErrNotFound), Cause(memory.ErrOutside), Cause(memory.ErrDenied),
				Cause(memory.ErrMisaligned), badOperation, badFlags, badContext, badLength, outsideData, unknownSegment} {
				if got.Causes[cause] == 0 && carrier == "local" {
					t.Errorf("the test tries too little: %v", cause)
				}
			}
			t.Log(got.logValue())
			h.leave()
			witness.leave()
		})
	}
}

// check compares the segment and the data area with the model.
func (h *hostile) check(mem []byte) {
	h.t.Helper()
	for i := range h.mem {
		if h.mem[i] != mem[i] {
			h.t.Fatalf("byte %d of page %d is %#x, not %#x", i%memory.PageSize, i/memory.PageSize, mem[i], h.mem[i])
		}
	}
	if !bytes.Equal(h.local, h.data) {
		h.t.Fatal("the data area does not hold what was read")
	}
}

// batch starts some descriptors by one store, and waits for all of them.
func (h *hostile) batch() int {
	h.t.Helper()
	for i := 0; i < len(h.data); i += 8 {
		binary.LittleEndian.PutUint64(h.data[i:], h.rng.Uint64())
	}
	h.context, h.waits, h.want = uint8(h.rng.IntN(numContexts)), 0, h.want[:0]
	first, n := h.position, 1+h.rng.IntN(300)
	names, lists := 0, 1024
	for range n {
		r, d := h.forge(&names, &lists)
		h.want = append(h.want, wanted{r: r})
		h.add(d)
	}
	h.local = bytes.Clone(h.data)
	for i := range h.want {
		h.expect(&h.want[i])
	}
	h.start()
	for i := range h.want {
		w, a := &h.want[i], h.result(first+uint64(i))
		if w.r.op == opImport && a.outcome == outcomeDone && w.a.outcome == outcomeDone {
			h.handles[uint32(a.value)] = true
			a.value = 0
		}
		h.counts.count(a, 1)
		if w.any {
			continue
		}
		a.hasValue = w.a.hasValue
		if !a.hasValue {
			a.value = 0
		}
		if a != w.a {
			h.t.Fatalf("%v\ncame to %+v (%v), not %+v (%v)", &w.r, a, a.cause, w.a, w.a.cause)
		}
	}
	return n
}

// forge makes a descriptor; most are nearly right.
func (h *hostile) forge(names, lists *int) (r request, d [descriptorSize]byte) {
	rng := h.rng
	pick := func(n int) bool { return rng.IntN(n) == 0 }
	op := opWrite + operation(rng.IntN(int(numOperations-opWrite)))
	r = request{
		op:      op,
		context: h.context,
		handle:  h.handle(),
		piece:   h.piece(op),
		a:       rng.Uint64(),
		b:       rng.Uint64(),
	}
	switch {
	case (pick(60) || len(h.handles) == 0 && *names == 0) && *names < 1000 && len(h.handles) < 30:
		name := []string{"words@n0", "none@n0", "words@n9", "words"}[rng.IntN(4)]
		r.op, r.local, r.length = opImport, uint32(*names), uint32(copy(h.data[*names:1024], name))
		*names += len(name)
	case pick(100):
		r.op = opLeave
	case pick(30):
		r.op = opSize
	}
	if r.op >= opAdd && r.op <= opCompare {
		r.remote = r.remote &^ 7
		if pick(20) {
			r.remote += int64(rng.IntN(8))
		}
	}
	if (r.op == opWrite || r.op == opRead) && pick(4) && *lists+20*listEntry < listsAt {
		r.flags |= flagList
		r.local, r.length = uint32(*lists), uint32(1+rng.IntN(20))
		if h.alone && r.op == opWrite {
			r.length = 1
		}
		for range r.length {
			putPiece(h.data[*lists:], h.piece(r.op))
			*lists += listEntry
		}
	}
	if r.op == opWrite && pick(4) {
		r.flags |= flagNotify
	}
	if pick(8) || h.alone && r.op == opWrite {
		r.flags |= flagAlone
	}
	if pick(10) && r.op != opImport {
		r.timeoutMillis = 60_000
	}
	if r.op == opWait {
		if h.waits++; h.waits > maxWaits/2 {
			r.op = opSize
		}
		r.timeoutMillis = 1
	}
	d = put(r)
	if pick(10) { // anything
		places := []int{0, 1, 2, 3, dLength + 2, dLocal + 3, dSegment + 1, dRemote + 7, dRemote + 3, dEnd + rng.IntN(20)}
		at := places[rng.IntN(len(places))]
		if d[0] != byte(opImport) && d[0] != byte(opLeave) {
			d[at] = byte(rng.Uint32())
		}
		if d[0] == byte(opImport) || d[0] == byte(opLeave) || d[0] == byte(opWait) {
			d[0] = byte(numOperations) + 3
		}
		if int(d[2]) < numContexts {
			d[2] = h.context
		}
	}
	r.decode(h.position, &d)
	if r.op != opWait && r.timeoutMillis == 1 { // it was to wait in vain, and would now be in time on a fast machine alone
		r.timeoutMillis = 60_000
		binary.LittleEndian.PutUint32(d[dTime:], r.timeoutMillis)
	}
	if r.op == opRead && r.flags&flagList == 0 && r.local < listsAt { // nothing is read into lists
		r.local += listsAt
		binary.LittleEndian.PutUint32(d[dLocal:], r.local)
	}
	return r, d
}

var pagesFor = map[operation][]int{
	opWrite:   {pageWrite, pageMany},
	opRead:    {pageRead, pageWrite, pageNotify},
	opAdd:     {pageLock},
	opSwap:    {pageLock},
	opCompare: {pageLock},
	opNotify:  {pageNotify, pageMany},
	opWait:    {pageRead, pageWrite, pageNotify},
}

func (h *hostile) handle() uint32 {
	for handle := range h.handles {
		if h.rng.IntN(40) != 0 {
			return handle
		}
	}
	if n := len(h.stale); n > 0 && h.rng.IntN(2) == 0 {
		return h.stale[h.rng.IntN(n)]
	}
	return h.rng.Uint32()
}

// piece is mostly one in a page that is open for it.
func (h *hostile) piece(op operation) piece {
	p := piece{
		remote: h.rng.Int64N(pagesOpened * memory.PageSize),
		local:  listsAt + uint32(h.rng.IntN(len(h.data)-listsAt)),
		length: 1 + uint32(h.rng.IntN(200)),
	}
	if pages := pagesFor[op]; len(pages) > 0 && h.rng.IntN(5) > 0 {
		p.remote = int64(pages[h.rng.IntN(len(pages))])*memory.PageSize + h.rng.Int64N(3900)
	}
	switch h.rng.IntN(30) {
	case 0:
		p.length = h.rng.Uint32N(6000)
	case 1:
		p.remote = int64(h.rng.Uint64())
	case 2:
		p.local = listsAt + h.rng.Uint32N(1<<31)
	case 3:
		p.length = 8
	}
	return p
}

// expect says what must become of a descriptor, as docs/format/door.md has it, and does it to the model.
func (h *hostile) expect(w *wanted) {
	r := &w.r
	why := h.refuses(r)
	w.a = answer{outcome: outcomeDone}
	if why != 0 {
		w.a = refusal(why)
		return
	}
	value := func(v uint64) { w.a.hasValue, w.a.value = true, v }
	switch r.op {
	case opImport:
		switch name := string(h.local[r.local:][:r.length]); name {
		case "words@n0", "words":
		default:
			w.a = refusal(Cause(memory.ErrNotFound))
		}
	case opLeave:
		delete(h.handles, r.handle)
		h.stale = append(h.stale, r.handle)
		if len(h.stale) > 100 {
			h.stale = h.stale[50:]
		}
	case opSize:
		value(rigPages * memory.PageSize)
	case opWrite, opRead:
		pieces := []piece{r.piece}
		if r.flags&flagList != 0 {
			pieces = h.list(r)
		}
		for _, p := range pieces {
			here, there := h.local[p.local:][:p.length], h.mem[p.remote:][:p.length]
			if r.op == opWrite {
				copy(there, here)
			} else {
				copy(here, there)
			}
		}
		if r.flags&flagNotify != 0 {
			h.notices[r.remote/memory.PageSize]++
		}
	case opAdd, opSwap, opCompare:
		word := h.mem[r.remote:]
		before := binary.LittleEndian.Uint64(word)
		value(before)
		switch {
		case r.op == opAdd:
			binary.LittleEndian.PutUint64(word, before+r.a)
		case r.op == opSwap:
			binary.LittleEndian.PutUint64(word, r.a)
		case before == r.a:
			binary.LittleEndian.PutUint64(word, r.b)
		}
	case opNotify:
		page := r.remote / memory.PageSize
		h.notices[page]++
		value(h.notices[page])
	case opWait:
		w.any = true
	}
}

func (h *hostile) list(r *request) (out []piece) {
	for i := range r.length {
		at := h.local[int(r.local)+int(i)*listEntry:]
		out = append(out, piece{
			remote: int64(binary.LittleEndian.Uint64(at)),
			local:  binary.LittleEndian.Uint32(at[8:]),
			length: binary.LittleEndian.Uint32(at[12:]),
		})
	}
	return out
}

// refuses is the order of the checks, written a second time.
func (h *hostile) refuses(r *request) Cause {
	flags := map[operation]uint8{opWrite: 7, opRead: 5, opAdd: 4, opSwap: 4, opCompare: 4, opNotify: 4, opFence: 4}
	d := h.bytes[ringAt+r.position%ringDescriptors*descriptorSize:][:descriptorSize]
	switch {
	case r.op < 1 || r.op > 11:
		return badOperation
	case r.flags&^flags[r.op] != 0 || d[3] != 0 || !bytes.Equal(d[dEnd:], make([]byte, 20)):
		return badFlags
	case r.context > 15:
		return badContext
	case r.op != opImport && !h.handles[r.handle]:
		return unknownSegment
	}
	allows := map[operation]memory.Allow{opWrite: memory.AllowWrite, opRead: memory.AllowRead, opAdd: memory.AllowLock,
		opSwap: memory.AllowLock, opCompare: memory.AllowLock, opNotify: memory.AllowNotify, opWait: memory.AllowRead}
	switch r.op {
	case opImport, opWrite, opRead:
		pieces, most := []piece{r.piece}, uint32(4096)
		if r.op == opImport {
			most = 255
		}
		if r.flags&flagList != 0 {
			if r.length < 1 || r.length > 64 {
				return badLength
			}
			if uint64(r.local)+16*uint64(r.length) > uint64(len(h.data)) {
				return outsideData
			}
			pieces = h.list(r)
		}
		for _, p := range pieces {
			if p.length < 1 || p.length > most {
				return badLength
			}
			if uint64(p.local)+uint64(p.length) > uint64(len(h.data)) {
				return outsideData
			}
			if r.op == opImport {
				continue
			}
			why := opened(p.remote, int64(p.length), allows[r.op])
			if why == 0 && r.flags&flagNotify != 0 {
				why = opened(r.remote, 1, memory.AllowNotify)
			}
			if why != 0 {
				return why
			}
		}
	case opAdd, opSwap, opCompare:
		if why := opened(r.remote, 8, allows[r.op]); why != 0 {
			return why
		}
		if r.remote%8 != 0 {
			return Cause(memory.ErrMisaligned)
		}
	case opNotify, opWait:
		return opened(r.remote, 1, allows[r.op])
	}
	return 0
}

// opened says whether bytes of the segment are open to the hostile client.
func opened(off, n int64, want memory.Allow) Cause {
	if off < 0 || off > rigPages*memory.PageSize-n {
		return Cause(memory.ErrOutside)
	}
	for page := off / memory.PageSize; page <= (off+n-1)/memory.PageSize; page++ {
		allow := memory.Allow(0)
		for _, rule := range hostileRules() {
			if int64(rule.First) == page && rule.Peer == memory.Everybody {
				allow = rule.Allow
			}
		}
		if allow&want == 0 {
			return Cause(memory.ErrDenied)
		}
	}
	return 0
}
