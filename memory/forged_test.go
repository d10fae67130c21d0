package memory

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"ringlet/shmem"
	"ringlet/testkit/must"
	"ringlet/transport/link"
	"ringlet/transport/simnet"
)

var forged = flag.Int("forged", 20_000, "messages that TestForgedMessages forges; make check-forged has a million")

// Pages of the owner's segment. Messages can change bytes of the lock page alone.
const (
	forgedRead = iota
	forgedWrite
	forgedLock
	forgedNotify
	forgedOther // open to the witness, and not to who forges
	forgedClosed
	forgedPages
)

// forger is a member of the view that sends what it likes. It keeps what the owner must count, and what its words must
// hold.
type forger struct {
	*world
	rng    *rand.Rand
	last   uint64 // id of the newest request
	epoch  uint64
	refs   []shmem.Ref
	lock   shmem.Ref
	open   bool // the lock page is granted to who forges
	words  [PageSize / shmem.WordSize]uint64
	counts Stats
}

// TestForgedMessages has an authenticated peer send random and damaged messages. Each is counted once, as what it is;
// the words that it may change are those that a model has; all other bytes stay; and a second peer is served all along.
func TestForgedMessages(t *testing.T) {
	inBubble(t, 3, simnet.Faults{}, func(w *world) {
		seg := w.segment(forgedPages * PageSize)
		mem := seg.Bytes()
		for page := range forgedPages {
			copy(mem[page*PageSize:], bytes.Repeat([]byte{fillOf(page)}, PageSize))
		}
		x, err := w.spaces[0].Export("segment", seg,
			Pages{First: forgedRead, Count: 1, Peer: Everybody, Allow: AllowRead},
			Pages{First: forgedWrite, Count: 1, Peer: Everybody, Allow: AllowWrite},
			Pages{First: forgedLock, Count: 1, Peer: 1, Allow: AllowLock},
			Pages{First: forgedNotify, Count: 1, Peer: Everybody, Allow: AllowNotify},
			Pages{First: forgedOther, Count: 1, Peer: 2, Allow: AllowAll})
		must.OK(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), 1000*time.Hour)
		defer cancel()
		witness, err := w.spaces[2].Import(ctx, "segment@n0")
		must.OK(t, err)
		f := &forger{world: w, rng: rand.New(rand.NewPCG(17, 1)), epoch: x.e.epoch, counts: w.spaces[0].Stats()}
		for i := range f.words {
			f.words[i] = binary.LittleEndian.Uint64(mem[forgedLock*PageSize:])
		}
		want := bytes.Clone(mem)
		sent := 0
		for ; sent < *forged; sent += f.batch() {
			f.check(want, mem)
			if before, err := witness.Add(ctx, forgedOther*PageSize, 1); err != nil {
				t.Fatalf("after %d messages the witness is not served: %v (%d)", sent, err, before)
			}
			f.counts.Requests++
			word := want[forgedOther*PageSize:]
			putWord(word, binary.LittleEndian.Uint64(word)+1)
		}
		f.check(want, mem)
		n := w.spaces[0].Stats()
		t.Logf("%d messages: %d not understood, %d unexpected answers, %d endings, "+
			"%d requests with a number that was over; "+
			"of %d requests with those of the witness %d refused, %d words changed, %d notices", sent, n.MalformedMessages,
			n.UnexpectedAnswers, n.EndMessages, n.RequestsRepeated, n.Requests, n.RequestsRefused, n.WordsChanged, n.Notices)
		for _, c := range []uint64{n.MalformedMessages, n.UnexpectedAnswers, n.EndMessages, n.RequestsRepeated,
			n.RequestsRefused, n.WordsChanged, n.Notices} {
			if c == 0 {
				t.Error("the test tries too little")
			}
		}
		must.OK(t, x.Close())
		must.OK(t, seg.Close())
	})
}

// check compares counters and memory with the model, once all that was sent has arrived.
func (f *forger) check(want, mem []byte) {
	f.t.Helper()
	n := f.spaces[0].Stats()
	c := f.counts
	if n.MalformedMessages != c.MalformedMessages || n.UnexpectedAnswers != c.UnexpectedAnswers ||
		n.EndMessages != c.EndMessages || n.Requests != c.Requests || n.RequestsRepeated != c.RequestsRepeated {
		f.t.Fatalf("the owner has counted\n%+v, and was sent\n%+v", n, c)
	}
	for i, word := range f.words {
		putWord(want[forgedLock*PageSize+i*shmem.WordSize:], word)
	}
	for i := range want {
		if want[i] != mem[i] {
			f.t.Fatalf("byte %d of page %d is %#x, not %#x", i%PageSize, i/PageSize, mem[i], want[i])
		}
	}
}

// batch sends a few messages, and waits until they have arrived.
func (f *forger) batch() int {
	owner := f.spaces[0]
	owner.mu.Lock()
	f.refs, f.open = f.refs[:0], false // the window that it had is stale
	for ref, p := range owner.responder.windows {
		if p.peer == 1 && p.first == forgedLock {
			f.lock, f.open = ref, true
		}
	}
	for _, g := range owner.responder.exports["segment"].grantsByPeer {
		for _, r := range g.runs {
			f.refs = append(f.refs, r.ref)
		}
	}
	owner.mu.Unlock()
	const count = 32
	for range count - 2 {
		f.send(f.forge())
	}
	end := message{kind: kindFind, id: f.last + 1, body: []byte("segment")}
	f.send(end.append(nil))
	end = message{kind: kindLeave, a: f.epoch + f.rng.Uint64N(2)}
	f.send(end.append(nil))
	time.Sleep(20 * time.Millisecond)
	return count
}

// forge makes a message.
func (f *forger) forge() []byte {
	m := message{
		kind:   kind(f.rng.IntN(int(numKinds) + 2)),
		status: Cause(f.rng.IntN(256)),
		length: uint32(1 + f.rng.IntN(1<<f.rng.IntN(20))),
		ref:    f.refs[f.rng.IntN(len(f.refs))],
		off:    uint64(f.rng.IntN(PageSize / 8 * 8)),
		a:      f.rng.Uint64() >> f.rng.IntN(64),
		b:      f.rng.Uint64() >> f.rng.IntN(64),
	}
	if f.rng.IntN(2) == 0 {
		m.ref, m.off = f.lock, m.off&^7
	}
	if f.rng.IntN(4) == 0 {
		m.off = f.rng.Uint64() >> f.rng.IntN(64)
	}
	if m.kind == kindLeave {
		m.a = f.epoch + 1 // the true one ends a batch
	}
	if m.kind == kindFind || f.rng.IntN(10) == 0 {
		m.body = make([]byte, f.rng.IntN(maxBody))
	}
	b := m.append(nil)
	for range f.rng.IntN(8) - 5 { // damage
		b[f.rng.IntN(len(b))] ^= 1 << f.rng.IntN(8)
	}
	switch f.rng.IntN(20) {
	case 0:
		b = b[:1+f.rng.IntN(len(b)-1)]
	case 1:
		b = make([]byte, 1+f.rng.IntN(link.MaxSignal))
		for i := range b {
			b[i] = byte(f.rng.Uint32())
		}
	}
	if len(b) >= wireHeader {
		id := f.last + 1 + f.rng.Uint64N(3)
		if f.rng.IntN(10) == 0 {
			id = f.rng.Uint64N(f.last + 1)
		}
		putWord(b[8:], id)
		if kind(b[1]) == kindLeave {
			putWord(b[32:], f.epoch+1)
		}
	}
	return b
}

// send sends a message, and enters into the model what must become of it.
func (f *forger) send(b []byte) {
	f.t.Helper()
	must.OK(f.t, f.spaces[1].ep.Signal(0, b))
	m, err := parse(b)
	switch {
	case err != nil:
		f.counts.MalformedMessages++
		return
	case m.kind == kindAnswer:
		f.counts.UnexpectedAnswers++
		return
	case m.kind == kindRevoked, m.kind == kindLeave:
		f.counts.EndMessages++
		return
	case m.id <= f.last:
		f.counts.RequestsRepeated++
		return
	}
	f.last = m.id
	f.counts.Requests++
	if !f.open || m.ref != f.lock || m.off%shmem.WordSize != 0 || m.off > PageSize-shmem.WordSize {
		return
	}
	word := &f.words[m.off/shmem.WordSize]
	switch m.kind {
	case kindAdd:
		*word += m.a
	case kindSwap:
		*word = m.a
	case kindCompare:
		if *word == m.a {
			*word = m.b
		}
	}
}
