package link

// How much the way loses decides how long repair may wait. The last datagram of a burst is missed by nobody but its
// sender: what is lost there costs as long as the sender waits for its echo. On a way that loses nothing a probe sent
// too soon is mostly wasted, so it waits for milliseconds, and for what the longest round trips of late were. Where
// datagrams do get lost, a phase that has a dozen of them would stand still for milliseconds in one of four (issue 11,
// row 10). So a link that has lost some of late, in either of its lanes,
//
//	sends the last datagram of a burst twice, at once
//	probes soon, a few times, before it waits as ever
//	takes what a later datagram of its lane has overtaken as lost at once
//
// A repetition that was not needed arrives twice, and the echo counts what did. So a way that is slow, or changes the
// order, is not taken for one that loses.

const (
	// quickProbe is how long an echo may wait for something to travel with, and as long again for the way.
	quickProbe  = 2 * lazyEcho
	quickProbes = 3 // 2, 4 and 8 ms; then as ever
	quickSilent = 2 * millisecond
	// lossRound is how many datagrams one look at the loss covers; a share is counted in 1/65536. Above lossy a link
	// counts as one that loses: one datagram lost in 256, as a mean over the last four rounds or so. Above crowded it
	// is a queue that overflows, where to send more makes it worse (TestIncast).
	lossRound = 64
	lossy     = 1 << 16 / 256
	crowded   = 1 << 16 / 8
)

// loss is the share of datagrams that were lost of late.
type loss struct {
	sent, again int  // in this round; again may be less than none, when what came twice is told late
	share       int  // of 65536
	quick       uint // probes since something was heard
	doubled     [lanes]uint16
}

// transmitted notes a datagram that was sent, for the first time or not.
func (l *loss) transmitted(again bool) {
	if again {
		l.again++
	}
	if l.sent++; l.sent < lossRound {
		return
	}
	l.share += (max(0, l.again)<<16/l.sent - l.share) / 4
	l.sent, l.again = 0, min(0, l.again)
}

// told takes how many datagrams of a lane the peer says have come twice.
func (l *loss) told(lane int, doubled uint16) {
	if n := int(int16(doubled - l.doubled[lane])); n > 0 { // an echo that was overtaken tells of fewer
		l.again = max(l.again-n, -lossRound)
		l.doubled[lane] = doubled
	}
}

// lossy reports whether datagrams got lost of late, and not so many that the way must be full.
func (l *loss) lossy() bool { return l.share > lossy && l.share < crowded }

// twin is the last datagram of a burst in its lane, of which a copy is to be sent.
type twin struct {
	r   *record
	seq uint32
}

// due reports whether the copy still makes sense.
func (t *twin) due() bool { return t.r != nil && t.r.live && t.r.seq == t.seq && !t.r.queued }

// double has a datagram just built sent again behind all that is due, if the way loses and nothing of its lane waits. A
// dmove is not worth it: who wants it to arrive does not send one.
func (c *Core) double(lane int) {
	r := c.built
	c.twins[lane] = twin{}
	more := lane == laneRequests && c.mayCut() || lane == laneResponses && c.responsesPending()
	if !c.loss.lossy() || r.parted || more {
		return
	}
	for _, it := range r.items {
		if it.kind == frameWrite && c.tx[it.id%maxTx].dmove {
			return
		}
	}
	c.twins[lane] = twin{r, r.seq}
}

// buildTwin builds a copy that is due, or returns 0. It is one transmission with the first: a round trip may be
// measured by either.
func (c *Core) buildTwin(now int64, buf []byte) int {
	for lane := range c.twins {
		t := c.twins[lane]
		c.twins[lane] = twin{}
		if !t.due() {
			continue
		}
		repeated := t.r.repeated
		n := c.rebuild(lane, t.r, now, buf)
		t.r.repeated = repeated
		buf[1] &^= flagWaits // nobody waits for the copy
		return n
	}
	return 0
}
