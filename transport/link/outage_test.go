package link_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"ringlet/internal/invariants"
	"ringlet/shmem"
	"ringlet/transport/link"
	"ringlet/transport/simnet"
)

var outages = flag.Int("outages", defaultOutages(),
	"how many simulated outages a link must survive, for each kind of owner")

// regressionSeeds have found something, and are always played. 6 and 124: small writes hold all transactions while the
// window is open. 33646: what was older is repaired first, the peer then has no holes, and what had
// been sent behind it is repaired one by one.
var regressionSeeds = []uint64{6, 124, 33646}

// defaultOutages keeps the test within a few seconds on a busy machine of two cores.
func defaultOutages() int {
	if invariants.Enabled {
		return 40
	}
	return 200
}

// movesWithin is how long after an outage a link may take to move: the longest time-out may have begun just before its
// end, and its repair may be of what had arrived. On a path that loses 3 % besides, what is repaired then, or its ack,
// may be lost as well, a few times.
const (
	movesWithin      = time.Second
	movesWithinLossy = 4 * time.Second
)

// carrierConfigs are the carriers' sizes: those of quic-go, of quic with an MTU of 1500 and of jumbo frames, and of
// stream.
var carrierConfigs = []link.Config{
	{MaxDatagram: 1415, BaseDatagram: 1159, PadDatagrams: true},
	quicConfig(1442, 712),
	quicConfig(8942, 116),
	{MaxDatagram: 32812, Credit: 64, SeqWindow: 256, AckEvery: 10},
}

func quicConfig(size, window int) link.Config {
	return link.Config{
		MaxDatagram:       size,
		BaseDatagram:      1170,
		Credit:            window,
		SeqWindow:         link.SeqWindowFor(window),
		PadDatagrams:      true,
		CongestionControl: true,
		PiggybackAcks:     true,
		AckEvery:          window / 6,
	}
}

// An outage takes what it takes of one direction, or of both.
type outage struct {
	from int // -1: both
	kind int // of datagrams: 0 requests, 1 answers and signals, 2 acks; -1: all
	size int // only what is longer; a path that stops carrying full datagrams
	long time.Duration
}

func (o *outage) takes(from int, d []byte) bool {
	kind := int(d[1] & 0x7f)
	if kind == 3 { // a fragment, whose space stands behind the header
		kind = int(d[8])
	}
	return (o.from < 0 || from == o.from) && (o.kind < 0 || kind == o.kind) && len(d) > o.size
}

func drawOutage(rng *rand.Rand, base int) *outage {
	o := &outage{from: rng.IntN(3) - 1, kind: rng.IntN(5) - 2, long: time.Duration(1+rng.IntN(60)) * time.Millisecond}
	if o.kind < 0 {
		o.kind = -1
	}
	switch rng.IntN(8) {
	case 0:
		o.long = time.Duration(1+rng.IntN(1500)) * time.Millisecond
	case 1:
		if base == 0 { // a stream has packets, not datagrams, that may be too long
			break
		}
		o.kind, o.size, o.long = -1, base, 2*movesWithin
	}
	return o
}

// outageRun is a link in which both ends, or one, keep the request queue full.
type outageRun struct {
	pair            *simnet.Pair
	core            [2]*link.Core
	ref             [2]shmem.Ref
	rng             *rand.Rand
	requested       [2]uint64
	done            [2]uint64
	pieces          [2]uint64 // asked for
	placed          [2]uint64 // at the peer
	signalsSent     [2]uint64 // signals
	signalsReceived [2]uint64
	now             *outage
	bad             error
	spare           []link.Event
	base            int
	within          time.Duration // movesWithin, or movesWithinLossy
}

func newOutageRun(t *testing.T, seed uint64, shell simnet.SendMode) *outageRun {
	t.Helper()
	r := &outageRun{rng: rand.New(rand.NewPCG(seed, 13))}
	cfg := carrierConfigs[r.rng.IntN(len(carrierConfigs))]
	r.base = cfg.BaseDatagram
	r.core, r.ref = newCores(t, outageMemory, 0, cfg)
	f := simnet.Faults{Delay: time.Duration(20+r.rng.IntN(1000)) * time.Microsecond}
	if r.within = movesWithin; seed%3 == 0 {
		r.within = movesWithinLossy
		f.Loss, f.Jitter = 0.03*r.rng.Float64(), time.Duration(r.rng.IntN(200))*time.Microsecond
	}
	r.pair = simnet.NewPair(r.core[0], r.core[1], cfg.MaxDatagram, f, seed)
	r.pair.SetSendModes(shell, shell)
	r.pair.OnChange = r.read
	r.pair.ShouldLose = func(from int, d []byte) bool { return r.now != nil && r.now.takes(from, d) }
	return r
}

var outageMemory = [2][]byte{make([]byte, 64*shmem.PageSize), make([]byte, 64*shmem.PageSize)}

// request queues small writes at an end, as a readout unit does for a MEP of small MFPs, now and then a large one and a
// signal.
func (r *outageRun) request(e, n int) {
	for range n {
		pieces := make([]link.Piece, 1+r.rng.IntN(4))
		for i := range pieces {
			pieces[i] = link.Piece{Ref: r.ref[e], Data: noise[:r.rng.IntN(2*link.MinDatagram)]}
		}
		large := r.rng.IntN(64) == 0
		ok := large && r.core[e].Write(link.Write{Ref: r.ref[e], Data: noise[:r.rng.IntN(len(outageMemory[0]))]}) ||
			!large && r.core[e].WriteMany(pieces, 1)
		if !ok {
			break
		}
		r.requested[e]++
		if r.pieces[e]++; !large {
			r.pieces[e] += uint64(len(pieces) - 1)
		}
		if r.rng.IntN(32) == 0 {
			r.core[e].Signal(noise[:r.rng.IntN(link.MaxSignal)])
			r.signalsSent[e]++
		}
	}
	r.pair.Wake(e)
}

func (r *outageRun) read(e int) {
	events := r.core[e].Events(r.spare)
	r.spare = events
	for i := range events {
		switch ev := &events[i]; ev.Kind {
		case link.EventCompleted:
			r.done[e]++
		case link.EventPlaced:
			r.placed[1-e]++
		case link.EventPlacedMany:
			r.placed[1-e] += uint64(len(ev.Placements))
		case link.EventSignal:
			r.signalsReceived[1-e]++
		default:
			r.bad = fmt.Errorf("end %d was told %+v", e, ev)
		}
	}
	if r.pair.EmptySends[e] > 0 {
		r.bad = fmt.Errorf("end %d says that something is due, and sends nothing", e)
	}
}

// quiet reports whether all that was asked for has its outcome.
func (r *outageRun) quiet() bool {
	return r.bad != nil || r.requested == r.done && r.signalsSent == r.signalsReceived
}

// moved reports whether each end that waits for something has got some of it.
func (r *outageRun) moved(before [2]uint64) bool {
	for e := range before {
		if r.requested[e] != before[e] && r.done[e] == before[e] {
			return false
		}
	}
	return true
}

// survive plays one seed. It returns how long after an outage the link took to move at most.
func (r *outageRun) survive() (worst time.Duration, err error) {
	ends := 1 + r.rng.IntN(2)
	for range 1 + r.rng.IntN(3) {
		for e := range ends {
			r.request(e, []int{10, 10, 30, 30, 100, 2000}[r.rng.IntN(6)])
		}
		r.pair.Run(time.Duration(r.rng.IntN(5000))*time.Microsecond, r.quiet)
		o := drawOutage(r.rng, r.base)
		r.now = o
		before := r.done
		r.pair.Run(o.long, func() bool { return r.bad != nil })
		if o.size > 0 && !r.moved(before) {
			return 0, fmt.Errorf("%+v: nothing has moved over the narrow path", *o)
		}
		r.now = nil
		begin := r.pair.Now()
		before = r.done
		if !r.pair.Run(r.within, func() bool { return r.bad != nil || r.moved(before) }) {
			return 0, fmt.Errorf("%+v: %d of %d writes had an outcome, and %v later %d", *o, before, r.requested,
				time.Duration(r.pair.Now()-begin), r.done)
		}
		worst = max(worst, time.Duration(r.pair.Now()-begin))
		if r.rng.IntN(2) == 0 && !r.pair.Run(20*time.Second, r.quiet) {
			return 0, fmt.Errorf("%+v: %d of %d writes, %d of %d signals in 20 s", *o, r.done, r.requested, r.signalsReceived,
				r.signalsSent)
		}
	}
	if !r.pair.Run(20*time.Second, r.quiet) {
		return 0, fmt.Errorf("at the end %d of %d writes, %d of %d signals", r.done, r.requested, r.signalsReceived,
			r.signalsSent)
	}
	if r.bad == nil && r.placed != r.pieces {
		r.bad = fmt.Errorf("%d placed, %d written", r.placed, r.pieces)
	}
	return worst, r.bad
}

// TestEveryLinkMovesAfterAnOutage: whatever was lost, in one direction or both, and however the owners go about it,
// each link moves again within movesWithin of virtual time, or movesWithinLossy, no owner is held by it, and everything
// is placed once.
func TestEveryLinkMovesAfterAnOutage(t *testing.T) {
	n := link.Fewer(*outages)
	for name, shell := range map[string]simnet.SendMode{"inline": simnet.Inline, "pumped": simnet.Pumped} {
		t.Run(name, func(t *testing.T) {
			var worst time.Duration
			var sum link.Stats
			for i := range n + len(regressionSeeds) {
				seed := uint64(i)
				if i >= n {
					seed = regressionSeeds[i-n]
				}
				r := newOutageRun(t, seed, shell)
				took, err := r.survive()
				for _, c := range r.core {
					s := c.Stats()
					sum.Add(&s)
				}
				if err != nil {
					t.Fatalf("seed %d: %v\n%+v\n%+v", seed, err, r.core[0].Stats(), r.core[1].Stats())
				}
				worst = max(worst, took)
			}
			if sum.DatagramsMalformed+sum.DatagramsBeyondCredit+sum.ChunksLate+sum.ChunksRefused > 0 {
				t.Errorf("the protocol was broken: %+v", sum)
			}
			t.Logf("%d runs: each link moved within %v; %d datagrams sent, %d again, %d probes, %d time-outs, "+
				"%d paths found narrow", n, worst,
				sum.DatagramsSent, sum.DatagramsResent, sum.Probes, sum.Timeouts, sum.PathMTUShrunk)
		})
	}
}
