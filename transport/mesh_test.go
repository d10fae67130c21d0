package transport_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ringlet/internal/invariants"
	"ringlet/shmem"
	"ringlet/transport"
	"ringlet/transport/link"
	"ringlet/transport/simnet"
)

// load is what one node sends to one peer.
type load struct {
	want    []byte // the peer's memory at the end
	writes  int
	signals []string
}

// send writes to a peer until its grant is full, with fences and signals among the writes. Cookies tell the peers
// apart.
func (n *node) send(to *node, seed uint64) (l load) {
	rng := rand.New(rand.NewPCG(seed, uint64(n.rank)<<8|uint64(to.rank)))
	l.want = make([]byte, exported)
	ref, base := to.ref[n.rank], uint64(to.rank)<<32
	off := uint32(0)
	for i := uint64(1); ; i++ {
		size := uint32(rng.IntN(1 << rng.IntN(15)))
		if off+size > exported-2*shmem.PageSize || i > 150 {
			break
		}
		data := l.want[shmem.PageSize+off:][:size]
		for j := range data {
			data[j] = byte(rng.Uint32())
		}
		if err := n.ep.Write(to.rank, link.Write{
			Ref:    ref,
			Offset: off,
			Data:   data,
			Imm:    i,
			Cookie: base | i,
		}); err != nil {
			n.t.Error(err)
		}
		l.writes++
		off += size
		if rng.IntN(3) == 0 {
			s := fmt.Sprintf("%d to %d: %d", n.rank, to.rank, len(l.signals))
			l.signals = append(l.signals, s)
			if err := n.ep.Signal(to.rank, []byte(s)); err != nil {
				n.t.Error(err)
			}
		}
		if rng.IntN(20) == 0 {
			if err := n.ep.Fence(to.rank, base|1<<20|i); err != nil {
				n.t.Error(err)
			}
		}
	}
	if err := n.ep.Fence(to.rank, base); err != nil {
		n.t.Error(err)
	}
	return l
}

func (l *load) check(from, to *node) {
	t := from.t
	t.Helper()
	if err := from.outcome(uint64(to.rank) << 32); err != nil {
		t.Errorf("fence from %d to %d: %v", from.rank, to.rank, err)
	}
	if !bytes.Equal(to.mem[from.rank], l.want) {
		t.Errorf("what %d wrote to %d differs", from.rank, to.rank)
	}
	to.await("signals", func() bool { return len(to.signals[from.rank]) >= len(l.signals) })
	to.mu.Lock()
	defer to.mu.Unlock()
	for i, s := range to.signals[from.rank] {
		if i >= len(l.signals) || s != l.signals[i] {
			t.Fatalf("signal %d from %d to %d is %q", i, from.rank, to.rank, s)
		}
	}
}

func TestMeshIsExactAtAnyLoss(t *testing.T) {
	rounds := uint64(12)
	if invariants.Enabled {
		rounds = 3
	}
	for seed := range rounds {
		f := simnet.Faults{
			Loss:      0.2 * float64(seed) / float64(rounds),
			Duplicate: 0.05,
			Reorder:   0.1,
			Delay:     time.Duration(seed%4) * 300 * time.Microsecond,
			Jitter:    100 * time.Microsecond,
		}
		nodes := 2 + int(seed%3)
		inBubble(t, nodes, f, func(w *world) { mesh(w, seed) })
	}
}

func mesh(w *world, seed uint64) {
	loads := make([][]load, len(w.nodes))
	var wg sync.WaitGroup
	for i, from := range w.nodes {
		loads[i] = make([]load, len(w.nodes))
		for j, to := range w.nodes { // to itself too
			wg.Go(func() { loads[i][j] = from.send(to, seed) })
		}
	}
	wg.Wait() // bounded by the bubble of synctest
	for i, from := range w.nodes {
		writes := 0
		for j, to := range w.nodes {
			loads[i][j].check(from, to)
			writes += loads[i][j].writes
		}
		from.checkOneOutcome(writes)
	}
	for _, n := range w.nodes {
		s := n.ep.Stats()
		if len(n.refused)+len(n.malformed)+len(n.down) != 0 ||
			s.DatagramsMalformed+s.DatagramsBeyondCredit+s.ChunksRefused != 0 {
			w.t.Errorf("node %d: %v %v %v %+v", n.rank, n.refused, n.malformed, n.down, s)
		}
	}
}

// checkOneOutcome holds that each write and fence has one outcome.
func (n *node) checkOneOutcome(writes int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	got := 0
	for cookie, outcomes := range n.completed {
		if len(outcomes) != 1 || outcomes[0] != nil {
			n.t.Errorf("node %d: %x has the outcomes %v", n.rank, cookie, outcomes)
		}
		if i := cookie & (1<<32 - 1); i != 0 && i < 1<<20 {
			got++
		}
	}
	if got != writes {
		n.t.Errorf("node %d: %d of %d writes have an outcome", n.rank, got, writes)
	}
}

// TestSignalsFromInsideTheHandler: both ends answer each write with many signals, and each of those with another.
func TestSignalsFromInsideTheHandler(t *testing.T) {
	inBubble(t, 2, simnet.Faults{Loss: 0.05, Delay: 100 * time.Microsecond}, func(w *world) {
		const writes, each = 40, 100
		for _, n := range w.nodes {
			n.onPlaced = func(peer int, _ transport.Placement) {
				for range each {
					if err := n.ep.Signal(peer, []byte("ping")); err != nil {
						t.Error(err)
					}
				}
			}
			n.onSignal = func(peer int, s string) {
				if s == "ping" {
					if err := n.ep.Signal(peer, []byte("pong")); err != nil {
						t.Error(err)
					}
				}
			}
		}
		for i := range uint64(writes) {
			for _, n := range w.nodes {
				peer := 1 - n.rank
				w := link.Write{Ref: w.nodes[peer].ref[n.rank], Data: binary.LittleEndian.AppendUint64(nil, i), Cookie: i}
				if err := n.ep.Write(peer, w); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, n := range w.nodes {
			n.await("pings and pongs", func() bool { return len(n.signals[1-n.rank]) == 2*writes*each })
		}
	})
}

func TestDropIsRepairedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, simnet.Faults{}, func(c *transport.Config) { c.DropShare, c.DropSeed = 0.1, 3 })
		defer w.close()
		w.connect()
		mesh(w, 1)
		for _, n := range w.nodes {
			if s := n.ep.Stats(); s.DatagramsDropped == 0 || s.DatagramsResent == 0 {
				t.Errorf("node %d: %d dropped, %d sent again", n.rank, s.DatagramsDropped, s.DatagramsResent)
			}
		}
	})
}
