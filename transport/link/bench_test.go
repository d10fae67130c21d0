package link

import (
	"testing"
	"time"

	"ringlet/internal/invariants"
)

// shuttle carries datagrams between two cores until nothing is due, without looking at them and without allocating.
type shuttle struct {
	core  [2]*Core
	spare [2][]Event
	buf   []byte
	now   int64
	seen  [2]int // events
}

func newShuttle(tb testing.TB) *shuttle {
	d := newDuo(tb, Config{PadDatagrams: true})
	return &shuttle{core: d.core, buf: make([]byte, 1415), now: 1e9}
}

// batch is how many datagrams the carrier brings at once.
const batch = 16

func (s *shuttle) exchange() {
	for moved := true; moved; {
		moved = false
		for e, c := range s.core {
			peer, i := s.core[1-e], 0
			for n := c.Next(s.now, s.buf); n > 0; n = c.Next(s.now, s.buf) {
				s.now += 1000
				_ = peer.Receive(s.now, s.buf[:n])
				moved = true
				if i++; i%batch == 0 {
					peer.EndBatch()
				}
			}
			peer.EndBatch()
			for e, c := range s.core {
				events := c.Events(s.spare[e])
				s.seen[e] += len(events)
				s.spare[e] = events
			}
		}
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("SKIPPED: the race detector allocates")
	}
	data := pattern(64<<10, 1)
	payload := make([]byte, 100)
	for name, load := range map[string]func(*Core){
		"one large write": func(c *Core) { c.Write(Write{Ref: goldenWrite(false).Ref, Data: data}) },
		"small writes": func(c *Core) {
			for range 200 {
				c.Write(Write{Ref: goldenWrite(false).Ref, Data: data[:128]})
			}
			c.Fence(1)
		},
		"dmoves": func(c *Core) {
			for range 20 {
				c.Write(Write{Ref: goldenWrite(false).Ref, Data: data[:2000], Dmove: true})
			}
		},
		"signals": func(c *Core) {
			for range 50 {
				c.Signal(payload)
			}
		},
	} {
		s := newShuttle(t)
		round := func() {
			load(s.core[0])
			load(s.core[1])
			s.exchange()
		}
		for range DefaultSeqWindow + DefaultSeqWindow/8 { // every record of both rings has grown to its size
			round()
		}
		before := s.seen
		if n := testing.AllocsPerRun(50, round); n != 0 {
			t.Errorf("%s: %v allocations per round", name, n)
		}
		if s.seen[0] == before[0] || s.seen[1] == before[1] {
			t.Errorf("%s: nothing happened", name)
		}
		for e, c := range s.core {
			if st := c.Stats(); !c.isIdle() || st.WritesRefused+st.DatagramsMalformed+st.DatagramsResent != 0 {
				t.Errorf("%s: end %d is idle: %v, %+v", name, e, c.isIdle(), st)
			}
		}
	}
}

// BenchmarkLink moves 64 KiB writes through two cores back to back: segmentation, placement, acks, completions; no
// carrier.
func BenchmarkLink(b *testing.B) {
	s := newShuttle(b)
	data := pattern(64<<10, 1)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		s.core[0].Write(Write{Ref: goldenWrite(false).Ref, Data: data})
		s.exchange()
	}
	chunks := s.core[1].Stats().ChunksPlaced
	if chunks != uint64(b.N*chunkCount(len(data), fullChunk(1415))) || s.core[0].Stats().WritesCompleted != uint64(b.N) {
		b.Fatalf("%d chunks placed in %d writes", chunks, b.N)
	}
	b.ReportMetric(float64(b.Elapsed())/float64(time.Nanosecond)/float64(chunks), "ns/chunk")
}

// BenchmarkSmallWrites moves 128 B writes, eight to a datagram.
func BenchmarkSmallWrites(b *testing.B) {
	s := newShuttle(b)
	data := pattern(128, 1)
	b.SetBytes(128)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		s.core[0].Write(Write{Ref: goldenWrite(false).Ref, Offset: uint32(n%1000) * 128, Data: data})
		if n++; n%256 == 0 {
			s.exchange()
		}
	}
	s.exchange()
	if got := s.core[0].Stats().WritesCompleted; got != uint64(n) {
		b.Fatalf("%d of %d writes completed", got, n)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "Mwrites/s")
}
