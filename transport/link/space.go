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
	chunk uint16
	id    uint32 // transaction, or signal number
}

// sentDatagram is a datagram that was sent and has not been acked.
type sentDatagram struct {
	seq          uint32
	outstanding  bool   // sent, not yet acked
	repairQueued bool   // in the repair queue
	repeated     bool   // sent more than once
	fragmented   bool   // sent in fragments at least once
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
	nextNumber     uint32   // number of the next new datagram
	oldestLive     uint32   // oldest number that may be live
	creditLimit    uint32   // cumulative credit
	inFlight       int      // datagrams sent and not acked
	awaitingRepair int      // of them, known to be lost and not sent again yet
	fragmentNext   bool     // the next datagram that is sent again goes in fragments if it is longer than the base size
	urgentRepairs  int      // repairs that no congestion window may hold back, because nothing has been heard for long
	newestAcked    uint64   // newest transmission known to have arrived
	lastProgress   int64    // when something of the space was last heard to have arrived, ns
	latestAckable  int64    // of a datagram that was repeated later than this, ns, an earlier transmission has arrived
	recentSpurious bool     // datagrams were sent again too soon of late: what is heard need not be of a repetition
	repairQueue    []uint32 // fifo of numbers to send again
	repairHead     int
}

func newSendSpace(ring, credit int) sendSpace {
	return sendSpace{
		records:     make([]sentDatagram, ring),
		mask:        uint32(ring - 1),
		creditLimit: uint32(credit),
		repairQueue: make([]uint32, 0, ring),
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

// popRepair returns the next record that must be sent again, or nil.
func (s *sendSpace) popRepair() *sentDatagram {
	for s.repairHead < len(s.repairQueue) {
		r := &s.records[s.repairQueue[s.repairHead]&s.mask]
		live := r.outstanding && r.repairQueued && r.seq == s.repairQueue[s.repairHead]
		s.repairHead++
		if s.repairHead == len(s.repairQueue) {
			s.repairQueue, s.repairHead = s.repairQueue[:0], 0
		}
		if live {
			r.repairQueued = false
			s.awaitingRepair--
			s.urgentRepairs = max(0, s.urgentRepairs-1)
			return r
		}
	}
	return nil
}

// queueRepair has a record sent again; late says that a silence asks for it, not a gap.
func (s *sendSpace) queueRepair(r *sentDatagram, byTimer bool) {
	r.repairQueued, r.timerRepair = true, byTimer
	s.awaitingRepair++
	if s.repairHead > 0 && len(s.repairQueue) == cap(s.repairQueue) {
		n := copy(s.repairQueue, s.repairQueue[s.repairHead:])
		s.repairQueue, s.repairHead = s.repairQueue[:n], 0
	}
	s.repairQueue = append(s.repairQueue, r.seq)
}

// applyAck takes what the receiver says of this space. It calls acked for each record that has newly arrived. It
// reports false if the ack speaks of datagrams that were never sent.
func (s *sendSpace) applyAck(next, limit uint32, bitmap []byte, acked func(*sentDatagram)) bool {
	if int32(next-s.nextNumber) > 0 {
		return false
	}
	for int32(next-s.oldestLive) > 0 {
		s.markAcked(&s.records[s.oldestLive&s.mask], acked)
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
				s.markAcked(&s.records[seq&s.mask], acked)
			}
		}
	}
	for s.oldestLive != s.nextNumber && !s.records[s.oldestLive&s.mask].outstanding {
		s.oldestLive++
	}
	if int32(limit-s.creditLimit) > 0 {
		s.creditLimit = limit
	}
	return true
}

func (s *sendSpace) markAcked(r *sentDatagram, acked func(*sentDatagram)) {
	if !r.outstanding {
		return
	}
	if r.repairQueued {
		if s.awaitingRepair--; s.awaitingRepair == 0 { // what else is in the queue has arrived before
			s.repairQueue, s.repairHead = s.repairQueue[:0], 0
		}
	}
	r.outstanding, r.repairQueued = false, false
	s.inFlight--
	if !r.repeated || r.timerRepair && !s.recentSpurious || r.sentAt <= s.latestAckable {
		s.newestAcked = max(s.newestAcked, r.transmission)
	}
	acked(r)
}

// packetThreshold is how many later transmissions may arrive before a datagram counts as lost. QUIC's packet
// threshold (RFC 9002 §6.1.1), for the same reason.
const packetThreshold = 3

// isOldestOvertaken reports whether the oldest outstanding datagram is one for gaps, though the peer has no holes: it
// was sent before a repetition of what was older still, in an outage that took all that followed.
func (s *sendSpace) isOldestOvertaken(threshold uint64) bool {
	r := &s.records[s.oldestLive&s.mask]
	return s.inFlight > 0 && r.outstanding && r.transmission+threshold < s.newestAcked
}

// repairGaps queues for repair every record that more later transmissions have overtaken than are tolerated.
func (s *sendSpace) repairGaps(threshold uint64) (lost int) {
	for seq := s.oldestLive; seq != s.nextNumber; seq++ {
		r := &s.records[seq&s.mask]
		if r.outstanding && !r.repairQueued && r.transmission+threshold < s.newestAcked {
			s.queueRepair(r, false)
			lost++
		}
	}
	return lost
}

// repairOverdue queues for repair every record last sent before the given time, at most n of them, oldest first.
func (s *sendSpace) repairOverdue(before int64, n int) {
	for seq := s.oldestLive; seq != s.nextNumber && n > 0; seq++ {
		r := &s.records[seq&s.mask]
		if r.outstanding && !r.repairQueued && r.sentAt <= before {
			s.queueRepair(r, true)
			n--
		}
	}
}

// recvSpace is the receiving half of a packet number space.
type recvSpace struct {
	receivedBits     []uint64
	mask             uint32
	firstMissing     uint32 // all below have arrived
	highestPlusOne   uint32 // one past the highest that has arrived
	distinctReceived uint32 // arrived, each counted once
	credit           uint32
	duplicates       uint32 // arrived again
	unreportedGap    bool   // something was overtaken since the last ack
}

func newRecvSpace(ring, credit int) recvSpace {
	return recvSpace{receivedBits: make([]uint64, ring/64), mask: uint32(ring - 1), credit: uint32(credit)}
}

type verdict uint8

const (
	fresh verdict = iota
	duplicate
	beyondCredit // further ahead than any credit allows
)

// isFresh reports whether accept would be told of seq for the first time.
func (r *recvSpace) isFresh(seq uint32) bool {
	if seq-r.firstMissing > r.mask || int32(seq-r.creditLimit()) >= 0 {
		return false
	}
	i := seq & r.mask
	return r.receivedBits[i>>6]&(1<<(i&63)) == 0
}

// accept notes that datagram seq has arrived and says whether it is the first time.
func (r *recvSpace) accept(seq uint32) verdict {
	if int32(seq-r.firstMissing) < 0 {
		return duplicate
	}
	if seq-r.firstMissing > r.mask || int32(seq-r.creditLimit()) >= 0 {
		return beyondCredit
	}
	i := seq & r.mask
	w, b := i>>6, uint64(1)<<(i&63)
	if r.receivedBits[w]&b != 0 {
		return duplicate
	}
	r.receivedBits[w] |= b
	r.distinctReceived++
	if ahead := int32(seq - r.highestPlusOne); ahead >= 0 {
		r.unreportedGap = r.unreportedGap || ahead > 0
		r.highestPlusOne = seq + 1
	}
	for r.firstMissing != r.highestPlusOne {
		i := r.firstMissing & r.mask
		w, b := i>>6, uint64(1)<<(i&63)
		if r.receivedBits[w]&b == 0 {
			break
		}
		r.receivedBits[w] &^= b
		r.firstMissing++
	}
	return fresh
}

// hasUnreportedGap reports whether something is missing that the sender has not been told of.
func (r *recvSpace) hasUnreportedGap() bool {
	return r.unreportedGap && r.firstMissing != r.highestPlusOne
}

// creditLimit is the cumulative credit.
func (r *recvSpace) creditLimit() uint32 { return r.distinctReceived + r.credit }

// putAck writes the space's ack and returns its length.
func (r *recvSpace) putAck(b []byte) int {
	words := int(r.highestPlusOne-r.firstMissing+63) / 64
	putSpaceAck(b, r.firstMissing, r.creditLimit(), words, uint16(r.duplicates))
	b = b[spaceAckHeader:]
	for w := range words {
		binary.LittleEndian.PutUint64(b[8*w:], r.bitmapWord(r.firstMissing+uint32(64*w)))
	}
	return spaceAckHeader + 8*words
}

// bitmapWord gathers 64 bits of the ring from number seq on.
func (r *recvSpace) bitmapWord(seq uint32) uint64 {
	i := seq & r.mask
	w, s := i>>6, i&63
	v := r.receivedBits[w] >> s
	if s != 0 {
		v |= r.receivedBits[(w+1)%uint32(len(r.receivedBits))] << (64 - s)
	}
	return v
}
