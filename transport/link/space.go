package link

import (
	"encoding/binary"
	"math/bits"

	"ringlet/internal/invariants"
)

// A packet number space numbers its datagrams and repeats one that was lost under its own number, so the receiver's
// bitmap makes every datagram take effect once, whatever the network does. Credits are cumulative, as in NIC-crossbar
// §3.3.1: the receiver publishes "datagrams that have arrived, each counted once, plus the credit of the link"; the
// sender never numbers one beyond. A lost credit is made good by the next, a lost datagram keeps its credit until it is
// repaired, and both counters may wrap.

// sentFrame is one thing in a datagram that must be sent again when the datagram is lost.
type sentFrame struct {
	kind  uint8
	chunk uint16 // or the reason of a refusal
	id    uint32 // transaction, or signal number
}

// sentDatagram is a datagram that was sent and has not been acked.
type sentDatagram struct {
	seq          uint32
	outstanding  bool   // sent, not yet acked
	repairQueued bool   // in the repair queue
	repeated     bool   // sent more than once
	fragmented   bool   // sent in fragments at least once
	hasDmove     bool   // it has a chunk of a dmove, which is not sent again
	timesSent    uint8  // how often it was sent
	size         uint16 // of its last transmission, bytes
	timerRepair  bool   // sent again after a silence, or about to be: what is heard of it now is heard of that
	transmission uint64 // transmission number, newer is larger
	sentAt       int64  // time of its last transmission, ns
	frames       []sentFrame
}

// sendSpace is the sending half of a packet number space.
type sendSpace struct {
	records        []sentDatagram
	mask           uint32
	nextNumber     uint32       // number of the next new datagram
	oldestLive     uint32       // oldest number that may be live
	creditLimit    uint32       // cumulative credit
	inFlight       int          // datagrams sent and not acked
	awaitingRepair int          // of them, known to be lost and not sent again yet
	fragmentNext   bool         // the next datagram sent again goes in fragments if it is longer than the base size
	urgentRepairs  int          // repairs that no congestion window may hold back, because nothing has been heard for long
	newestAcked    uint64       // newest transmission known to have arrived
	lastProgress   int64        // when something of the space was last heard to have arrived, ns
	latestAckable  int64        // of a datagram that was repeated later than this, ns, an earlier transmission has arrived
	recentSpurious bool         // datagrams were sent again too soon of late: what is heard need not be of a repetition
	repairQueue    fifo[uint32] // numbers to send again
	acked          []uint32     // numbers that have arrived, by the ack in hand
}

func newSendSpace(ring, credit int) sendSpace {
	return sendSpace{
		records:     make([]sentDatagram, ring),
		mask:        uint32(ring - 1),
		creditLimit: uint32(credit),
	}
}

// hasCredit reports whether one more new datagram may be sent: credit, and room in the peer's bitmap.
func (s *sendSpace) hasCredit() bool {
	return int32(s.creditLimit-s.nextNumber) > 0 && s.nextNumber-s.oldestLive < uint32(len(s.records))
}

// newRecord takes the next number and returns its record, empty.
func (s *sendSpace) newRecord() *sentDatagram {
	r := &s.records[s.nextNumber&s.mask]
	if invariants.Enabled && (!s.hasCredit() || r.outstanding) { // the arguments cost an allocation
		invariants.Check(false, "datagram %d is beyond the credit %d, or takes the place of %d", s.nextNumber, s.creditLimit,
			r.seq)
	}
	*r = sentDatagram{seq: s.nextNumber, outstanding: true, frames: r.frames[:0]}
	s.nextNumber++
	s.inFlight++
	return r
}

// record is what a number stands for, if that is live.
func (s *sendSpace) record(seq uint32) *sentDatagram { return &s.records[seq&s.mask] }

// popRepair returns the next record that must be sent again, or nil.
func (s *sendSpace) popRepair() *sentDatagram {
	for s.repairQueue.len() > 0 {
		seq := s.repairQueue.pop()
		r := s.record(seq)
		if r.outstanding && r.repairQueued && r.seq == seq {
			r.repairQueued = false
			s.awaitingRepair--
			s.urgentRepairs = max(0, s.urgentRepairs-1)
			return r
		}
	}
	return nil
}

// queueRepair has a record sent again; byTimer says that a silence asks for it, not a gap.
func (s *sendSpace) queueRepair(r *sentDatagram, byTimer bool) {
	r.repairQueued, r.timerRepair = true, byTimer
	s.awaitingRepair++
	s.repairQueue.push(r.seq)
}

// applyAck takes what the receiver says of this space, and adds what has newly arrived to acked. It reports false if
// the ack speaks of datagrams that were never sent.
func (s *sendSpace) applyAck(next, limit uint32, bitmap []byte) bool {
	if int32(next-s.nextNumber) > 0 {
		return false
	}
	for int32(next-s.oldestLive) > 0 {
		s.markAcked(s.record(s.oldestLive))
		s.oldestLive++
	}
	for w := 0; w+8 <= len(bitmap); w += 8 {
		word := binary.LittleEndian.Uint64(bitmap[w:])
		for word != 0 {
			seq := next + uint32(8*w+bits.TrailingZeros64(word))
			word &= word - 1
			if int32(seq-s.nextNumber) >= 0 {
				return false
			}
			if int32(seq-s.oldestLive) >= 0 {
				s.markAcked(s.record(seq))
			}
		}
	}
	for s.oldestLive != s.nextNumber && !s.record(s.oldestLive).outstanding {
		s.oldestLive++
	}
	if int32(limit-s.creditLimit) > 0 {
		s.creditLimit = limit
	}
	return true
}

func (s *sendSpace) markAcked(r *sentDatagram) {
	if !r.outstanding {
		return
	}
	if r.repairQueued {
		if s.awaitingRepair--; s.awaitingRepair == 0 { // what else is in the queue has arrived before
			s.repairQueue.clear()
		}
	}
	r.outstanding, r.repairQueued = false, false
	s.inFlight--
	if !r.repeated || r.timerRepair && !s.recentSpurious || r.sentAt <= s.latestAckable {
		s.newestAcked = max(s.newestAcked, r.transmission)
	}
	s.acked = append(s.acked, r.seq)
}

// packetThreshold is how many later transmissions may arrive before a datagram counts as lost. QUIC's packet
// threshold (RFC 9002 §6.1.1), for the same reason.
const packetThreshold = 3

// isOldestOvertaken reports whether the oldest outstanding datagram is one for gaps, though the peer has no holes: it
// was sent before a repetition of what was older still, in an outage that took all that followed.
func (s *sendSpace) isOldestOvertaken(threshold uint64) bool {
	r := s.record(s.oldestLive)
	return s.inFlight > 0 && r.outstanding && r.transmission+threshold < s.newestAcked
}

// repairGaps queues for repair every record that more later transmissions have overtaken than are tolerated.
func (s *sendSpace) repairGaps(threshold uint64) (lost int) {
	for seq := s.oldestLive; seq != s.nextNumber; seq++ {
		r := s.record(seq)
		if r.outstanding && !r.repairQueued && r.transmission+threshold < s.newestAcked {
			s.queueRepair(r, false)
			lost++
		}
	}
	return lost
}

// repairOverdue queues for repair every record last sent before the given time, at most n of them, oldest first. In
// case that it is the size that does not pass, the next goes in fragments.
func (s *sendSpace) repairOverdue(before int64, n int) {
	for seq := s.oldestLive; seq != s.nextNumber && n > 0; seq++ {
		r := s.record(seq)
		if r.outstanding && !r.repairQueued && r.sentAt <= before {
			s.queueRepair(r, true)
			n--
		}
	}
	s.fragmentNext = true
}

// repairLarge queues for repair every record longer than a size that was only ever sent whole.
func (s *sendSpace) repairLarge(size int) {
	for seq := s.oldestLive; seq != s.nextNumber; seq++ {
		if r := s.record(seq); r.outstanding && !r.repairQueued && int(r.size) > size && !r.fragmented {
			s.queueRepair(r, true)
		}
	}
}

// queueProbe queues the newest outstanding datagram.
func (s *sendSpace) queueProbe() {
	for seq := s.nextNumber - 1; int32(seq-s.oldestLive) >= 0; seq-- {
		if r := s.record(seq); r.outstanding {
			if !r.repairQueued {
				s.queueRepair(r, true)
			}
			return
		}
	}
}
