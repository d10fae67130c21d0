package link

import (
	"math/rand/v2"
	"testing"

	"ringlet/shmem"
)

// TestDueWithoutTransactions: small writes arrive and their answers do not, so that all transaction ids are taken while
// the window is open. What is due then is nothing: whoever sends for as long as something is would send for ever.
func TestDueWithoutTransactions(t *testing.T) {
	d := newDuo(t, Config{
		Credit:        712,
		SeqWindow:     2048,
		PiggybackAcks: true,
		AckEvery:      118,
	})
	d.drop = func(from int, b []byte) bool { return from == 1 && b[1]&^flagImmediateAck == spaceResponses }
	c := d.core[0]
	pieces := []Piece{{Ref: d.ref[0], Data: pattern(850, 1)}, {Ref: d.ref[0], Data: pattern(850, 2)}} // a datagram each
	for i := range maxTransactions {
		c.WriteMany(pieces, uint64(i))
	}
	d.run(100 * millisecond)
	if len(c.requester.freeTransactions) > 0 || !c.recovery.mayRequest() {
		t.Fatalf("%d transactions are free, the window is open: %v", len(c.requester.freeTransactions),
			c.recovery.mayRequest())
	}
	for now := d.now; now < d.now+second; now += millisecond {
		c.Tick(now)
		dueIsSent(t, c, now, func([]byte) {})
	}
	d.drop = nil
	if !d.run(second) {
		t.Fatalf("stuck once answers pass again: %+v", c.Stats())
	}
}

// dueIsSent sends for as long as something is due, and fails when nothing comes of it, or when something is sent that
// was not due.
func dueIsSent(t *testing.T, c *Core, now int64, sent func([]byte)) {
	t.Helper()
	buf := make([]byte, c.cfg.MaxDatagram)
	for c.NextDue() {
		head := c.requester.opHead
		n := c.Next(now, buf)
		if n == 0 && c.requester.opHead == head {
			t.Fatalf("something is due, and nothing is sent: %+v", c.Stats())
		}
		if n > 0 {
			sent(buf[:n])
		}
	}
	if n := c.Next(now, buf); n > 0 {
		t.Fatalf("nothing is due, and %d bytes are sent: %x", n, buf[:min(n, 16)])
	}
}

// TestDueMeansProgress takes a core through states of all kinds: whatever is queued, lost, refused, answered or has
// died, what is due is sent, and what is sent was due.
func TestDueMeansProgress(t *testing.T) {
	for seed := range uint64(Fewer(100)) {
		rng := rand.New(rand.NewPCG(seed, 11))
		cfg := Config{
			Credit:            1 + rng.IntN(800),
			SeqWindow:         1024,
			PiggybackAcks:     seed%2 == 0,
			CongestionControl: seed%4 < 2,
			MaxDatagram:       []int{1040, 1415, 1442, 8942}[rng.IntN(4)],
			AckEvery:          1 + rng.IntN(100),
			BaseDatagram:      MinDatagram,
		}
		d := newDuo(t, cfg)
		loss := [2][3]float64{}
		for step := range 60 {
			if step%10 == 0 { // another outage
				for e := range loss {
					for k := range loss[e] {
						loss[e][k] = []float64{0, 0.1, 1}[rng.IntN(3)]
					}
				}
			}
			e := rng.IntN(2)
			load(d, e, rng)
			carry(t, d, e, rng, &loss)
			d.now += rng.Int64N(20 * millisecond)
		}
		if d.drop = nil; !d.run(1000 * second) {
			t.Fatalf("seed %d: stuck: %+v", seed, d.core[0].Stats())
		}
	}
}

var duoData = pattern(duoGrant, 1)

func duoPieces(ref shmem.Ref) []Piece {
	pieces := make([]Piece, 20)
	for i := range pieces {
		pieces[i] = Piece{Ref: ref, Data: duoData[:850]}
	}
	return pieces
}

// load gives a core something to send.
func load(d *duo, e int, rng *rand.Rand) {
	c := d.core[e]
	for range rng.IntN(300) {
		w := Write{Ref: d.ref[e], Data: duoData[:rng.IntN(1+rng.IntN(4000))], Dmove: rng.IntN(4) == 0}
		switch rng.IntN(30) {
		case 0:
			w.Offset = duoExport // is refused
		case 1:
			w.Deadline = d.now + rng.Int64N(20*millisecond)
		case 2:
			c.Signal(duoData[:rng.IntN(MaxSignal)])
		case 3:
			c.Fence(1)
		case 4:
			w.Data = duoData
		case 5, 6, 7, 8, 9:
			c.WriteMany(duoPieces(d.ref[e])[:1+rng.IntN(20)], 1)
		}
		c.Write(w)
	}
}

// carry sends what is due at one end, and delivers what is not lost.
func carry(t *testing.T, d *duo, e int, rng *rand.Rand, loss *[2][3]float64) {
	t.Helper()
	c, peer := d.core[e], d.core[1-e]
	c.Tick(d.now)
	dueIsSent(t, c, d.now, func(b []byte) {
		kind := b[1] &^ flagImmediateAck
		if kind == kindFragment {
			kind = b[headerSize]
		}
		if rng.Float64() >= loss[e][kind] {
			d.deliver(1-e, b)
		}
	})
	peer.EndBatch()
	for _, c := range d.core {
		c.Events(nil)
		if err := c.Audit(); err != nil {
			t.Fatal(err)
		}
	}
}
