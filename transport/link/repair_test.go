package link

import (
	"testing"

	"ringlet/shmem"
)

func TestTailLossIsRepairedByAProbe(t *testing.T) {
	for name, load := range map[string]func(*duo){
		"write":  func(d *duo) { d.write(0, 0, pattern(100, 3), 1) },
		"signal": func(d *duo) { d.core[0].Signal([]byte("s")) },
	} {
		d := newDuo(t, Config{})
		load(d)
		lost := 0
		d.drop = func(from int, _ []byte) bool {
			if from == 0 && lost == 0 {
				lost++
				return true
			}
			return false
		}
		if !d.run(second) {
			t.Fatalf("%s: stuck", name)
		}
		if s := d.core[0].Stats(); s.Probes != 1 || s.Timeouts != 0 || s.DatagramsResent != 1 {
			t.Errorf("%s: %d probes, %d time-outs, %d re-sent; want 1, 0, 1", name, s.Probes, s.Timeouts, s.DatagramsResent)
		}
	}
}

func TestLostTailOfABurstCostsOneProbe(t *testing.T) {
	d := newDuo(t, Config{})
	n := 0
	d.drop = func(from int, b []byte) bool {
		if from != 0 || b[1] != spaceRequests {
			return false
		}
		n++
		return n > 10 && n <= 20
	}
	d.write(0, 0, pattern(20*fullChunk(1415), 1), 1)
	if !d.run(second) {
		t.Fatal("stuck")
	}
	// Ten that were lost, and a copy of the last of them: the probe has shown that the path loses.
	if s := d.core[0].Stats(); s.Probes != 1 || s.Timeouts != 0 || s.DatagramsResent != 11 {
		t.Errorf("%d probes, %d time-outs, %d re-sent; want 1, 0, 11", s.Probes, s.Timeouts, s.DatagramsResent)
	}
}

func TestLongPartitionIsSurvivedQuietly(t *testing.T) {
	d := newDuo(t, Config{})
	d.write(0, 0, pattern(200_000, 1), 1)
	d.core[1].Signal([]byte("x"))
	sent := 0
	d.drop = func(int, []byte) bool { sent++; return true }
	if d.run(60 * second) {
		t.Fatal("finished although cut off")
	}
	// One window of requests and one datagram of responses, then a burst of each direction per 500 ms at most.
	if limit := DefaultCredit + 1 + 2*maxTimeoutRepairs*130; sent > limit {
		t.Errorf("%d datagrams sent into a partition of 60 s, want at most %d", sent, limit)
	}
	d.drop = nil
	healed := d.now
	if !d.run(10 * second) {
		t.Fatal("stuck after the partition healed")
	}
	if took := d.now - healed; took > 2*maxTimeout {
		t.Errorf("it took %d ms to go on", took/1e6)
	}
	if len(d.eventsOf(0, EventCompleted)) != 1 || len(d.eventsOf(0, EventSignal)) != 1 {
		t.Error("not everything arrived")
	}
}

// dmoves queues n dmoves of one full chunk each.
func dmoves(d *duo, n int, deadline int64) {
	chunkSize := fullChunk(1415)
	for i := range n {
		w := Write{
			Ref:      d.ref[0],
			Offset:   uint32(i % 100 * chunkSize),
			Data:     pattern(chunkSize, byte(i)),
			Dmove:    true,
			Deadline: deadline,
			Cookie:   uint64(i),
		}
		if !d.core[0].Write(w) {
			d.t.Fatalf("no room for dmove %d", i)
		}
	}
}

func TestLostDmoveIsCountedNeverRepaired(t *testing.T) {
	d := newDuo(t, Config{})
	n, first := 0, map[string]bool{}
	d.drop = func(from int, b []byte) bool {
		if from != 0 || b[1] != spaceRequests || first[string(b[4:8])] {
			return false // what is sent again under an old number arrives
		}
		first[string(b[4:8])] = true
		n++
		return n%3 == 0
	}
	// Ten windows: so many pass only when the credit of what was lost comes back.
	const total = 10 * DefaultCredit
	dmoves(d, total, 0)
	if !d.run(100 * second) {
		t.Fatalf("stuck: %+v", d.core[0].Stats())
	}
	s, r := d.core[0].Stats(), d.core[1].Stats()
	if s.ChunksSent != total || s.ChunksResent != 0 {
		t.Errorf("%d chunks sent, %d again; want %d, 0", s.ChunksSent, s.ChunksResent, total)
	}
	if s.ChunksExpired != total/3 || r.ChunksPlaced != total-s.ChunksExpired {
		t.Errorf("%d dead, %d placed of %d", s.ChunksExpired, r.ChunksPlaced, total)
	}
	if s.TransactionsUsed != 0 || len(d.eventsOf(0, EventCompleted)) != total ||
		len(d.eventsOf(1, EventPlaced)) != int(r.ChunksPlaced) {
		t.Errorf("%d ids in use, %d completed, %d placed", s.TransactionsUsed, len(d.eventsOf(0, EventCompleted)),
			len(d.eventsOf(1, EventPlaced)))
	}
	if r.DatagramsReceived == 0 || s.DatagramsResent < total/3 {
		t.Errorf("%d numbers repaired, want %d", s.DatagramsResent, total/3)
	}
}

func TestDmoveDiesAtItsTime(t *testing.T) {
	d := newDuo(t, Config{})
	dmoves(d, 3, d.now+100)
	d.now += 101
	d.write(0, 0, []byte("alive"), 50)
	if !d.run(second) {
		t.Fatal("stuck")
	}
	s := d.core[0].Stats()
	if s.WritesExpired != 3 || s.ChunksExpired != 3 || s.ChunksSent != 1 || s.WritesCompleted != 1 ||
		s.TransactionsUsed != 0 {
		t.Errorf("%+v", s)
	}
	for i, ev := range d.eventsOf(0, EventCompleted)[:3] {
		if ev.Reason != ReasonExpired || ev.Cookie != uint64(i) {
			t.Errorf("completion %d: %+v", i, ev)
		}
	}
	if (&RefusedError{Peer: "b", Reason: ReasonExpired}).Error() == (&RefusedError{Peer: "b", Reason: 1}).Error() {
		t.Error("death and refusal read the same")
	}
}

// TestRefusedDmoveIsReportedToTheReceiverOnly: it has no response, so its writer learns nothing.
func TestRefusedDmoveIsReportedToTheReceiverOnly(t *testing.T) {
	d := newDuo(t, Config{})
	d.core[0].Write(Write{
		Ref:    d.ref[0],
		Offset: duoGrant,
		Data:   []byte("x"),
		Dmove:  true,
		Cookie: 1,
	})
	if !d.run(second) {
		t.Fatal("stuck")
	}
	if got := d.eventsOf(0, EventCompleted); len(got) != 1 || got[0].Reason != 0 {
		t.Errorf("writer told %+v", got)
	}
	if got := d.eventsOf(1, EventRefused); len(got) != 1 || got[0].Reason != Reason(shmem.OutOfRange) {
		t.Errorf("receiver told %+v", got)
	}
}

// TestLateAcksDoNotSlowRepairDown: round trips measured across a standstill would make each later repair wait as
// long.
func TestLateAcksDoNotSlowRepairDown(t *testing.T) {
	d := newDuo(t, Config{})
	d.write(0, 0, pattern(100_000, 1), 1)
	d.drop = func(from int, _ []byte) bool { return from == 1 }
	d.run(30 * second)
	d.drop = nil
	if !d.run(second) {
		t.Fatal("stuck")
	}
	if w := d.core[0].recovery.repairDelay(); w > maxTimeout {
		t.Errorf("the next repair waits %d ms", w/1e6)
	}
	if got := d.core[0].recovery.rtt.smoothed; got > initialRTT {
		t.Errorf("the round trip is thought to be %d ms", got/1e6)
	}
}

// TestLongestRoundTrip: what is remembered of long round trips is no more than a slow port makes them, keeps the
// time-out above them through many short ones, and is forgotten at the same pace.
func TestLongestRoundTrip(t *testing.T) {
	type trips struct {
		took int64 // ms
		n    int
	}
	for _, tc := range []struct {
		name        string
		trips       []trips
		least, most int64 // ms
	}{
		{"short ones", []trips{{1, 1000}}, 1, 1},
		{"a slow port", []trips{{40, 1000}}, 40, 40},
		{"a very slow port", []trips{{400, 1000}}, maxRTTTimeout / millisecond, maxRTTTimeout / millisecond},
		{"a peer that stands still", []trips{{5000, 1000}}, maxRTTTimeout / millisecond, maxRTTTimeout / millisecond},
		{"remembered", []trips{{40, 1}, {1, 100}}, 25, 40},
		{"forgotten", []trips{{40, 1}, {1, 2100}}, 1, 2},
		{"long ones, forgotten", []trips{{400, 1000}, {1, 1000}}, 1, 3},
	} {
		r := newRTT()
		for _, some := range tc.trips {
			for range some.n {
				r.addSample(some.took * millisecond)
			}
		}
		if r.recentMax < tc.least*millisecond || r.recentMax > tc.most*millisecond || r.timeout() < r.recentMax {
			t.Errorf("%s: %d µs, want %d to %d ms", tc.name, r.recentMax/1000, tc.least, tc.most)
		}
	}
}
