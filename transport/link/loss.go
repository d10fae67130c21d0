package link

// How much the path loses decides how long repair may wait. The last datagram of a burst is missed by nobody but its
// sender: what is lost there costs as long as the sender waits for its ack. On a path that loses nothing a probe
// sent too soon is mostly wasted, so it waits for milliseconds, and for what the longest round trips of late were.
// Where datagrams do get lost, a phase that has a dozen of them would stand still for milliseconds in one of four.
// So a link that has lost some of late, in either of its spaces,
//
//	sends the last datagram of a burst twice, at once
//	probes soon, a few times, before it waits as ever
//	takes what a later datagram of its space has overtaken as lost at once
//
// A repetition that was not needed arrives twice, and the ack counts what did. So a path that is slow, or changes the
// order, is not taken for one that loses.

const (
	// quickProbeDelay is how long an ack may wait for something to travel with, and as long again for the path.
	quickProbeDelay    = 2 * maxAckDelay
	maxQuickProbes     = 3 // 2, 4 and 8 ms; then as ever
	quickTailLossDelay = 2 * millisecond
	// Each time that something was sent again too soon, waits double, maxSpurious times at most. They are halved again
	// after so many datagrams without. A slow port has up to half a second of data in its queue, which signals
	// overtake: without this the probes alone would be more than it carries (TestQueueOfOnesOwn).
	maxSpurious   = 6
	spuriousDecay = 64
	// One datagram adds lost to the share and takes a part in lossMeanWindow of it away, so that the share is a mean over
	// the last lossMeanWindow datagrams or so. A link counts as one that loses from its first loss on, and for 177
	// datagrams after its last: of small MEPs a link has but two datagrams to a phase, and as long as it has not
	// learned, each loss costs what a hundred phases take. Above crowded it is a queue that overflows, where to send
	// more makes it worse (TestIncast).
	lossMeanWindow = 256
	shareUnit      = 1 << 24
	shareOfOneLoss = shareUnit / lossMeanWindow
	lossyShare     = shareOfOneLoss / 2
	congestedShare = shareUnit / 8
)

// loss is the share of datagrams that were lost of late, of whole.
type loss struct {
	lossShare          int
	quickProbes        uint // probes since something was heard
	spuriousBackoff    uint // how often waits are doubled, since something was sent again too soon
	sinceSpurious      int  // datagrams since that
	unackedCopies      int  // copies that were sent on purpose, and of which it is not known yet that they have come
	reportedDuplicates [numSpaces]uint16
}

// onArrival notes that a datagram, sent so many times, is known to have arrived: all but one of its transmissions count
// as lost, until the peer tells that they have come, too.
func (l *loss) onArrival(sends int) {
	for range sends {
		l.lossShare -= l.lossShare / lossMeanWindow
	}
	l.lossShare += (sends - 1) * shareOfOneLoss
	if l.sinceSpurious++; l.sinceSpurious >= spuriousDecay && l.spuriousBackoff > 0 {
		l.spuriousBackoff, l.sinceSpurious = l.spuriousBackoff-1, 0
	}
}

// onDuplicates takes how many datagrams of a space the peer says have come twice. More than there were tail copies have
// been sent again too soon.
func (l *loss) onDuplicates(space int, duplicates uint16) {
	n := int(int16(duplicates - l.reportedDuplicates[space]))
	if n <= 0 { // an ack that was overtaken tells of fewer
		return
	}
	l.lossShare = max(0, l.lossShare-n*shareOfOneLoss)
	l.reportedDuplicates[space] = duplicates
	copies := min(n, l.unackedCopies)
	l.unackedCopies -= copies
	if n > copies {
		l.spuriousBackoff, l.sinceSpurious = min(l.spuriousBackoff+1, maxSpurious), 0
	}
}

// onTimeout takes that what was sent as long ago as the link waits was not heard of. If nothing came at all, that is no
// spurious retransmission; if something did of which it is in doubt when it was sent, less than was thought.
func (l *loss) onTimeout(ambiguous bool) {
	switch {
	case !ambiguous:
		l.spuriousBackoff = 0
	case l.spuriousBackoff > 0:
		l.spuriousBackoff--
	}
}

// isLossy reports whether datagrams got lost of late, and not so many that the path must be full.
func (l *loss) isLossy() bool { return l.lossShare > lossyShare && l.lossShare < congestedShare }

// tailCopy is the last datagram of a burst in its space, of which a copy is to be sent.
type tailCopy struct {
	record *sentDatagram
	seq    uint32
}

// isDue reports whether the copy still makes sense.
func (t *tailCopy) isDue() bool {
	return t.record != nil && t.record.outstanding && t.record.seq == t.seq && !t.record.repairQueued
}
