package link

// A datagram that the path does not carry whole travels in fragments, and takes effect as if it had come whole: under
// its own number, once. So nothing that was cut and numbered for full datagrams must be cut anew. A repetition in as
// many fragments fills what is missing.
//
//	sending    Next builds the datagram as ever; it is put aside, and this and the next calls give its fragments
//	receiving  a fragment is kept by the datagram's number until all are there; the credit bounds how many

// fragmenter is the datagram whose fragments are being sent.
type fragmenter struct {
	datagram      []byte
	fragmentCount int
	next          int // fragment
}

func (p *fragmenter) pending() bool { return p.next < p.fragmentCount }

// fragmentCount is how many fragments of at most size bytes a datagram of n bytes has.
func fragmentCount(n, size int) int { return (n + size - fragmentHeader - 1) / (size - fragmentHeader) }

// start puts a datagram aside, its head given and its body, if that lies elsewhere. It goes in fragments of at most
// baseSize bytes.
func (p *fragmenter) start(head, body []byte, baseSize int) {
	p.datagram = append(append(p.datagram[:0], head...), body...)
	p.fragmentCount, p.next = fragmentCount(len(p.datagram), baseSize), 0
}

// build builds the next fragment. All but the last are of one size, so that they leave in one system call.
func (p *fragmenter) build(buf []byte) int {
	size := len(p.datagram)
	step := fragmentSize(size, p.fragmentCount)
	copy(buf, p.datagram[:headerSize])
	buf[1] = kindFragment
	if p.next == p.fragmentCount-1 {
		buf[1] |= p.datagram[1] & flagImmediateAck // who waits for an ack waits until all is there
	}
	putFragmentHeader(buf[headerSize:], p.datagram[1]&^flagImmediateAck, p.next, p.fragmentCount, size)
	n := fragmentHeader + copy(buf[fragmentHeader:], p.datagram[p.next*step:min(size, (p.next+1)*step)])
	p.next++
	return n
}

// reassembler are the datagrams of a space of which fragments have come.
type reassembler struct {
	slots         []reassembly // by number, modulo the ring; nil until the first fragment comes
	freeBufs      [][]byte
	deliveredBufs [2][][]byte // of datagrams that are whole; the caller may still read the second
}

// reassembly is a datagram of which fragments have come.
type reassembly struct {
	buf           []byte // nil: there is none
	seq           uint32
	datagramSize  int
	fragmentCount int
	receivedBits  uint64
}

// add keeps one fragment, and returns the datagram once all are there; that stays valid until the caller has read the
// events of this batch. There are so many slots, a power of two, for datagrams of at most the given size.
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

// discard gives back what has come of a datagram that has arrived in another way.
func (j *reassembler) discard(seq uint32) {
	if j.slots == nil {
		return
	}
	if e := &j.slots[int(seq)&(len(j.slots)-1)]; e.buf != nil && e.seq == seq {
		j.freeBufs = append(j.freeBufs, e.buf)
		e.buf = nil
	}
}

// recycle lets go of what the events before these lay in.
func (j *reassembler) recycle() {
	if len(j.deliveredBufs[0])+len(j.deliveredBufs[1]) == 0 {
		return
	}
	j.freeBufs = append(j.freeBufs, j.deliveredBufs[1]...)
	j.deliveredBufs[0], j.deliveredBufs[1] = j.deliveredBufs[1][:0], j.deliveredBufs[0]
}
