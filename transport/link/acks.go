package link

import "encoding/binary"

// maxAckDelay is how long an ack that nobody waits for may wait for something to travel with: well below the peer's
// minProbeDelay.
const maxAckDelay = millisecond

// acks is the receiving half of both packet number spaces: what has come, and when the peer is told of it (RFC 9000
// §13.2).
type acks struct {
	// immutable after newAcks
	cfg *Config
	*notices

	recv         [numSpaces]recvSpace
	sinceLastAck [numSpaces]int // received since the last ack
	deadline     int64          // when an ack that may wait falls due, ns; 0 for none
	due          bool
}

func newAcks(cfg *Config, n *notices) acks {
	a := acks{cfg: cfg, notices: n}
	a.recv[spaceRequests] = newRecvSpace(cfg.SeqWindow, cfg.Credit)
	a.recv[spaceResponses] = newRecvSpace(DefaultSeqWindow, ResponseCredit)
	return a
}

// onReceived notes a datagram that is to be acked.
func (a *acks) onReceived(h *header) {
	a.sinceLastAck[h.kind]++
	a.due = a.due || h.immediateAck || a.sinceLastAck[spaceRequests] >= a.cfg.AckEvery ||
		a.sinceLastAck[spaceResponses] >= ResponseCredit/2
}

// owes reports whether anything has come that no ack has told of.
func (a *acks) owes() bool { return a.sinceLastAck != [numSpaces]int{} }

// endBatch has what came until now acked at once; or soon, if the carrier counts packets, the sender does not wait and
// nothing is missing.
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

// put puts what has come of both spaces and returns how many bytes.
func (a *acks) put(b []byte) (n int) {
	for space := range a.recv {
		n += a.recv[space].putAck(b[n:])
		a.recv[space].unreportedGap = false
	}
	a.due, a.sinceLastAck, a.deadline = false, [numSpaces]int{}, 0
	a.stats.AcksSent++
	return n
}

// putFrame puts an ack in front of other frames, if one is owed, tells of no holes and fits into so many bytes.
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
	firstMissing     uint32 // all below have arrived
	highestPlusOne   uint32 // one past the highest that has arrived
	distinctReceived uint32 // arrived, each counted once
	credit           uint32
	duplicates       uint32 // arrived again
	unreportedGap    bool   // something was overtaken since the last ack
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
	beyondCredit // further ahead than any credit allows
)

// judge says what accept would say of a number.
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

// accept notes that datagram seq has arrived, whole or in fragments, and says whether it is the first time.
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

// acceptFragment keeps one fragment of a datagram of at most the given size. With the last it returns the datagram,
// which is then to be accepted.
func (r *recvSpace) acceptFragment(seq uint32, f *fragmentFrame, most int) (datagram []byte, v verdict) {
	if v = r.judge(seq); v == fresh {
		datagram, v = r.fragments.add(seq, f, len(r.receivedBits)*64, most)
	}
	return datagram, r.refuse(v)
}

// refuse counts what has come again.
func (r *recvSpace) refuse(v verdict) verdict {
	if v == duplicate || v == duplicateFragment {
		r.duplicates++
	}
	return v
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
