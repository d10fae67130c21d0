package link

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ringlet/internal/invariants"
	"ringlet/shmem"
)

// packet is a datagram on its way: the first head bytes of it are known before it is opened.
type packet struct {
	data []byte
	head int
	at   int64
}

// wire carries datagrams between the cores of a duo, as a carrier that copies or as one that opens in place. What it
// does to them depends on the seed alone.
type wire struct {
	*duo
	direct   bool
	rng      *rand.Rand
	faults   [3]int // of 1000: lost, doubled, held back
	inFlight [2][]packet
	trace    []string // every datagram and event, in order
	places   int
	forged   func(e int, p packet) // sees each packet before it arrives
}

func (w *wire) next(e int, buf []byte) packet {
	if !w.direct {
		n := w.core[e].Next(w.now, buf)
		return packet{data: bytes.Clone(buf[:n])}
	}
	n, body := w.core[e].NextGather(w.now, buf)
	p := packet{data: append(bytes.Clone(buf[:n]), body...), head: headerSize}
	if body != nil {
		p.head = n
	}
	return p
}

func (w *wire) chance(fault int) bool { return w.rng.IntN(1000) < w.faults[fault] }

func (w *wire) send(e int, p packet) {
	w.trace = append(w.trace, fmt.Sprintf("%d sends %x", e, p.data))
	for range 2 {
		if w.chance(0) {
			return
		}
		p.at = w.now + 50_000
		if w.chance(2) {
			p.at += w.rng.Int64N(1_000_000)
		}
		w.inFlight[1-e] = append(w.inFlight[1-e], p)
		if !w.chance(1) {
			return
		}
	}
}

// arrive does what the carrier quic does with a packet.
func (w *wire) arrive(e int, p packet) {
	w.t.Helper()
	if w.forged != nil {
		w.forged(e, p)
	}
	if w.direct {
		if dst := w.core[e].Reserve(p.data[:p.head], len(p.data)-p.head); dst != nil {
			w.places++
			copy(dst, p.data[p.head:])
			w.core[e].Commit(w.now)
			return
		}
	}
	if err := w.core[e].Receive(w.now, p.data); err != nil {
		w.t.Fatalf("end %d: %v", e, err)
	}
}

// step is a tenth of a millisecond.
func (w *wire) step(buf []byte) {
	for e, c := range w.core {
		for range 20 {
			p := w.next(e, buf)
			if len(p.data) == 0 {
				break
			}
			w.send(e, p)
		}
		due := slices.Clone(w.inFlight[e])
		slices.SortStableFunc(due, func(a, b packet) int { return cmp.Compare(a.at, b.at) })
		w.inFlight[e] = w.inFlight[e][:0]
		for _, p := range due {
			if p.at > w.now {
				w.inFlight[e] = append(w.inFlight[e], p)
				continue
			}
			w.arrive(e, p)
		}
		c.EndBatch()
		for _, ev := range c.Events(nil) {
			w.trace = append(w.trace, fmt.Sprintf("%d is told %+v", e, ev))
		}
		c.Tick(w.now)
	}
	w.now += 100_000
}

func (w *wire) quiet() bool {
	return w.core[0].isIdle() && w.core[1].isIdle() && len(w.inFlight[0])+len(w.inFlight[1]) == 0
}

// fullChunks is how many chunks, all of full size, the first write of each end has.
const fullChunks = 8

// load queues writes of many lengths each way, to places that do not overlap, some of them dmoves, and signals.
func (w *wire) load(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 2))
	for e, c := range w.core {
		for off, i := 0, 0; i < 24; i++ {
			n, dmove := rng.IntN(1<<(4+rng.IntN(13))), rng.IntN(8) == 0
			if i == 0 {
				n, dmove = fullChunks*c.requester.chunkSize, false
			}
			if off+n > duoGrant {
				break
			}
			c.Write(Write{
				Ref:    w.ref[e],
				Offset: uint32(off),
				Data:   pattern(n, byte(i)),
				Imm:    uint64(i),
				Cookie: uint64(i),
				Dmove:  dmove,
			})
			off += n
			if rng.IntN(3) == 0 {
				c.Signal(pattern(rng.IntN(300), byte(i)))
			}
		}
		c.Fence(99)
	}
}

func (w *wire) run() {
	w.t.Helper()
	buf := make([]byte, w.core[0].cfg.MaxDatagram)
	for n := 0; !w.quiet(); n++ {
		if n > 200_000 {
			w.t.Fatalf("no end: %+v and %+v", w.core[0].Stats(), w.core[1].Stats())
		}
		w.step(buf)
		if n%64 == 0 {
			for e, c := range w.core {
				if err := c.Audit(); err != nil {
					w.t.Fatalf("end %d: %v", e, err)
				}
			}
		}
	}
	for e := range w.table {
		if s := w.table[e].Stats(); s.UnbalancedReleases != 0 {
			w.t.Errorf("end %d: pins do not balance: %+v", e, s)
		}
		if err := w.table[e].Revoke(w.ref[1-e]); err != nil { // would wait for a pin
			w.t.Error(err)
		}
	}
}

func newWire(t testing.TB, seed uint64, direct bool, faults [3]int) *wire {
	cfg := Config{PadDatagrams: true, CongestionControl: true, MaxDatagram: 1040 + int(seed%2000)}
	w := &wire{
		duo:    newDuo(t, cfg),
		direct: direct,
		rng:    rand.New(rand.NewPCG(seed, 1)),
		faults: faults,
	}
	if seed%2 == 0 {
		StartSpaces(^uint32(0)-uint32(seed%200), w.core[0], w.core[1])
	}
	w.load(seed)
	return w
}

// TestInPlaceIsTheSameAsCopied: carriers of both kinds, on a network that does the same to both, send the same bytes,
// are told the same and leave the same memory behind, although forged heads reach the one that opens in place. Of each
// end's first write every chunk but the one that comes first has a place, whatever is lost; and the first head of a run
// that has one comes forged before.
func TestInPlaceIsTheSameAsCopied(t *testing.T) {
	places, forged := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		fault := rapid.IntRange(0, 150)
		faults := [3]int{fault.Draw(rt, "lost"), fault.Draw(rt, "doubled"), fault.Draw(rt, "held back")}
		a, b := newWire(t, seed, false, faults), newWire(t, seed, true, faults)
		rng, found := rand.New(rand.NewPCG(seed, 3)), 0
		b.forged = func(e int, p packet) {
			changes := 0
			if found > 0 {
				changes = rng.IntN(3)
			}
			if (found == 0 || rng.IntN(12) == 0) && b.forge(e, p, changes, rng) {
				found++
			}
		}
		a.run()
		b.run()
		if b.places < 2*(fullChunks-1) || found == 0 {
			rt.Fatalf("%d chunks were opened in place, %d forged heads found one", b.places, found)
		}
		places, forged = places+b.places, forged+found
		for i := range min(len(a.trace), len(b.trace)) {
			if a.trace[i] != b.trace[i] {
				rt.Fatalf("at %d the one that copies\n%.200s\nand the one in place\n%.200s", i, a.trace[i], b.trace[i])
			}
		}
		for e := range 2 {
			if len(a.trace) != len(b.trace) || a.core[e].Stats() != b.core[e].Stats() {
				rt.Errorf("end %d: %d and %d things happened\n%+v\n%+v", e, len(a.trace), len(b.trace), a.core[e].Stats(),
					b.core[e].Stats())
			}
			if !bytes.Equal(a.memory[e], b.memory[e]) {
				rt.Errorf("end %d: what they leave in memory differs", e)
			}
		}
	})
	t.Logf("%d chunks opened in place, %d forged heads found a place", places, forged)
}

// forge calls Reserve for a packet's head, with so many changes, at end e, and finds it forged. It reports whether it
// was given a place.
func (w *wire) forge(e int, p packet, changes int, rng *rand.Rand) bool {
	w.t.Helper()
	head := bytes.Clone(p.data[:p.head])
	for range changes {
		head[rng.IntN(len(head))] ^= 1 << rng.IntN(8)
	}
	c := w.core[e]
	before := w.state(c)
	memory := bytes.Clone(w.memory[e])
	dst := c.Reserve(head, len(p.data)-p.head)
	if dst == nil {
		if after := w.state(c); after != before {
			w.t.Fatalf("a head that found no place changed\n%s\nto\n%s", before, after)
		}
		return false
	}
	var f writeFrame
	if why := parseWriteHead(head[headerSize:], c.requester.chunkSize, len(dst), &f); why != "" ||
		c.responder.inTransactions[f.tx%maxTransactions].isPlaced(f.chunk) || len(dst) != cap(dst) {
		w.t.Fatalf("a place of %d bytes for chunk %d of %+v: %s", cap(dst), f.chunk, f, why)
	}
	at := shmem.PageSize + int(f.transactionOffset) + int(f.chunk)*c.requester.chunkSize
	for i := range dst {
		dst[i] = 0xEE
	}
	copy(memory[at:], dst)
	if !bytes.Equal(memory, w.memory[e]) {
		w.t.Fatalf("the place of chunk %d is not at %d", f.chunk, at)
	}
	c.Abort()
	if after := w.state(c); after != before {
		w.t.Fatalf("a forged head changed\n%s\nto\n%s", before, after)
	}
	if err := c.Audit(); err != nil {
		w.t.Fatal(err)
	}
	return true
}

// state is all of a core that a datagram may change.
func (w *wire) state(c *Core) string {
	placed := uint64(0)
	for i := range c.responder.inTransactions {
		if t := &c.responder.inTransactions[i]; t.inUse {
			placed = placed*31 + uint64(t.id) + uint64(t.placedCount)<<32 + uint64(t.state)<<50
			for _, word := range t.placed {
				placed = placed*31 + word
			}
		}
	}
	a, responses, v := &c.acks, &c.responder.responses, &c.recovery
	return fmt.Sprint(c.Stats(), a.recv, placed, c.signals.expected, a.sinceLastAck, a.due, len(c.notices.events),
		responses.len(), responses.head, v.rtt, v.lastProgress, v.backoff, c.NextDue())
}

// begun is a duo in which end 1 has the first of four chunks of an nwrite, or dmove, and the heads of all of them. The
// last is short.
func begun(t *testing.T, dmove bool) (*duo, [][]byte) {
	t.Helper()
	d := goldenDuo(t)
	w := goldenWrite(dmove)
	w.Data = pattern(3*d.core[0].requester.chunkSize+100, 1)
	d.core[0].Write(w)
	var heads [][]byte
	buf := make([]byte, 1415)
	for i := range 4 {
		n, body := d.core[0].NextGather(1e9, buf)
		if i < 3 && (n != BulkHeaderSize || len(body) != d.core[0].requester.chunkSize) || i == 3 && body != nil {
			t.Fatalf("chunk %d is %d bytes and a body of %d", i, n, len(body))
		}
		heads = append(heads, bytes.Clone(buf[:BulkHeaderSize]))
		if i == 0 {
			if d.core[1].Reserve(heads[0], d.core[1].requester.chunkSize) != nil {
				t.Fatal("a transaction that has not begun was given a place")
			}
			d.deliver(1, append(bytes.Clone(buf[:n]), body...))
		}
	}
	return d, heads
}

func TestPlacesAreForMissingChunksOnly(t *testing.T) {
	put := func(at int, b ...byte) func([]byte) { return func(h []byte) { copy(h[at:], b) } }
	plus := func(at int, by uint32) func([]byte) {
		return func(h []byte) { binary.LittleEndian.PutUint32(h[at:], binary.LittleEndian.Uint32(h[at:])+by) }
	}
	for name, change := range map[string]func([]byte){
		"version": put(0, 1), "responses": put(1, spaceResponses), "ack": put(1, kindAck), "unknown kind": put(1, 9),
		"another view": plus(2, 1), "number that has arrived": plus(4, ^uint32(0)), "number long past": plus(4, 1<<31),
		"number beyond the credit": plus(4, goldenCredit+2), "pieces": put(8, frameScatter), "padding": put(8, framePad),
		"dmove":  put(9, flagDmove),
		"length": put(10, 1, 0), "another use of the id": plus(12, maxTransactions), "another id": plus(12, 1),
		"another window":     plus(16, 1),
		"another generation": plus(20, 1), "another base": plus(24, 8), "another total": plus(28, 1),
		"chunk that is in place": put(32, 0),
		"the short chunk":        put(32, 3), "chunk beyond": put(32, 4), "chunk 65535": put(32, 255, 255),
	} {
		d, heads := begun(t, false)
		head := bytes.Clone(heads[1])
		change(head)
		if d.core[1].Reserve(head, d.core[1].requester.chunkSize) != nil {
			t.Errorf("%s: it was given a place", name)
		}
	}
	d, heads := begun(t, false)
	c := d.core[1]
	for _, n := range []int{0, 1, c.requester.chunkSize - 1, c.requester.chunkSize + 1} {
		if c.Reserve(heads[1], n) != nil {
			t.Errorf("a body of %d bytes was given a place", n)
		}
	}
	for n := range BulkHeaderSize {
		if c.Reserve(heads[1][:n], c.requester.chunkSize) != nil {
			t.Errorf("a head of %d bytes was given a place", n)
		}
	}
	size := c.requester.chunkSize
	dst := c.Reserve(heads[1], size)
	if len(dst) != size || cap(dst) != size || &dst[0] != &d.memory[1][shmem.PageSize+16+size] {
		t.Fatalf("the missing chunk's place has %d bytes", len(dst))
	}
	c.Commit(1)
	if c.Reserve(heads[1], c.requester.chunkSize) != nil {
		t.Error("a chunk that is in place was given a place")
	}
	if err := d.table[1].Revoke(d.ref[0]); err != nil {
		t.Fatal(err)
	}
	if c.Reserve(heads[2], c.requester.chunkSize) != nil {
		t.Error("a place in a window that is revoked")
	}
}

// TestDmovesAreNotAimedAt: a dmove that lost a chunk is over for its writer, who may write there again, yet the chunk
// stays missing.
func TestDmovesAreNotAimedAt(t *testing.T) {
	d, heads := begun(t, true)
	if d.core[1].Reserve(heads[1], d.core[1].requester.chunkSize) != nil {
		t.Error("a missing chunk of a dmove was given a place")
	}
}

// TestNoPlaceInWhatIsOver: of a write that is whole, or was refused.
func TestNoPlaceInWhatIsOver(t *testing.T) {
	d, heads := begun(t, false)
	if err := d.table[1].Revoke(d.ref[0]); err != nil {
		t.Fatal(err)
	}
	full := append(bytes.Clone(heads[1]), make([]byte, d.core[1].requester.chunkSize)...)
	d.deliver(1, full)
	if got := d.eventsOf(1, EventRefused); len(got) != 1 {
		t.Fatalf("refused %+v", got)
	}
	if s := d.core[1].responder.inTransactions[1024%maxTransactions].state; s != txRefused {
		t.Fatalf("state %d", s)
	}
	before := d.table[1].Violations(shmem.NoWindow) + d.table[1].Violations(shmem.StaleGen)
	if d.core[1].Reserve(heads[2], d.core[1].requester.chunkSize) != nil || d.table[1].Violations(shmem.NoWindow)+
		d.table[1].Violations(shmem.StaleGen) != before {
		t.Error("a refused write was given a place, or asked for one")
	}
}

func TestInPlaceAllocatesNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("SKIPPED: the race detector allocates")
	}
	d := newDuo(t, Config{PadDatagrams: true, CongestionControl: true})
	data, buf, whole := pattern(64<<10, 1), make([]byte, 1415), make([]byte, 1415)
	var spare [2][]Event
	committed := 0
	round := func() {
		d.core[0].Write(Write{Ref: d.ref[0], Data: data})
		for moved := true; moved; {
			moved = false
			for e, c := range d.core {
				peer := d.core[1-e]
				for n, body := c.NextGather(d.now, buf); n > 0; n, body = c.NextGather(d.now, buf) {
					moved = true
					d.now += 1000
					if body != nil {
						for range 2 { // the first time it is forged
							if dst := peer.Reserve(buf[:n], len(body)); dst != nil {
								peer.Abort()
							}
						}
						if dst := peer.Reserve(buf[:n], len(body)); dst != nil {
							copy(dst, body)
							peer.Commit(d.now)
							committed++
							continue
						}
					}
					_ = peer.Receive(d.now, append(append(whole[:0], buf[:n]...), body...))
				}
				peer.EndBatch()
			}
			for e, c := range d.core {
				spare[e] = c.Events(spare[e])
			}
		}
	}
	for range DefaultSeqWindow + 50 { // rings and lists grow to their size
		round()
	}
	if n := testing.AllocsPerRun(50, round); n != 0 {
		t.Errorf("%v allocations per write of 64 KiB", n)
	}
	if committed < 4000 {
		t.Errorf("only %d chunks were placed directly", committed)
	}
}
