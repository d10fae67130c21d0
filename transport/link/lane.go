package link

import (
	"encoding/binary"
	"math/bits"

	"ringlet/internal/invariants"
)

// A lane numbers its datagrams and repeats one that was lost under its own number, so the receiver's bitmap makes
// every datagram take effect once, whatever the network does. Credits are cumulative, as in NIC-crossbar §3.3.1: the
// receiver publishes "datagrams that have arrived, each counted once, plus the credit of the link"; the sender never
// numbers one beyond. A lost credit is made good by the next, a lost datagram keeps its credit until it is repaired,
// and both counters may wrap.

// item is one thing in a datagram that must be sent again when the datagram is lost.
type item struct {
	kind  uint8
	chunk uint16
	id    uint32 // transaction, or signal number
}

// record is a datagram that was sent and has not been echoed.
type record struct {
	seq      uint32
	live     bool   // sent, not yet echoed
	queued   bool   // in the repair queue
	repeated bool   // sent more than once
	parted   bool   // sent in parts at least once
	sends    uint8  // how often it was sent
	size     uint16 // of its last transmission, bytes
	late     bool   // sent again after a silence, or about to be: what is heard of it now is heard of that
	stamp    uint64 // transmission number, newer is larger
	at       int64  // time of its last transmission, ns
	items    []item
}

// sendLane is the sending half of a lane.
type sendLane struct {
	ring     []record
	mask     uint32
	next     uint32   // number of the next new datagram
	low      uint32   // oldest number that may be live
	limit    uint32   // cumulative credit
	live     int      // datagrams sent and not echoed
	waiting  int      // of them, known to be lost and not sent again yet
	trial    bool     // the next datagram that is sent again goes in parts if it is longer than the base size
	urgent   int      // repairs that no congestion window may hold back, because nothing has been heard for long
	newest   uint64   // newest transmission known to have arrived
	progress int64    // when something of the lane was last heard to have arrived, ns
	believed int64    // of a datagram that was repeated later than this, ns, an earlier transmission has arrived
	hasty    bool     // datagrams were sent again too soon of late: what is heard need not be of a repetition
	repair   []uint32 // fifo of numbers to send again
	repairAt int
}

func newSendLane(ring, credit int) sendLane {
	return sendLane{
		ring:   make([]record, ring),
		mask:   uint32(ring - 1),
		limit:  uint32(credit),
		repair: make([]uint32, 0, ring),
	}
}

// open reports whether one more new datagram may be sent: credit, and room in the peer's bitmap.
func (s *sendLane) open() bool {
	return int32(s.limit-s.next) > 0 && s.next-s.low < uint32(len(s.ring))
}

// begin takes the next number and returns its record, empty.
func (s *sendLane) begin() *record {
	r := &s.ring[s.next&s.mask]
	if invariants.Enabled && (!s.open() || r.live) { // the arguments cost an allocation
		invariants.Check(false, "datagram %d is beyond the credit %d, or takes the place of %d", s.next, s.limit, r.seq)
	}
	*r = record{seq: s.next, live: true, items: r.items[:0]}
	s.next++
	s.live++
	return r
}

// popRepair returns the next record that must be sent again, or nil.
func (s *sendLane) popRepair() *record {
	for s.repairAt < len(s.repair) {
		r := &s.ring[s.repair[s.repairAt]&s.mask]
		live := r.live && r.queued && r.seq == s.repair[s.repairAt]
		s.repairAt++
		if s.repairAt == len(s.repair) {
			s.repair, s.repairAt = s.repair[:0], 0
		}
		if live {
			r.queued = false
			s.waiting--
			s.urgent = max(0, s.urgent-1)
			return r
		}
	}
	return nil
}

// queueRepair has a record sent again; late says that a silence asks for it, not a gap.
func (s *sendLane) queueRepair(r *record, late bool) {
	r.queued, r.late = true, late
	s.waiting++
	if s.repairAt > 0 && len(s.repair) == cap(s.repair) {
		n := copy(s.repair, s.repair[s.repairAt:])
		s.repair, s.repairAt = s.repair[:n], 0
	}
	s.repair = append(s.repair, r.seq)
}

// echo takes what the receiver says of this lane. It calls acked for each record that has newly arrived. It reports
// false if the echo speaks of datagrams that were never sent.
func (s *sendLane) echo(next, limit uint32, bitmap []byte, acked func(*record)) bool {
	if int32(next-s.next) > 0 {
		return false
	}
	for int32(next-s.low) > 0 {
		s.arrived(&s.ring[s.low&s.mask], acked)
		s.low++
	}
	for w := 0; w+8 <= len(bitmap); w += 8 {
		word := binary.LittleEndian.Uint64(bitmap[w:])
		for word != 0 {
			seq := next + uint32(8*w+bits.TrailingZeros64(word))
			word &= word - 1
			if int32(seq-s.next) >= 0 {
				return false
			}
			if int32(seq-s.low) >= 0 {
				s.arrived(&s.ring[seq&s.mask], acked)
			}
		}
	}
	for s.low != s.next && !s.ring[s.low&s.mask].live {
		s.low++
	}
	if int32(limit-s.limit) > 0 {
		s.limit = limit
	}
	return true
}

func (s *sendLane) arrived(r *record, acked func(*record)) {
	if !r.live {
		return
	}
	if r.queued {
		if s.waiting--; s.waiting == 0 { // what else is in the queue has arrived before
			s.repair, s.repairAt = s.repair[:0], 0
		}
	}
	r.live, r.queued = false, false
	s.live--
	if !r.repeated || r.late && !s.hasty || r.at <= s.believed {
		s.newest = max(s.newest, r.stamp)
	}
	acked(r)
}

// reorderTolerance is how many later transmissions may arrive before a datagram counts as lost. QUIC's packet
// threshold (RFC 9002 §6.1.1), for the same reason.
const reorderTolerance = 3

// overtaken reports whether the oldest outstanding datagram is one for gaps, though the peer has no holes: it was
// sent before a repetition of what was older still, in an outage that took all that followed.
func (s *sendLane) overtaken(tolerance uint64) bool {
	r := &s.ring[s.low&s.mask]
	return s.live > 0 && r.live && r.stamp+tolerance < s.newest
}

// gaps queues for repair every record that more later transmissions have overtaken than are tolerated.
func (s *sendLane) gaps(tolerance uint64) (lost int) {
	for seq := s.low; seq != s.next; seq++ {
		r := &s.ring[seq&s.mask]
		if r.live && !r.queued && r.stamp+tolerance < s.newest {
			s.queueRepair(r, false)
			lost++
		}
	}
	return lost
}

// overdue queues for repair every record last sent before the given time, at most n of them, oldest first.
func (s *sendLane) overdue(before int64, n int) {
	for seq := s.low; seq != s.next && n > 0; seq++ {
		r := &s.ring[seq&s.mask]
		if r.live && !r.queued && r.at <= before {
			s.queueRepair(r, true)
			n--
		}
	}
}

// recvLane is the receiving half of a lane.
type recvLane struct {
	bits     []uint64
	mask     uint32
	next     uint32 // all below have arrived
	high     uint32 // one past the highest that has arrived
	distinct uint32 // arrived, each counted once
	credit   uint32
	doubled  uint32 // arrived again
	gap      bool   // something was overtaken since the last echo
}

func newRecvLane(ring, credit int) recvLane {
	return recvLane{bits: make([]uint64, ring/64), mask: uint32(ring - 1), credit: uint32(credit)}
}

type verdict uint8

const (
	fresh verdict = iota
	duplicate
	beyond // further ahead than any credit allows
)

// fresh reports whether accept would be told of seq for the first time.
func (r *recvLane) fresh(seq uint32) bool {
	if seq-r.next > r.mask || int32(seq-r.limit()) >= 0 {
		return false
	}
	i := seq & r.mask
	return r.bits[i>>6]&(1<<(i&63)) == 0
}

// accept notes that datagram seq has arrived and says whether it is the first time.
func (r *recvLane) accept(seq uint32) verdict {
	if int32(seq-r.next) < 0 {
		return duplicate
	}
	if seq-r.next > r.mask || int32(seq-r.limit()) >= 0 {
		return beyond
	}
	i := seq & r.mask
	w, b := i>>6, uint64(1)<<(i&63)
	if r.bits[w]&b != 0 {
		return duplicate
	}
	r.bits[w] |= b
	r.distinct++
	if ahead := int32(seq - r.high); ahead >= 0 {
		r.gap = r.gap || ahead > 0
		r.high = seq + 1
	}
	for r.next != r.high {
		i := r.next & r.mask
		w, b := i>>6, uint64(1)<<(i&63)
		if r.bits[w]&b == 0 {
			break
		}
		r.bits[w] &^= b
		r.next++
	}
	return fresh
}

// missed reports whether something is missing that the sender has not been told of.
func (r *recvLane) missed() bool { return r.gap && r.next != r.high }

// limit is the cumulative credit.
func (r *recvLane) limit() uint32 { return r.distinct + r.credit }

// putEcho writes the lane's echo and returns its length.
func (r *recvLane) putEcho(b []byte) int {
	words := int(r.high-r.next+63) / 64
	putEchoLane(b, r.next, r.limit(), words, uint16(r.doubled))
	b = b[echoLaneHeader:]
	for w := range words {
		binary.LittleEndian.PutUint64(b[8*w:], r.word(r.next+uint32(64*w)))
	}
	return echoLaneHeader + 8*words
}

// word gathers 64 bits of the ring from number seq on.
func (r *recvLane) word(seq uint32) uint64 {
	i := seq & r.mask
	w, s := i>>6, i&63
	v := r.bits[w] >> s
	if s != 0 {
		v |= r.bits[(w+1)%uint32(len(r.bits))] << (64 - s)
	}
	return v
}
