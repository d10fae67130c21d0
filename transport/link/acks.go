package link

import "encoding/binary"

// maxAckDelay is how long an ack may wait for a datagram to travel with, if the peer has not asked for it: well below
// the peer's minProbeDelay.
const maxAckDelay = millisecond

// acks is the receiving half of both packet number spaces: it notes what has arrived, and when to ack it (RFC 9000
// §13.2).
type acks struct {
	// immutable after newAcks
	cfg *Config
	*notices

	recv         [numSpaces]recvSpace
	sinceLastAck [numSpaces]int // datagrams received since the last ack
	deadline     int64          // when a delayed ack falls due, ns; 0 for none
	due          bool
}

func newAcks(cfg *Config, n *notices) acks {
	a := acks{cfg: cfg, notices: n}
	a.recv[spaceRequests] = newRecvSpace(cfg.SeqWindow, cfg.Credit)
	a.recv[spaceResponses] = newRecvSpace(DefaultSeqWindow, ResponseCredit)
	return a
}

// onReceived notes a datagram that needs an ack.
func (a *acks) onReceived(h *header) {
	a.sinceLastAck[h.kind]++
	a.due = a.due || h.immediateAck || a.sinceLastAck[spaceRequests] >= a.cfg.AckEvery ||
		a.sinceLastAck[spaceResponses] >= ResponseCredit/2
}

// owes reports whether a datagram has arrived since the last ack.
func (a *acks) owes() bool { return a.sinceLastAck != [numSpaces]int{} }

// endBatch makes an ack of all arrived datagrams due at once. With PiggybackAcks the ack may wait for maxAckDelay,
// unless a gap is new.
func (a *acks) endBatch(now int64) {
	switch {
	case !a.owes():
	case !a.cfg.PiggybackAcks, a.recv[spaceRequests].hasUnreportedGap(), a.recv[spaceResponses].hasUnreportedGap():
		a.due = true
	case a.deadline == 0:
		a.deadline = now + maxAckDelay
	}
}

func (a *acks) tick(now int64) {
	a.due = a.due || a.deadline != 0 && now >= a.deadline
}

// put writes the acks of both spaces and returns their length.
func (a *acks) put(b []byte) (n int) {
	for space := range a.recv {
		n += a.recv[space].putAck(b[n:])
		a.recv[space].unreportedGap = false
	}
	a.due, a.sinceLastAck, a.deadline = false, [numSpaces]int{}, 0
	a.stats.AcksSent++
	return n
}

// putFrame writes an ack in front of other frames if one is owed, there are no gaps, and it fits into most bytes.
func (a *acks) putFrame(b []byte, most int) int {
	if !a.cfg.PiggybackAcks || !a.owes() || ackFrameSize > most {
		return 0
	}
	for space := range a.recv {
		if a.recv[space].firstMissing != a.recv[space].highestPlusOne {
			return 0
		}
	}
	b[0], b[1], b[2], b[3] = frameAck, 0, 0, 0
	return ackFrameHeader + a.put(b[ackFrameHeader:])
}

// recvSpace is the receiving half of a packet number space.
type recvSpace struct {
	receivedBits     []uint64
	mask             uint32
	firstMissing     uint32 // all lower numbers have arrived
	highestPlusOne   uint32 // the highest number that has arrived, plus one
	distinctReceived uint32 // datagrams that have arrived, each counted once
	credit           uint32
	duplicates       uint32 // datagrams that have arrived again
	unreportedGap    bool   // since the last ack a datagram has arrived before a lower one
	fragments        reassembler
}

func newRecvSpace(ring, credit int) recvSpace {
	return recvSpace{receivedBits: make([]uint64, ring/64), mask: uint32(ring - 1), credit: uint32(credit)}
}

type verdict uint8

const (
	fresh verdict = iota
	duplicate
	duplicateFragment
	beyondCredit // its number is above the credit limit
)

// judge returns what accept would return for a number, and changes nothing.
func (r *recvSpace) judge(seq uint32) verdict {
	i := seq & r.mask
	switch {
	case int32(seq-r.firstMissing) < 0:
		return duplicate
	case seq-r.firstMissing > r.mask || int32(seq-r.creditLimit()) >= 0:
		return beyondCredit
	case r.receivedBits[i>>6]&(1<<(i&63)) != 0:
		return duplicate
	}
	return fresh
}

// accept notes that datagram seq has arrived, whole or in fragments. It returns fresh the first time.
func (r *recvSpace) accept(seq uint32) verdict {
	if v := r.judge(seq); v != fresh {
		return r.refuse(v)
	}
	i := seq & r.mask
	r.receivedBits[i>>6] |= 1 << (i & 63)
	r.distinctReceived++
	r.fragments.discard(seq)
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

// acceptFragment keeps one fragment of a datagram of at most most bytes. With the last fragment it returns the
// datagram, for which the caller must then call accept.
func (r *recvSpace) acceptFragment(seq uint32, f *fragmentFrame, most int) (datagram []byte, v verdict) {
	if v = r.judge(seq); v == fresh {
		datagram, v = r.fragments.add(seq, f, len(r.receivedBits)*64, most)
	}
	return datagram, r.refuse(v)
}

// refuse counts a datagram or fragment that has arrived again.
func (r *recvSpace) refuse(v verdict) verdict {
	if v == duplicate || v == duplicateFragment {
		r.duplicates++
	}
	return v
}

// hasUnreportedGap reports whether a datagram is missing that no ack has reported as missing.
func (r *recvSpace) hasUnreportedGap() bool {
	return r.unreportedGap && r.firstMissing != r.highestPlusOne
}

// creditLimit is the cumulative credit: the sender may use numbers below it.
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

// bitmapWord returns 64 bits of the ring, from number seq on.
func (r *recvSpace) bitmapWord(seq uint32) uint64 {
	i := seq & r.mask
	w, s := i>>6, i&63
	v := r.receivedBits[w] >> s
	if s != 0 {
		v |= r.receivedBits[(w+1)%uint32(len(r.receivedBits))] << (64 - s)
	}
	return v
}
