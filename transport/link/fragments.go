package link

// A datagram that is too long for the path travels in fragments, and takes effect as if it had arrived whole: once,
// under its own number. So a path that shrinks forces no renumbering and no new cut of what has been sent. A repetition
// in equally many fragments fills in those that are missing.
//
//	sending    Next builds the datagram and copies it aside; this call and the next ones return its fragments
//	receiving  the reassembler keeps fragments by the datagram's number; the credit bounds the number of datagrams

// fragmenter holds the datagram whose fragments are being sent.
type fragmenter struct {
	datagram      []byte
	fragmentCount int
	next          int // index of the next fragment
}

func (p *fragmenter) pending() bool { return p.next < p.fragmentCount }

// fragmentCount is the number of fragments of at most size bytes that a datagram of n bytes needs.
func fragmentCount(n, size int) int { return (n + size - fragmentHeader - 1) / (size - fragmentHeader) }

// start copies a datagram, given as its head and a body that lies elsewhere or is nil. It goes in fragments of at most
// baseSize bytes.
func (p *fragmenter) start(head, body []byte, baseSize int) {
	p.datagram = append(append(p.datagram[:0], head...), body...)
	p.fragmentCount, p.next = fragmentCount(len(p.datagram), baseSize), 0
}

// build builds the next fragment. All but the last have one size, so that they leave in one system call.
func (p *fragmenter) build(buf []byte) int {
	size := len(p.datagram)
	step := fragmentSize(size, p.fragmentCount)
	copy(buf, p.datagram[:headerSize])
	buf[1] = kindFragment
	if p.next == p.fragmentCount-1 {
		buf[1] |= p.datagram[1] & flagImmediateAck // the sender wants the ack when the last fragment has arrived
	}
	putFragmentHeader(buf[headerSize:], p.datagram[1]&^flagImmediateAck, p.next, p.fragmentCount, size)
	n := fragmentHeader + copy(buf[fragmentHeader:], p.datagram[p.next*step:min(size, (p.next+1)*step)])
	p.next++
	return n
}

// reassembler holds the datagrams of a space of which some fragments have arrived.
type reassembler struct {
	slots         []reassembly // by number, modulo the sequence window; nil until the first fragment arrives
	freeBufs      [][]byte
	deliveredBufs [2][][]byte // of completed datagrams: this batch's, and the last, which is still read
}

// reassembly is a datagram of which some fragments have arrived.
type reassembly struct {
	buf           []byte // nil: the slot is free
	seq           uint32
	datagramSize  int
	fragmentCount int
	receivedBits  uint64
}

// add keeps one fragment, and returns the datagram once all are there; the datagram is valid until the caller has read
// the events of this batch. slots is the number of slots, a power of two, and most the longest datagram, bytes.
func (j *reassembler) add(seq uint32, f *fragmentFrame, slots, most int) (datagram []byte, v verdict) {
	if j.slots == nil {
		j.slots = make([]reassembly, slots)
	}
	e := &j.slots[int(seq)&(slots-1)]
	if e.buf == nil {
		if n := len(j.freeBufs); n > 0 {
			e.buf, j.freeBufs = j.freeBufs[n-1], j.freeBufs[:n-1]
		} else {
			e.buf = make([]byte, most)
		}
		e.receivedBits = 0
	}
	if e.receivedBits == 0 || e.seq != seq || e.datagramSize != f.datagramSize || e.fragmentCount != f.count {
		e.seq, e.datagramSize, e.fragmentCount, e.receivedBits = seq, f.datagramSize, f.count, 0
	}
	if e.receivedBits&(1<<f.index) != 0 {
		return nil, duplicateFragment
	}
	copy(e.buf[f.index*fragmentSize(f.datagramSize, f.count):], f.data)
	e.receivedBits |= 1 << f.index
	if e.receivedBits != 1<<f.count-1 {
		return nil, fresh
	}
	datagram = e.buf[:e.datagramSize]
	j.deliveredBufs[0] = append(j.deliveredBufs[0], e.buf)
	e.buf = nil
	return datagram, fresh
}

// discard frees the fragments of a datagram that has arrived whole.
func (j *reassembler) discard(seq uint32) {
	if j.slots == nil {
		return
	}
	if e := &j.slots[int(seq)&(len(j.slots)-1)]; e.buf != nil && e.seq == seq {
		j.freeBufs = append(j.freeBufs, e.buf)
		e.buf = nil
	}
}

// recycle frees the datagrams of the batch before the last, whose events the caller has read.
func (j *reassembler) recycle() {
	if len(j.deliveredBufs[0])+len(j.deliveredBufs[1]) == 0 {
		return
	}
	j.freeBufs = append(j.freeBufs, j.deliveredBufs[1]...)
	j.deliveredBufs[0], j.deliveredBufs[1] = j.deliveredBufs[1][:0], j.deliveredBufs[0]
}
