package linked

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"ringlet/shmem"
	"ringlet/sim"
	"ringlet/testkit/must"
	"ringlet/transport/link"
	"ringlet/transport/simnet"
)

const datagram = 1400

// scenario is what both ends ask for, drawn from a seed, and what was lost of each direction's datagrams by their
// number.
type scenario struct {
	seed  uint64
	share float64 // lost
}

// loses says which datagrams of a direction vanish, in their order.
func (k scenario) loses(from int) func([]byte) bool {
	rng := rand.New(rand.NewPCG(k.seed, uint64(from)))
	return func([]byte) bool { return rng.Float64() < k.share }
}

// queueWrites queues writes of all sizes, pieces, and signals, as much as there is room for; the same for the same
// seed.
func (k scenario) queueWrites(t *testing.T, e int, core *link.Core, ref shmem.Ref, data []byte) (writes int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(k.seed, 100+uint64(e)))
	for at := 0; writes < 60; writes++ {
		n := 1 + rng.IntN(1<<(1+rng.IntN(14)))
		if at+n > exportedBytes {
			break
		}
		w := link.Write{Ref: ref, Offset: uint32(at), Data: data[at : at+n], Imm: uint64(writes), Cookie: uint64(writes)}
		if !core.Write(w) {
			break
		}
		if at += n; writes%7 == 3 && !core.Signal([]byte(fmt.Sprint("signal ", writes))) {
			t.Fatal("no room for a signal")
		}
	}
	return writes
}

// line is a datagram in a transcript.
func line(now int64, from int, d []byte) string {
	return fmt.Sprintf("%d n%d %d B %08x", now, from, len(d), crc32.ChecksumIEEE(d))
}

// noise is what is written.
func noise() []byte {
	b := make([]byte, exportedBytes)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b) // it never fails
	return b
}

// settings of the link, as those of a carrier with few datagrams under way.
func settings() link.Config {
	return link.Config{MaxDatagram: datagram, Credit: 32, PadDatagrams: true, CongestionControl: true, PiggybackAcks: true}
}

// inSimulator gives the transcript of a scenario in the simulator, and what it ended with.
func (k scenario) inSimulator(t *testing.T, data []byte) (said []string, stats [2]link.Stats) {
	t.Helper()
	s := sim.New(1)
	var paths [2]path
	var p *pair
	for e := range paths {
		lose := k.loses(e)
		paths[e] = path{delay: 50 * sim.Microsecond, drops: func(d []byte) bool {
			said = append(said, line(p.now(), e, d))
			return lose(d)
		}}
	}
	p, err := newPair(s, settings(), paths)
	must.OK(t, err)
	outstanding := 0
	p.onEvents = func(_ int, events []link.Event) {
		for i := range events {
			if events[i].Kind == link.EventCompleted {
				outstanding--
			}
		}
	}
	for e := range p.ends {
		outstanding += k.queueWrites(t, e, p.ends[e].core, p.ends[e].peerMemory, data)
	}
	p.scheduleTurn()
	s.Run(t.Context(), sim.Limits{Until: sim.Second})
	must.OK(t, p.coreErr)
	if outstanding != 0 {
		t.Errorf("seed %d, %g lost: %d writes have no outcome", k.seed, k.share, outstanding)
	}
	for e := range p.ends {
		stats[e] = p.ends[e].core.Stats()
		if n := int(stats[e].BytesPlaced); n == 0 || !bytes.Equal(p.ends[e].memory[:n], data[:n]) {
			t.Errorf("seed %d: what end %d has is not what was written", k.seed, e)
		}
	}
	return said, stats
}

// inSimnet gives the same of the network of the transport's tests.
func (k scenario) inSimnet(t *testing.T, data []byte) (said []string, stats [2]link.Stats) {
	t.Helper()
	var core [2]*link.Core
	var ref [2]shmem.Ref
	for e := range core {
		table := shmem.NewTable(1, shmem.FirstGeneration(1))
		seg, err := table.Export(make([]byte, exportedBytes), shmem.PageRule{PageCount: exportedBytes / shmem.PageSize,
			Peer:   1,
			Access: shmem.AccessNwrite})
		must.OK(t, err)
		ref[1-e], err = table.Grant(1, seg, 0, exportedBytes, shmem.AccessNwrite)
		must.OK(t, err)
		cfg := settings()
		cfg.View, cfg.Peer, cfg.Table = 1, 1, table
		core[e] = link.New(cfg)
	}
	p := simnet.NewPair(core[0], core[1], datagram, simnet.Faults{Delay: 50 * time.Microsecond}, 1)
	lose := [2]func([]byte) bool{k.loses(0), k.loses(1)}
	p.ShouldLose = func(from int, d []byte) bool {
		said = append(said, line(p.Now(), from, d))
		return lose[from](d)
	}
	var spare [2][]link.Event
	p.OnChange = func(e int) { spare[e] = core[e].Events(spare[e]) }
	for e := range core {
		k.queueWrites(t, e, core[e], ref[e], data)
	}
	p.Run(time.Second, func() bool { return false })
	return said, [2]link.Stats{core[0].Stats(), core[1].Stats()}
}

// TestSameAsSimnet: with the same requests and the same datagrams lost, cores in the simulator send the very datagrams
// that they send in the network of their own tests, at the same times, in the same order, and count the same.
func TestSameAsSimnet(t *testing.T) {
	data := noise()
	for seed := range uint64(60) {
		k := scenario{seed: seed, share: [...]float64{0, 0.01, 0.05, 0.2}[seed%4]}
		here, countedHere := k.inSimulator(t, data)
		there, countedThere := k.inSimnet(t, data)
		if !slices.Equal(here, there) {
			i := 0
			for i < min(len(here), len(there)) && here[i] == there[i] {
				i++
			}
			t.Fatalf("seed %d, %g lost: of %d and %d datagrams, those from %d on differ: %q, %q", seed, k.share, len(here),
				len(there), i, here[i:min(i+2, len(here))], there[i:min(i+2, len(there))])
		}
		if countedHere != countedThere {
			t.Errorf("seed %d, %g lost: %+v, but %+v in simnet", seed, k.share, countedHere, countedThere)
		}
		if k.share > 0 && countedHere[0].DatagramsResent+countedHere[1].DatagramsResent == 0 && len(here) > 500 {
			t.Errorf("seed %d, %g lost: nothing was sent again", seed, k.share)
		}
	}
}
