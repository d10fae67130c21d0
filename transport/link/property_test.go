package link_test

import (
	"bytes"
	"encoding/binary"
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

var seeds = flag.Int("seeds", defaultSeeds(), "how many simulated runs the link's properties are tested on")

// defaultSeeds keeps the test within ten seconds on a busy machine of two cores; the race detector makes it ten times
// slower.
func defaultSeeds() int {
	if invariants.Enabled {
		return 60
	}
	return 1000
}

// noise is where the content of writes comes from.
var noise = func() []byte {
	rng := rand.New(rand.NewPCG(1, 1))
	b := make([]byte, 1<<20)
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], rng.Uint64())
	}
	return b
}()

// maxDatagram of the simulated carrier: that of QUIC in Ethernet frames.
const maxDatagram = 1415

// traffic is one random load in both directions, over one faulty wire pair, and what came of it.
type traffic struct {
	pair    *simnet.Pair
	core    [2]*link.Core
	memory  [2][]byte // exported by each end
	granted [2]shmem.Ref
	writes  [2][]link.Write
	done    [2]map[uint64]link.Reason
	placed  [2]map[uint64]int // bytes by immediate
	signals [2][][]byte
	got     [2]int // signals received in order
	fences  [2][]uint64
	errs    []error
	audit   bool // count everything again at every step
	spare   []link.Event
}

const exported = 1 << 18

func newTraffic(t *testing.T, f simnet.Faults, seed uint64) *traffic {
	t.Helper()
	tr := &traffic{}
	rng := rand.New(rand.NewPCG(seed, 7))
	for e := range 2 {
		tr.memory[e] = make([]byte, exported)
		tr.done[e], tr.placed[e] = map[uint64]link.Reason{}, map[uint64]int{}
	}
	// The grants leave a page free on either side, where nothing may ever be written.
	tr.core, tr.granted = newCores(t, tr.memory, shmem.PageSize, link.Config{
		MaxDatagram:       maxDatagram,
		PadDatagrams:      true,
		PiggybackAcks:     seed%2 == 1,
		CongestionControl: seed%4 >= 2,
	})
	tr.pair = simnet.NewPair(tr.core[0], tr.core[1], maxDatagram, f, seed)
	tr.pair.OnChange = tr.read
	for e := range 2 {
		tr.load(e, rng)
	}
	return tr
}

// newCores makes both ends of a link. Each may write the other's memory but for a margin, bytes, at its beginning and
// its end.
func newCores(t *testing.T, memory [2][]byte, margin int, cfg link.Config) (core [2]*link.Core, granted [2]shmem.Ref) {
	t.Helper()
	for e, mem := range memory {
		table := shmem.NewTable(4)
		rule := shmem.PageRule{PageCount: len(mem) / shmem.PageSize, Peer: 1, Access: shmem.AccessNwrite}
		seg, err := table.Export(mem, rule)
		if err != nil {
			t.Fatal(err)
		}
		if granted[1-e], err = table.Grant(1, seg, margin, len(mem)-2*margin, shmem.AccessNwrite); err != nil {
			t.Fatal(err)
		}
		cfg.View, cfg.Peer, cfg.Table = 3, 1, table
		core[e] = link.New(cfg)
	}
	return core, granted
}

// load queues writes that tile the peer's grant, and signals between them.
func (tr *traffic) load(e int, rng *rand.Rand) {
	off := uint32(0)
	for cookie := uint64(1); ; cookie++ {
		n := uint32(rng.IntN(1 << rng.IntN(16)))
		if off+n > exported-2*shmem.PageSize || cookie > 300 {
			break
		}
		at := rng.IntN(len(noise) - int(n))
		data := noise[at : at+int(n)]
		w := link.Write{
			Ref:    tr.granted[e],
			Offset: off,
			Data:   data,
			Imm:    cookie << 8,
			Cookie: cookie,
		}
		tr.writes[e] = append(tr.writes[e], w)
		tr.core[e].Write(w)
		off += n
		if rng.IntN(3) == 0 && len(tr.signals[e]) < 200 {
			s := binary.LittleEndian.AppendUint64(make([]byte, rng.IntN(900)), uint64(len(tr.signals[e])))
			tr.signals[e] = append(tr.signals[e], s)
			tr.core[e].Signal(s)
		}
	}
	tr.core[e].Fence(1 << 40)
}

// checkInvariants holds what must be true of a core at any moment.
func (tr *traffic) checkInvariants(e int) {
	live, credit := tr.core[e].InFlight()
	for l := range live {
		if live[l] > credit[l] {
			tr.fail("end %d, space %d: %d datagrams outstanding on a credit of %d", e, l, live[l], credit[l])
		}
	}
	if s := tr.core[e].Stats(); s.TransactionsUsed > s.TransactionsFree+s.TransactionsUsed || s.TransactionsFree > 1024 {
		tr.fail("end %d: %d ids free, %d used", e, s.TransactionsFree, s.TransactionsUsed)
	}
	if tr.audit {
		if err := tr.core[e].Audit(); err != nil {
			tr.fail("end %d: %v", e, err)
		}
	}
}

func (tr *traffic) read(e int) {
	tr.checkInvariants(e)
	events := tr.core[e].Events(tr.spare)
	tr.spare = events
	for _, ev := range events {
		switch ev.Kind {
		case link.EventCompleted:
			if _, twice := tr.done[e][ev.Cookie]; twice {
				tr.fail("end %d: write %d completed twice", e, ev.Cookie)
			}
			tr.done[e][ev.Cookie] = ev.Reason
		case link.EventPlaced:
			tr.placed[e][ev.Imm] += int(ev.Length) + 1
		case link.EventFenced:
			if len(tr.done[e]) != len(tr.writes[e]) {
				tr.fail("end %d: fence passed after %d of %d writes", e, len(tr.done[e]), len(tr.writes[e]))
			}
			tr.fences[e] = append(tr.fences[e], ev.Cookie)
		case link.EventSignal:
			if want := tr.signals[1-e][tr.got[e]]; !bytes.Equal(ev.Data, want) {
				tr.fail("end %d: signal %d differs", e, tr.got[e])
			}
			tr.got[e]++
		default:
			tr.fail("end %d: unexpected event %+v", e, ev)
		}
	}
}

func (tr *traffic) fail(format string, args ...any) {
	tr.errs = append(tr.errs, fmt.Errorf(format, args...))
}

func (tr *traffic) quiet() bool { return tr.core[0].Idle() && tr.core[1].Idle() }

func (tr *traffic) check(t *testing.T) {
	t.Helper()
	for _, err := range tr.errs {
		t.Error(err)
	}
	for e := range 2 {
		peer := 1 - e
		want := make([]byte, exported)
		for _, w := range tr.writes[e] {
			copy(want[shmem.PageSize+w.Offset:], w.Data)
			if r, ok := tr.done[e][w.Cookie]; !ok || r != 0 {
				t.Fatalf("end %d: write %d has outcome %v %v", e, w.Cookie, ok, r)
			}
			if got := tr.placed[peer][w.Imm]; got != len(w.Data)+1 {
				t.Fatalf("end %d: write %d of %d bytes was notified as %d", e, w.Cookie, len(w.Data), got-1)
			}
		}
		if !bytes.Equal(tr.memory[peer], want) {
			t.Fatalf("end %d: the memory it wrote differs", e)
		}
		if tr.got[peer] != len(tr.signals[e]) || len(tr.fences[e]) != 1 {
			t.Fatalf("end %d: %d of %d signals, %d fences", e, tr.got[peer], len(tr.signals[e]), len(tr.fences[e]))
		}
		tr.conserved(t, e)
	}
}

// conserved holds the accounts of one direction.
func (tr *traffic) conserved(t *testing.T, e int) {
	t.Helper()
	s, r := tr.core[e].Stats(), tr.core[1-e].Stats()
	if s.TransactionsUsed != 0 {
		t.Fatalf("end %d: %d transaction ids were not given back", e, s.TransactionsUsed)
	}
	if r.DatagramsBeyondCredit+r.DatagramsMalformed+r.ChunksRefused+r.ChunksLate != 0 {
		t.Fatalf("end %d broke the protocol: %+v", e, r)
	}
	if tr.pair.Delivered[e] != int(r.DatagramsReceived) {
		t.Fatalf("end %d: %d datagrams delivered, %d counted", e, tr.pair.Delivered[e], r.DatagramsReceived)
	}
	distinct := s.ChunksSent - s.ChunksResent
	if r.ChunksPlaced != distinct {
		t.Fatalf("end %d: %d distinct chunks sent, %d placed", e, distinct, r.ChunksPlaced)
	}
}

func TestEveryWriteIsPlacedOnceAtAnyLoss(t *testing.T) {
	n := link.Fewer(*seeds)
	if testing.Short() {
		n /= 10
	}
	var sum link.Stats
	var reordered uint64
	for seed := range n {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		f := simnet.Faults{
			Loss:      0.2 * rng.Float64(),
			Duplicate: 0.1 * rng.Float64(),
			Reorder:   0.3 * rng.Float64(),
			Delay:     time.Duration(rng.IntN(2000)) * time.Microsecond,
			Jitter:    time.Duration(rng.IntN(500)) * time.Microsecond,
		}
		tr := newTraffic(t, f, uint64(seed))
		tr.audit = seed%32 == 0
		if seed%2 == 0 { // numbers wrap while the run lasts
			link.StartSpaces(-rng.Uint32N(300), tr.core[0], tr.core[1])
		}
		if !tr.pair.Run(10*time.Minute, tr.quiet) {
			t.Fatalf("seed %d: stuck at %v with %+v\n%+v\n%+v", seed, time.Duration(tr.pair.Now()), f, tr.core[0].Stats(),
				tr.core[1].Stats())
		}
		tr.check(t)
		if t.Failed() {
			t.Fatalf("seed %d, %+v", seed, f)
		}
		for e := range 2 {
			one := tr.core[e].Stats()
			sum.Add(&one)
		}
		reordered += uint64(tr.pair.Reordered[0] + tr.pair.Reordered[1])
	}
	// A test of repair in which nothing was lost, doubled or overtaken would prove nothing.
	runs := uint64(n)
	if sum.DatagramsResent < 10*runs || sum.ChunksResent < 10*runs || sum.DatagramsDuplicate < 10*runs ||
		reordered < 10*runs ||
		sum.ChunksDuplicate < runs || sum.Probes < runs/4 || runs >= 100 && sum.Timeouts == 0 {
		t.Errorf("the network was too kind: %d times overtaken, %+v", reordered, sum)
	}
	t.Logf("%d runs: %d datagrams sent, %d again, %d arrived twice, %d overtaken; %d chunks placed, %d sent again; %d "+
		"probes, %d time-outs",
		n, sum.DatagramsSent, sum.DatagramsResent, sum.DatagramsDuplicate, reordered, sum.ChunksPlaced, sum.ChunksResent,
		sum.Probes, sum.Timeouts)
}

// TestSameSeedSameRun holds what makes a failure worth reporting: it can be had again.
func TestSameSeedSameRun(t *testing.T) {
	f := simnet.Faults{
		Loss:      0.1,
		Duplicate: 0.1,
		Reorder:   0.3,
		Delay:     time.Millisecond,
		Jitter:    time.Millisecond,
	}
	var runs [2]string
	for i := range runs {
		tr := newTraffic(t, f, 11)
		tr.pair.Run(time.Minute, tr.quiet)
		runs[i] = fmt.Sprint(tr.pair.Now(), tr.core[0].Stats(), tr.core[1].Stats())
	}
	if runs[0] != runs[1] {
		t.Errorf("the same seed ran as\n%s\nand\n%s", runs[0], runs[1])
	}
}
