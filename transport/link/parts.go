package link

import "encoding/binary"

// A datagram that the path does not carry whole travels in parts, and takes effect as if it had come whole: under its
// own number, once. So nothing that was cut and numbered for full datagrams must be cut anew. A repetition in as many
// parts fills what is missing.
//
//	sending    Next builds the datagram as ever; it is put aside, and this and the next calls give its parts
//	receiving  a part is kept by the datagram's number until all are there; the credit bounds how many

// parting is the datagram whose parts are being sent.
type parting struct {
	whole    []byte // made when it is first needed
	n        int    // its bytes
	parts    int
	next     int // part
	numbered uint32
	lane     uint8
	flags    uint8 // of its kind
}

func (p *parting) more() bool { return p.next < p.parts }

// partsOf is how many parts of at most size bytes a datagram of n bytes has.
func partsOf(n, size int) int { return (n + size - partHeader - 1) / (size - partHeader) }

// part puts a datagram aside, its head in buf and its body, if that lies elsewhere, and builds the first part.
func (c *Core) part(buf []byte, n int) int {
	p := &c.parting
	if p.whole == nil {
		p.whole = make([]byte, c.cfg.MaxDatagram)
	}
	p.n = copy(p.whole, buf[:n])
	p.n += copy(p.whole[p.n:], c.body)
	c.body = nil
	p.parts, p.next = partsOf(p.n, c.path.base), 0
	p.lane, p.flags, p.numbered = buf[1]&^flagWaits, buf[1]&flagWaits, binary.LittleEndian.Uint32(buf[4:])
	c.stats.DatagramsSent-- // its parts are counted
	return c.nextPart(buf)
}

// nextPart builds the next part. All but the last are of one size, so that they leave in one system call.
func (c *Core) nextPart(buf []byte) int {
	p := &c.parting
	step := partStep(p.n, p.parts)
	putHeader(buf, header{kind: kindPart, view: c.cfg.View, seq: p.numbered})
	if p.next == p.parts-1 {
		buf[1] |= p.flags // who waits for an echo waits until all is there
	}
	putPartHeader(buf[headerSize:], p.lane, p.next, p.parts, p.n)
	n := partHeader + copy(buf[partHeader:], p.whole[p.next*step:min(p.n, (p.next+1)*step)])
	p.next++
	c.stats.DatagramsSent++
	c.stats.PartsSent++
	return n
}

// joined are the datagrams of a lane of which parts have come.
type joined struct {
	at    []join // by number, modulo the ring; nil until the first part comes
	free  [][]byte
	spent [2][][]byte // of datagrams that are whole; the caller may still read the second
}

// join is a datagram of which parts have come.
type join struct {
	buf   []byte // nil: there is none
	seq   uint32
	total int
	parts int
	got   uint64
}

// receivePart takes one part. It returns an error as Receive does.
func (c *Core) receivePart(h *header, d []byte) error {
	c.stats.PartsReceived++
	f, why := parsePart(d, c.cfg.MaxDatagram)
	if why != "" {
		c.stats.DatagramsMalformed++
		return malformed(headerSize, why)
	}
	r := &c.recv[f.lane]
	if !r.fresh(h.seq) {
		if int32(h.seq-r.limit()) >= 0 {
			c.stats.DatagramsBeyond++
			return malformed(4, "numbered beyond the credit")
		}
		c.stats.DatagramsDuplicate++
		r.doubled++
		c.echoDue = true
		return nil
	}
	j := c.joins[f.lane].find(h.seq, &f, len(r.bits)*64, c.cfg.MaxDatagram)
	if j.got&(1<<f.index) != 0 {
		c.stats.DatagramsDuplicate++
		r.doubled++
		return nil
	}
	copy(j.buf[f.index*partStep(f.total, f.parts):], f.data)
	j.got |= 1 << f.index
	if j.got != 1<<f.parts-1 {
		return nil
	}
	whole := c.joins[f.lane].take(j)
	inner, err := parseHeader(whole)
	if err != nil || inner.kind != f.lane || inner.seq != h.seq || inner.view != h.view {
		c.stats.DatagramsMalformed++
		return malformed(headerSize, "the parts of a datagram make another")
	}
	inner.waits = inner.waits || h.waits
	return c.numbered(&inner, whole)
}

// find is where the datagram is put together that a part belongs to.
func (j *joined) find(seq uint32, f *partFrame, ring, most int) *join {
	if j.at == nil {
		j.at = make([]join, ring)
	}
	e := &j.at[int(seq)&(ring-1)]
	if e.buf != nil && e.seq == seq && e.total == f.total && e.parts == f.parts {
		return e
	}
	if e.buf == nil {
		if n := len(j.free); n > 0 {
			e.buf, j.free = j.free[n-1], j.free[:n-1]
		} else {
			e.buf = make([]byte, most)
		}
	}
	e.seq, e.total, e.parts, e.got = seq, f.total, f.parts, 0
	return e
}

// take ends a join and gives its datagram, which stays valid until the caller has read the events of this batch.
func (j *joined) take(e *join) []byte {
	whole := e.buf[:e.total]
	j.spent[0] = append(j.spent[0], e.buf)
	e.buf = nil
	return whole
}

// forget gives back what has come of a datagram that has arrived in another way.
func (j *joined) forget(seq uint32) {
	if j.at == nil {
		return
	}
	if e := &j.at[int(seq)&(len(j.at)-1)]; e.buf != nil && e.seq == seq {
		j.free = append(j.free, e.buf)
		e.buf = nil
	}
}

// turn lets go of what the events before these lay in.
func (j *joined) turn() {
	if len(j.spent[0])+len(j.spent[1]) == 0 {
		return
	}
	j.free = append(j.free, j.spent[1]...)
	j.spent[0], j.spent[1] = j.spent[1][:0], j.spent[0]
}
