package link

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
)

// starts are where the numbers of a lane begin in tests: at zero, and so that they wrap, or turn negative, soon.
var starts = []uint32{0, 1<<31 - 40, 1<<32 - 40, 1<<32 - 1}

func lanesAt(seq uint32, ring, window int) (sendLane, recvLane) {
	s, r := newSendLane(ring, window), newRecvLane(ring, window)
	s.next, s.low, s.limit = seq, seq, seq+uint32(window)
	r.next, r.high, r.distinct = seq, seq, seq
	return s, r
}

func TestEachNumberIsAcceptedOnce(t *testing.T) {
	for _, at := range starts {
		_, r := lanesAt(at, 64, 8)
		for i, step := range []struct {
			seq  uint32
			want verdict
			next uint32
		}{
			{0, fresh, 1}, {0, duplicate, 1}, {2, fresh, 1}, {2, duplicate, 1}, {3, fresh, 1},
			{11, beyond, 1}, // credit: 3 arrived + 8
			{10, fresh, 1}, {11, fresh, 1},
			{1, fresh, 4}, {1, duplicate, 4}, {13, fresh, 4}, {15, beyond, 4}, {1<<31 - 1, beyond, 4},
			{1<<31 + 10, duplicate, 4},
		} {
			if got := r.accept(at + step.seq); got != step.want || r.next != at+step.next {
				t.Fatalf("start %#x, step %d: verdict %d, next %+d; want %d, %d", at, i, got, r.next-at, step.want, step.next)
			}
		}
	}
}

// TestEchoTellsWhatArrived holds the bitmap against a plain model, in random order and with numbers that wrap.
func TestEchoTellsWhatArrived(t *testing.T) {
	const ring, window = 256, 88
	buf := make([]byte, echoLaneHeader+ring/8)
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		at := starts[seed%4] + rng.Uint32N(100)
		s, r := lanesAt(at, ring, window)
		var live []uint32
		echoed := 0
		acked := func(rec *record) {
			i := slices.Index(live, rec.seq)
			if i < 0 {
				t.Fatalf("seed %d: %d acknowledged, which is not outstanding", seed, rec.seq)
			}
			live = slices.Delete(live, i, i+1)
			echoed++
		}
		arrived := map[uint32]bool{}
		for step := range 1000 {
			if s.open() && rng.IntN(2) == 0 {
				rec := s.begin()
				rec.stamp = uint64(step + 1)
				live = append(live, rec.seq)
			}
			if len(live) > 0 {
				seq := live[min(rng.IntN(len(live)), rng.IntN(len(live)))]
				if v := r.accept(seq); (v == fresh) == arrived[seq] || v == beyond {
					t.Fatalf("seed %d: number %d has verdict %d", seed, seq, v)
				}
				arrived[seq] = true
			}
			if rng.IntN(8) == 0 {
				next, limit, bitmap, rest, ok := parseEchoLane(buf[:r.putEcho(buf)])
				if !ok || len(rest) != 0 || !s.echo(next, limit, bitmap, acked) {
					t.Fatalf("seed %d: echo refused", seed)
				}
				if s.live != len(live) || echoed != len(arrived) {
					t.Fatalf("seed %d: %d live, want %d; %d echoed, %d arrived", seed, s.live, len(live), echoed, len(arrived))
				}
				if limit != at+uint32(len(arrived)+window) {
					t.Fatalf("seed %d: credit %d, want %d", seed, limit-at, len(arrived)+window)
				}
			}
			if s.live > window {
				t.Fatalf("seed %d: %d outstanding, window %d", seed, s.live, window)
			}
		}
		if echoed < 150 {
			t.Fatalf("seed %d: only %d echoed", seed, echoed)
		}
	}
}

func TestLostCreditIsMadeGoodByTheNext(t *testing.T) {
	buf := make([]byte, 64)
	for _, at := range starts {
		s, r := lanesAt(at, 64, 4)
		for s.open() {
			r.accept(s.begin().seq)
		}
		_ = r.putEcho(buf) // lost
		if s.live != 4 || s.open() {
			t.Fatalf("%d sent on a credit of 4", s.live)
		}
		next, limit, bitmap, _, _ := parseEchoLane(buf[:r.putEcho(buf)])
		if !s.echo(next, limit, bitmap, func(*record) {}) || s.live != 0 || s.limit != at+8 {
			t.Fatalf("%d outstanding, limit %d after the echo", s.live, s.limit-at)
		}
		// An older echo that comes late takes nothing away.
		if !s.echo(at+2, at+6, nil, func(*record) {}) || s.limit != at+8 || s.low != at+4 {
			t.Fatalf("an old echo moved the limit to %d, low to %d", s.limit-at, s.low-at)
		}
	}
}

func TestEchoOfWhatWasNeverSentIsRefused(t *testing.T) {
	for _, at := range starts {
		for name, echo := range map[string]func(*sendLane) bool{
			"next": func(s *sendLane) bool { return s.echo(at+3, at+9, nil, func(*record) {}) },
			"bitmap": func(s *sendLane) bool {
				return s.echo(at, at+9, binary.LittleEndian.AppendUint64(nil, 4), func(*record) {})
			},
		} {
			s, _ := lanesAt(at, 64, 8)
			s.begin()
			s.begin()
			if echo(&s) {
				t.Errorf("start %#x: %s beyond the last number was believed", at, name)
			}
		}
	}
}

func TestGapsWaitForThreeLaterArrivals(t *testing.T) {
	for _, at := range starts {
		s, _ := lanesAt(at, 64, 16)
		for i := range uint64(6) {
			s.begin().stamp = i + 1
		}
		ack := func(word uint64) {
			if !s.echo(at, at+16, binary.LittleEndian.AppendUint64(nil, word), func(*record) {}) {
				t.Fatal("echo refused")
			}
			s.gaps(reorderTolerance)
		}
		ack(0b001110) // numbers 1 to 3: the newest is 3 transmissions after number 0
		if s.waiting > 0 {
			t.Fatalf("start %#x: repaired within the tolerance for reordering", at)
		}
		ack(0b011110)
		ack(0b011110) // the same echo again queues nothing again
		if r := s.popRepair(); r == nil || r.seq != at {
			t.Fatalf("start %#x: %+v is repaired, want number 0", at, r)
		}
		if r := s.popRepair(); r != nil {
			t.Fatalf("start %#x: number %d is repaired too", at, r.seq-at)
		}
	}
}

func TestRepairForgetsWhatHasArrivedMeanwhile(t *testing.T) {
	s, _ := lanesAt(0, 64, 8)
	for i := range uint64(8) {
		s.begin().stamp = i + 1
	}
	s.overdue(0, 5)
	if len(s.repair) != 5 {
		t.Fatalf("%d queued, want the 5 oldest", len(s.repair))
	}
	s.echo(4, 8, nil, func(*record) {})
	if r := s.popRepair(); r == nil || r.seq != 4 {
		t.Fatalf("%+v is repaired, want number 4", r)
	}
	if r := s.popRepair(); r != nil || s.waiting > 0 {
		t.Fatalf("%+v is repaired, want nothing", r)
	}
}
