package link

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
)

// starts are where the numbers of a space begin in tests: at zero, and so that they wrap, or turn negative, soon.
var starts = []uint32{0, 1<<31 - 40, 1<<32 - 40, 1<<32 - 1}

func spacesAt(seq uint32, ring, window int) (sendSpace, recvSpace) {
	s, r := newSendSpace(ring, window), newRecvSpace(ring, window)
	s.nextNumber, s.oldestLive, s.creditLimit = seq, seq, seq+uint32(window)
	r.firstMissing, r.highestPlusOne, r.distinctReceived = seq, seq, seq
	return s, r
}

func TestEachNumberIsAcceptedOnce(t *testing.T) {
	for _, at := range starts {
		_, r := spacesAt(at, 64, 8)
		for i, step := range []struct {
			seq  uint32
			want verdict
			next uint32
		}{
			{0, fresh, 1}, {0, duplicate, 1}, {2, fresh, 1}, {2, duplicate, 1}, {3, fresh, 1},
			{11, beyondCredit, 1}, // credit: 3 arrived + 8
			{10, fresh, 1}, {11, fresh, 1},
			{1, fresh, 4}, {1, duplicate, 4}, {13, fresh, 4}, {15, beyondCredit, 4}, {1<<31 - 1, beyondCredit, 4},
			{1<<31 + 10, duplicate, 4},
		} {
			if got := r.accept(at + step.seq); got != step.want || r.firstMissing != at+step.next {
				t.Fatalf("start %#x, step %d: verdict %d, next %+d; want %d, %d", at, i, got, r.firstMissing-at, step.want,
					step.next)
			}
		}
	}
}

// TestAckReportsWhatArrived holds the bitmap against a plain model, in random order and with numbers that wrap.
func TestAckReportsWhatArrived(t *testing.T) {
	const ring, window = 256, 88
	buf := make([]byte, spaceAckHeader+ring/8)
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		at := starts[seed%4] + rng.Uint32N(100)
		s, r := spacesAt(at, ring, window)
		var live []uint32
		arrivals := 0
		acked := func(seq uint32) {
			i := slices.Index(live, seq)
			if i < 0 {
				t.Fatalf("seed %d: %d acknowledged, which is not outstanding", seed, seq)
			}
			live = slices.Delete(live, i, i+1)
			arrivals++
		}
		arrived := map[uint32]bool{}
		for step := range 1000 {
			if s.hasCredit() && rng.IntN(2) == 0 {
				rec := s.newRecord()
				rec.transmission = uint64(step + 1)
				live = append(live, rec.seq)
			}
			if len(live) > 0 {
				seq := live[min(rng.IntN(len(live)), rng.IntN(len(live)))]
				if v := r.accept(seq); (v == fresh) == arrived[seq] || v == beyondCredit {
					t.Fatalf("seed %d: number %d has verdict %d", seed, seq, v)
				}
				arrived[seq] = true
			}
			if rng.IntN(8) == 0 {
				next, limit, bitmap, rest, ok := parseSpaceAck(buf[:r.putAck(buf)])
				if !ok || len(rest) != 0 || !s.applyAck(next, limit, bitmap) {
					t.Fatalf("seed %d: ack refused", seed)
				}
				for _, seq := range s.acked {
					acked(seq)
				}
				s.acked = s.acked[:0]
				if s.inFlight != len(live) || arrivals != len(arrived) {
					t.Fatalf("seed %d: %d live, want %d; %d acked, %d arrived", seed, s.inFlight, len(live), arrivals, len(arrived))
				}
				if limit != at+uint32(len(arrived)+window) {
					t.Fatalf("seed %d: credit %d, want %d", seed, limit-at, len(arrived)+window)
				}
			}
			if s.inFlight > window {
				t.Fatalf("seed %d: %d outstanding, window %d", seed, s.inFlight, window)
			}
		}
		if arrivals < 150 {
			t.Fatalf("seed %d: only %d acked", seed, arrivals)
		}
	}
}

func TestLostCreditIsMadeGoodByTheNext(t *testing.T) {
	buf := make([]byte, 64)
	for _, at := range starts {
		s, r := spacesAt(at, 64, 4)
		for s.hasCredit() {
			r.accept(s.newRecord().seq)
		}
		_ = r.putAck(buf) // lost
		if s.inFlight != 4 || s.hasCredit() {
			t.Fatalf("%d sent on a credit of 4", s.inFlight)
		}
		next, limit, bitmap, _, _ := parseSpaceAck(buf[:r.putAck(buf)])
		if !s.applyAck(next, limit, bitmap) || s.inFlight != 0 || s.creditLimit != at+8 {
			t.Fatalf("%d outstanding, limit %d after the ack", s.inFlight, s.creditLimit-at)
		}
		// An older ack that comes late takes nothing away.
		if !s.applyAck(at+2, at+6, nil) || s.creditLimit != at+8 || s.oldestLive != at+4 {
			t.Fatalf("an old ack moved the limit to %d, low to %d", s.creditLimit-at, s.oldestLive-at)
		}
	}
}

func TestAckOfWhatWasNeverSentIsRefused(t *testing.T) {
	for _, at := range starts {
		for name, applyAck := range map[string]func(*sendSpace) bool{
			"next": func(s *sendSpace) bool { return s.applyAck(at+3, at+9, nil) },
			"bitmap": func(s *sendSpace) bool {
				return s.applyAck(at, at+9, binary.LittleEndian.AppendUint64(nil, 4))
			},
		} {
			s, _ := spacesAt(at, 64, 8)
			s.newRecord()
			s.newRecord()
			if applyAck(&s) {
				t.Errorf("start %#x: %s beyond the last number was believed", at, name)
			}
		}
	}
}

func TestGapsWaitForThreeLaterArrivals(t *testing.T) {
	for _, at := range starts {
		s, _ := spacesAt(at, 64, 16)
		for i := range uint64(6) {
			s.newRecord().transmission = i + 1
		}
		ack := func(word uint64) {
			if !s.applyAck(at, at+16, binary.LittleEndian.AppendUint64(nil, word)) {
				t.Fatal("ack refused")
			}
			s.repairGaps(packetThreshold)
		}
		ack(0b001110) // numbers 1 to 3: the newest is 3 transmissions after number 0
		if s.awaitingRepair > 0 {
			t.Fatalf("start %#x: repaired within the tolerance for reordering", at)
		}
		ack(0b011110)
		ack(0b011110) // the same ack again queues nothing again
		if r := s.popRepair(); r == nil || r.seq != at {
			t.Fatalf("start %#x: %+v is repaired, want number 0", at, r)
		}
		if r := s.popRepair(); r != nil {
			t.Fatalf("start %#x: number %d is repaired too", at, r.seq-at)
		}
	}
}

func TestRepairForgetsWhatHasArrivedMeanwhile(t *testing.T) {
	s, _ := spacesAt(0, 64, 8)
	for i := range uint64(8) {
		s.newRecord().transmission = i + 1
	}
	s.repairOverdue(0, 5)
	if s.repairQueue.len() != 5 {
		t.Fatalf("%d queued, want the 5 oldest", s.repairQueue.len())
	}
	s.applyAck(4, 8, nil)
	if r := s.popRepair(); r == nil || r.seq != 4 {
		t.Fatalf("%+v is repaired, want number 4", r)
	}
	if r := s.popRepair(); r != nil || s.awaitingRepair > 0 {
		t.Fatalf("%+v is repaired, want nothing", r)
	}
}
