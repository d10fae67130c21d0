package link

import (
	"encoding/binary"
	"math/bits"

	"ringlet/internal/invariants"
)

// A packet number space numbers its datagrams. A lost one is repeated under its own number, so by the receiver's bitmap
// every datagram takes effect once, whatever the network does. Credits are cumulative, as in NIC-crossbar §3.3.1: the
// receiver publishes "datagrams that have arrived, each counted once, plus the credit of the link"; the sender never
// uses a number beyond. So the next credit makes up for a lost one, a lost datagram keeps its credit until it is
// repaired, and both counters may wrap.

// sentFrame is a frame of a datagram that must be sent again if the datagram is lost.
type sentFrame struct {
	kind  uint8
	chunk uint16 // or the reason of a refusal
	id    uint32 // of the transaction, or the signal's number
}

// sentDatagram is the record of a datagram that was sent.
type sentDatagram struct {
	seq          uint32
	outstanding  bool // sent, not yet acked
	repairQueued bool // in the repair queue
	repeated     bool // sent more than once
	fragmented   bool // sent in fragments at least once
	hasDmove     bool // it has a chunk of a dmove, which is not repeated
	timesSent    uint8
	size         uint16 // of its last transmission, bytes
	timerRepair  bool   // last queued for repair by timer, not by a gap
	transmission uint64 // number of its last transmission
	sentAt       int64  // time of its last transmission, ns
	frames       []sentFrame
}

// sendSpace is the sending half of a packet number space.
type sendSpace struct {
	records        []sentDatagram
	mask           uint32
	nextNumber     uint32       // number of the next new datagram
	oldestLive     uint32       // oldest number that may be outstanding
	creditLimit    uint32       // cumulative credit
	inFlight       int          // datagrams sent and not acked
	awaitingRepair int          // datagrams of inFlight that are known to be lost and not sent again yet
	fragmentNext   bool         // the next repeated datagram goes in fragments if it is longer than the base size
	urgentRepairs  int          // repairs that the congestion window does not hold back, since the timer has expired
	newestAcked    uint64       // newest transmission known to have arrived
	lastProgress   int64        // when an ack last confirmed a datagram of the space, ns
	latestAckable  int64        // acks of datagrams resent later than this, ns, are of an earlier transmission
	recentSpurious bool         // there were spurious retransmissions lately: an ack need not be of the last transmission
	repairQueue    fifo[uint32] // numbers to send again
	acked          []uint32     // numbers that the present ack has newly confirmed
}

func newSendSpace(ring, credit int) sendSpace {
	return sendSpace{
		records:     make([]sentDatagram, ring),
		mask:        uint32(ring - 1),
		creditLimit: uint32(credit),
	}
}

// hasCredit reports whether one more new datagram may be sent: there is credit, and a place in the peer's bitmap.
func (s *sendSpace) hasCredit() bool {
	return int32(s.creditLimit-s.nextNumber) > 0 && s.nextNumber-s.oldestLive < uint32(len(s.records))
}

// newRecord takes the next number and returns its record, without frames.
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

// record returns the record of a number that may be outstanding.
func (s *sendSpace) record(seq uint32) *sentDatagram { return &s.records[seq&s.mask] }

// popRepair returns the next record to send again, or nil.
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

// queueRepair queues a record to be sent again; byTimer: because of a time-out, not of a gap.
func (s *sendSpace) queueRepair(r *sentDatagram, byTimer bool) {
	r.repairQueued, r.timerRepair = true, byTimer
	s.awaitingRepair++
	s.repairQueue.push(r.seq)
}

// applyAck applies the receiver's ack of this space, and appends the newly confirmed numbers to acked. It reports false
// if the ack names datagrams that were never sent.
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
		if s.awaitingRepair--; s.awaitingRepair == 0 { // all others in the queue have been acked
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

// packetThreshold is how many later transmissions may arrive before a datagram counts as lost: QUIC's packet threshold
// (RFC 9002 §6.1.1), which tolerates reordering.
const packetThreshold = 3

// isOldestOvertaken reports whether the oldest outstanding datagram is lost, though the peer has no gaps. An example:
// an outage takes all datagrams from number 4 on; number 4 is repeated and arrives, and its ack shows that the older
// transmissions of 5 and up are lost.
func (s *sendSpace) isOldestOvertaken(threshold uint64) bool {
	r := s.record(s.oldestLive)
	return s.inFlight > 0 && r.outstanding && r.transmission+threshold < s.newestAcked
}

// repairGaps queues every record that more than threshold later transmissions have overtaken, and returns their number.
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

// repairOverdue queues up to n records that were last sent before the given time, oldest first. The next repetition
// goes in fragments, in case the path drops full datagrams.
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

// repairLarge queues every record longer than size that was only ever sent whole.
func (s *sendSpace) repairLarge(size int) {
	for seq := s.oldestLive; seq != s.nextNumber; seq++ {
		if r := s.record(seq); r.outstanding && !r.repairQueued && int(r.size) > size && !r.fragmented {
			s.queueRepair(r, true)
		}
	}
}

// queueProbe queues the newest outstanding datagram as a probe.
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
