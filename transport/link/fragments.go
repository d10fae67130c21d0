package link

import "encoding/binary"

// A datagram that the path does not carry whole travels in fragments, and takes effect as if it had come whole: under
// its own number, once. So nothing that was cut and numbered for full datagrams must be cut anew. A repetition in as
// many fragments fills what is missing.
//
//	sending    Next builds the datagram as ever; it is put aside, and this and the next calls give its fragments
//	receiving  a fragment is kept by the datagram's number until all are there; the credit bounds how many

// fragmenter is the datagram whose fragments are being sent.
type fragmenter struct {
	datagram      []byte // made when it is first needed
	size          int    // its bytes
	fragmentCount int
	next          int // fragment
	seq           uint32
	space         uint8
	flags         uint8 // of its kind
}

func (p *fragmenter) pending() bool { return p.next < p.fragmentCount }

// fragmentCount is how many fragments of at most size bytes a datagram of n bytes has.
func fragmentCount(n, size int) int { return (n + size - fragmentHeader - 1) / (size - fragmentHeader) }

// startFragments puts a datagram aside, its head in buf and its body, if that lies elsewhere, and builds the first
// fragment.
func (c *Core) startFragments(buf []byte, n int) int {
	p := &c.fragmenter
	if p.datagram == nil {
		p.datagram = make([]byte, c.cfg.MaxDatagram)
	}
	p.size = copy(p.datagram, buf[:n])
	p.size += copy(p.datagram[p.size:], c.gatheredBody)
	c.gatheredBody = nil
	p.fragmentCount, p.next = fragmentCount(p.size, c.path.baseSize), 0
	p.space, p.flags, p.seq = buf[1]&^flagImmediateAck, buf[1]&flagImmediateAck, binary.LittleEndian.Uint32(buf[4:])
	c.stats.DatagramsSent-- // its fragments are counted
	return c.nextFragment(buf)
}

// nextFragment builds the next fragment. All but the last are of one size, so that they leave in one system call.
func (c *Core) nextFragment(buf []byte) int {
	p := &c.fragmenter
	step := fragmentSize(p.size, p.fragmentCount)
	putHeader(buf, header{kind: kindFragment, view: c.cfg.View, seq: p.seq})
	if p.next == p.fragmentCount-1 {
		buf[1] |= p.flags // who waits for an ack waits until all is there
	}
	putFragmentHeader(buf[headerSize:], p.space, p.next, p.fragmentCount, p.size)
	n := fragmentHeader + copy(buf[fragmentHeader:], p.datagram[p.next*step:min(p.size, (p.next+1)*step)])
	p.next++
	c.stats.DatagramsSent++
	c.stats.DatagramFragmentsSent++
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

// receiveFragment takes one fragment. It returns an error as Receive does.
func (c *Core) receiveFragment(h *header, d []byte) error {
	c.stats.DatagramFragmentsReceived++
	f, why := parseFragment(d, c.cfg.MaxDatagram)
	if why != "" {
		c.stats.DatagramsMalformed++
		return malformedError(headerSize, why)
	}
	r := &c.recv[f.space]
	if !r.isFresh(h.seq) {
		if int32(h.seq-r.creditLimit()) >= 0 {
			c.stats.DatagramsBeyondCredit++
			return malformedError(4, "numbered beyond the credit")
		}
		c.stats.DatagramsDuplicate++
		r.duplicates++
		c.ackDue = true
		return nil
	}
	j := c.reassemblers[f.space].find(h.seq, &f, len(r.receivedBits)*64, c.cfg.MaxDatagram)
	if j.receivedBits&(1<<f.index) != 0 {
		c.stats.DatagramsDuplicate++
		r.duplicates++
		return nil
	}
	copy(j.buf[f.index*fragmentSize(f.datagramSize, f.count):], f.data)
	j.receivedBits |= 1 << f.index
	if j.receivedBits != 1<<f.count-1 {
		return nil
	}
	datagram := c.reassemblers[f.space].complete(j)
	inner, err := parseHeader(datagram)
	if err != nil || inner.kind != f.space || inner.seq != h.seq || inner.view != h.view {
		c.stats.DatagramsMalformed++
		return malformedError(headerSize, "the fragments of a datagram make another")
	}
	inner.immediateAck = inner.immediateAck || h.immediateAck
	return c.receiveNumbered(&inner, datagram)
}

// find is where the datagram is put together that a fragment belongs to.
func (j *reassembler) find(seq uint32, f *fragmentFrame, slots, most int) *reassembly {
	if j.slots == nil {
		j.slots = make([]reassembly, slots)
	}
	e := &j.slots[int(seq)&(slots-1)]
	if e.buf != nil && e.seq == seq && e.datagramSize == f.datagramSize && e.fragmentCount == f.count {
		return e
	}
	if e.buf == nil {
		if n := len(j.freeBufs); n > 0 {
			e.buf, j.freeBufs = j.freeBufs[n-1], j.freeBufs[:n-1]
		} else {
			e.buf = make([]byte, most)
		}
	}
	e.seq, e.datagramSize, e.fragmentCount, e.receivedBits = seq, f.datagramSize, f.count, 0
	return e
}

// complete ends a reassembly and gives its datagram, which stays valid until the caller has read the events of this
// batch.
func (j *reassembler) complete(e *reassembly) []byte {
	datagram := e.buf[:e.datagramSize]
	j.deliveredBufs[0] = append(j.deliveredBufs[0], e.buf)
	e.buf = nil
	return datagram
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
