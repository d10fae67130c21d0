package link

import "math"

// recovery is the sending half of both packet number spaces: what is under way, what an ack or a silence tells of it,
// and when it is sent again (RFC 9002). Its parts are pure by themselves: the numbers (space.go), the sizes that pass
// (path.go), and below the round trip, the share that is lost and the window.
type recovery struct {
	// immutable after newRecovery
	cfg *Config
	*notices

	send          [numSpaces]sendSpace
	transmissions uint64 // transmissions so far
	congestion    congestion
	path          path
	loss          loss
	rtt           rtt
	tailCopies    [numSpaces]tailCopy
	lastProgress  int64 // last time the peer was heard making progress, or that it was reminded, ns
	silentSince   int64 // since when nothing was heard, reminded or not, ns
	backoff       uint
	ambiguousAcks bool // since the last tick that repaired only repetitions were heard of, or what they repeat
}

func newRecovery(cfg *Config, n *notices) recovery {
	v := recovery{
		cfg:        cfg,
		notices:    n,
		rtt:        newRTT(),
		congestion: newCongestion(cfg.Credit),
		path:       newPath(cfg.MaxDatagram, cfg.BaseDatagram),
	}
	v.send[spaceRequests] = newSendSpace(cfg.SeqWindow, cfg.Credit)
	v.send[spaceResponses] = newSendSpace(DefaultSeqWindow, ResponseCredit)
	return v
}

// inFlight is how many datagrams are outstanding.
func (v *recovery) inFlight() int { return v.send[0].inFlight + v.send[1].inFlight }

// mayRequest reports whether one more new request datagram may be sent.
func (v *recovery) mayRequest() bool {
	s := &v.send[spaceRequests]
	return s.hasCredit() && (!v.cfg.CongestionControl || s.inFlight < v.congestion.window)
}

// mayRepair reports whether a datagram of the space may be sent again: what is on its way, not known to be lost, is
// less than the window, or silence asks for it.
func (v *recovery) mayRepair(space int) bool {
	s := &v.send[space]
	free := space != spaceRequests || !v.cfg.CongestionControl || s.inFlight-s.awaitingRepair < v.congestion.window
	return s.awaitingRepair > 0 && (free || s.urgentRepairs > 0)
}

// mayResend reports whether something is to be sent again.
func (v *recovery) mayResend() bool {
	return v.tailCopies[spaceRequests].isDue() || v.tailCopies[spaceResponses].isDue() || v.mayRepair(spaceRequests) ||
		v.mayRepair(spaceResponses)
}

// nextRepair is what is to be sent again next, answers first, or nil.
func (v *recovery) nextRepair() (space int, r *sentDatagram) {
	for space := numSpaces - 1; space >= 0; space-- {
		if v.mayRepair(space) {
			if r := v.send[space].popRepair(); r != nil {
				return space, r
			}
		}
	}
	return 0, nil
}

// onSent notes a transmission.
func (v *recovery) onSent(r *sentDatagram, now int64) {
	if v.inFlight() == 1 && !r.repeated {
		v.silentSince = now // the silence starts with the first outstanding datagram
		if v.backoff == 0 {
			v.lastProgress = now
		}
	}
	v.transmissions++
	r.timesSent = uint8(min(int(r.timesSent)+1, math.MaxUint8))
	r.transmission, r.sentAt = v.transmissions, now
}

// shouldFragment decides how a datagram of n bytes of a space leaves, and notes it in its record.
func (v *recovery) shouldFragment(space int, r *sentDatagram, n int, now int64) bool {
	if r.size = uint16(n); n <= v.path.baseSize {
		return false
	}
	s := &v.send[space]
	fragment := s.fragmentNext && r.repeated
	if fragment {
		s.fragmentNext = false
	}
	if fragment || v.path.isReduced() && (r.fragmented || !v.path.tryRaise(now)) {
		r.fragmented = true
		return true
	}
	v.path.onLargeSent(r.transmission)
	return false
}

// onAck takes an ack of both spaces: what of each has arrived stands in its acked until the next one, and what was lost
// is queued. It returns the offset of what it does not understand, or -1.
func (v *recovery) onAck(now int64, b []byte) (wrongAt int) {
	size := len(b)
	var sample *sentDatagram
	before, newestAdvanced := v.inFlight(), false
	for space := range v.send {
		v.send[space].acked = v.send[space].acked[:0]
	}
	for space := range v.send {
		s := &v.send[space]
		// An ack that follows a repetition sooner than any round trip tells of an earlier transmission (RFC 8985
		// §6.2); where round trips were longer than the waits, sooner than one waits now.
		was, newest := s.inFlight, s.newestAcked
		s.latestAckable, s.recentSpurious = now-v.rtt.min, v.loss.spuriousBackoff > 0
		if v.loss.spuriousBackoff > 0 {
			s.latestAckable = now - v.pto()
		}
		next, limit, bitmap, rest, ok := parseSpaceAck(b)
		ok = ok && s.applyAck(next, limit, bitmap)
		for _, seq := range s.acked {
			sample = v.noteAcked(s.record(seq), sample)
		}
		if !ok {
			return size - len(b)
		}
		v.loss.onDuplicates(space, parseDuplicates(b))
		b = rest
		if s.inFlight < was {
			s.lastProgress = now
		}
		newestAdvanced = newestAdvanced || s.newestAcked > newest
		lost := 0
		if threshold := v.reorderThreshold(); len(bitmap) > 0 || s.isOldestOvertaken(threshold) {
			lost = s.repairGaps(threshold)
		}
		if space == spaceRequests {
			v.congestion.onAck(was-s.inFlight, lost, s.newestAcked, v.transmissions)
		}
	}
	v.checkPathMTU(now)
	v.detectTailLoss(now)
	if v.inFlight() < before {
		v.lastProgress, v.silentSince, v.loss.quickProbes = now, now, 0
		if v.ambiguousAcks = !newestAdvanced; newestAdvanced {
			v.backoff = 0
		}
		v.backoff = min(v.backoff, 1) // not a probe again, then: it would tell as little
	}
	if sample != nil && !sample.repeated {
		v.rtt.addSample(now - sample.sentAt)
	}
	return -1
}

// noteAcked notes a record that an ack tells of, and what it says of the path. Only the newest one makes a round trip,
// which is returned:
// what was sent before it may have waited for an ack that was lost (RFC 9002 §5.1). One that was repeated makes
// none, since nobody knows which transmission was acked (Karn).
func (v *recovery) noteAcked(r, newest *sentDatagram) *sentDatagram {
	v.loss.onArrival(int(r.timesSent))
	if v.path.onArrival(int(r.size), r.fragmented, r.transmission) {
		v.stats.PathMTUGrown++
	}
	if newest == nil || r.transmission > newest.transmission {
		return r
	}
	return newest
}

// checkPathMTU draws the conclusions from an ack. Where full datagrams do not pass any more, those under way are sent
// again in fragments, and the network is forgiven: a size that does not pass says nothing of how much does.
func (v *recovery) checkPathMTU(now int64) {
	if !v.path.detectBlackHole(now, v.transmissions, max(minTimeout, v.rtt.timeout())) {
		return
	}
	v.stats.PathMTUShrunk++
	for space := range v.send {
		v.send[space].repairLarge(v.path.baseSize)
	}
	v.congestion = newCongestion(v.cfg.Credit)
}

// detectTailLoss repairs the end of a space that is silent while the other is not: as long as one is heard of, there is
// no silence that would. What is on its way may be long behind what was sent later on the other space, so time
// decides, not order.
func (v *recovery) detectTailLoss(now int64) {
	before := now - max(minTimeout, v.pto())
	if v.loss.isLossy() {
		before = now - min(max(quickTailLossDelay<<v.loss.spuriousBackoff, 4*v.rtt.smoothed), now-before)
	}
	for space := range v.send {
		s := &v.send[space]
		if r := s.record(s.oldestLive); s.inFlight > 0 && s.lastProgress <= before && r.outstanding && !r.repairQueued &&
			r.sentAt <= before {
			s.repairOverdue(before, maxTimeoutRepairs)
		}
	}
}

// nextTailCopy is the datagram of which a copy is due, or nil.
func (v *recovery) nextTailCopy() (space int, r *sentDatagram) {
	for space := range v.tailCopies {
		t := v.tailCopies[space]
		v.tailCopies[space] = tailCopy{}
		if t.isDue() {
			v.loss.unackedCopies++
			return space, t.record
		}
	}
	return 0, nil
}

// pto is how long to wait for what was sent: longer than round trips have been, and longer each time that
// something was sent again too soon. As long as all is sent again before it is heard of, round trips are not
// measured.
func (v *recovery) pto() int64 { return max(minProbeDelay<<v.loss.spuriousBackoff, v.rtt.timeout()) }

// repairDelay is how long to stay silent before the next attempt.
func (v *recovery) repairDelay() int64 {
	if v.probesQuickly() {
		return min(max(quickProbeDelay, 2*v.rtt.smoothed)<<(v.loss.quickProbes+v.loss.spuriousBackoff), v.pto())
	}
	if v.backoff == 0 {
		return min(maxTimeout, v.pto())
	}
	return min(maxTimeout, max(minTimeout, v.pto())<<(v.backoff-1))
}

// probesQuickly reports whether the next probe comes soon, since the path loses.
func (v *recovery) probesQuickly() bool {
	return v.loss.quickProbes < maxQuickProbes && v.backoff == 0 && v.loss.isLossy()
}

// reorderThreshold is how many later transmissions may arrive before a datagram counts as lost.
func (v *recovery) reorderThreshold() uint64 {
	if v.loss.isLossy() {
		return 0
	}
	return packetThreshold
}

// deadline is when the silence has lasted too long, or 0.
func (v *recovery) deadline() int64 {
	if v.inFlight() == 0 {
		return 0
	}
	return v.lastProgress + v.repairDelay()
}

// tick repairs by time.
func (v *recovery) tick(now int64) {
	d := v.deadline()
	if d == 0 || now < d {
		return
	}
	quick := v.probesQuickly()
	probing, shrunk := quick || v.backoff == 0, false
	for space := range v.send {
		s := &v.send[space]
		if s.inFlight == 0 || v.mayRepair(space) {
			continue
		}
		if probing {
			s.urgentRepairs = 1
			s.queueProbe()
			v.stats.Probes++
			continue
		}
		v.stats.Timeouts++
		v.loss.onTimeout(v.ambiguousAcks)
		if !shrunk { // once, however many spaces are silent
			v.congestion.shrink()
			shrunk = true
		}
		s.urgentRepairs = maxTimeoutRepairs
		// signals and answers are few, and no congestion window bounds them
		if space == spaceRequests && v.cfg.CongestionControl {
			s.urgentRepairs = min(s.urgentRepairs, v.congestion.window)
		}
		s.repairOverdue(now-v.rtt.smoothed, s.urgentRepairs)
	}
	v.lastProgress, v.ambiguousAcks = now, false
	if quick {
		v.loss.quickProbes++
		return
	}
	if v.repairDelay() < maxTimeout {
		v.backoff++
	}
}

// Repair by time. The gap rule repairs everything but the tail: when the newest datagrams of a burst are lost,
// nothing later overtakes them. So after a silence the newest one is sent again as a probe (RFC 8985 §7 does the
// same for TCP); its ack lets the gap rule do the rest. Only when probes stay unanswered are the oldest datagrams
// sent again, ever more slowly.

const (
	millisecond = int64(1e6)
	initialRTT  = 20 * millisecond
	// A peer process may lose its core for a scheduler's slice or two; a probe sent sooner is mostly wasted.
	// Measured on 2 cores with 8 processes, 2026-11-21.
	minProbeDelay = 4 * millisecond
	minTimeout    = 20 * millisecond
	maxTimeout    = 500 * millisecond
	// What a long round trip may ask of later time-outs: a megabyte in the queue of a port of 100 Mbit/s, not a
	// process that stood still.
	maxRTTTimeout = 80 * millisecond
	// What the longest round trip is assumed to be at first; each that is measured takes a part of it away. The
	// first ones are short: of signals, and of the data that a port lets through at once. If all that stands behind
	// these were sent again before it is heard of, no round trip would ever be measured, and each datagram would be
	// sent several times.
	initialAssumedRTT = 3 * initialRTT
	assumedDecay      = 16
	// A time-out repairs at most this many datagrams, so that a peer that stands still is not flooded when it wakes.
	maxTimeoutRepairs = 16
)

// rtt is the smoothed round trip (RFC 6298), and the longest of late. An ack waits behind what its sender has just
// given to a slow port, 40 ms at 200 Mbit/s, once in a cycle of phases; between, signals make short round trips that
// would let 4 × the variance forget it, and every phase begin with probes for nothing (0.3 % of all datagrams with 8
// nodes, 2026-11-21).
type rtt struct {
	smoothed, variance, min, recentMax int64
	hasSample                          bool
	assumedMax                         int64 // the longest one, less with each that was measured
}

func newRTT() rtt {
	return rtt{smoothed: initialRTT, variance: initialRTT / 2, min: initialRTT, assumedMax: initialAssumedRTT}
}

// addSample takes one round trip. Longer ones than maxTimeout say that the peer or the path stood still, not how long
// the path is.
func (r *rtt) addSample(d int64) {
	if d < 0 {
		return
	}
	d = min(d, maxTimeout)
	r.min = min(r.min, d)
	capped := min(d, maxRTTTimeout)
	r.recentMax = max(capped, r.recentMax-(r.recentMax-capped)/256)
	r.assumedMax -= r.assumedMax / assumedDecay
	if !r.hasSample { // what was assumed says nothing any more
		r.hasSample, r.smoothed, r.variance = true, d, d/2
		return
	}
	dev := r.smoothed - d
	if dev < 0 {
		dev = -dev
	}
	r.variance += (dev - r.variance) / 4
	r.smoothed += (d - r.smoothed) / 8
}

func (r *rtt) timeout() int64 { return max(r.smoothed+4*r.variance, r.recentMax, r.assumedMax) }

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

// Where the carrier has no congestion control of its own, requests in flight are bounded by a window below the credit,
// so that a network shared with others is not harmed. A round ends when something sent after its beginning has arrived.
// A round that lost more than 2 % shrinks the window to 0.7 of what it was, any other lets it grow by a twelfth and two
// datagrams, up to the credit: the loss threshold and the factor of BBRv2
// (draft-cardwell-iccrg-bbr-congestion-control-02, section 4.3), which tell a queue that overflows from a path that
// loses now and then; at 1 % random loss a window halved per loss (RFC 5681) would be 12 datagrams. One datagram lost
// in a round is no evidence: a round has as many datagrams as the window, so that of a small window each loss would be
// too much, and 2 % of random loss kept one at 18, of 116 (jumbo frames) or 712. It is now 77 and 104
// (TestWindowAtRandomLoss); a shared port loses 4.6 % in place of 4.2 (2026-11-22).
//
// A twelfth and two: two links through one port then share it within 1.2 and lose 2.5 to 4.3 %; with a ninth and one
// datagram, one that comes late got a third for a long time, with three or more datagrams they lost 7 %, and a
// sixteenth would let 1 % of random loss keep a window of 117 (jumbo frames) at a fifth (TestLinksShareABottleneck,
// 2026-11-21).
//
// A link begins with what any switch port can hold, and doubles it every round until something is lost: the rounds it
// takes are nothing beside a run, and seven links that begin with a megabyte each fill queues that they then need
// seconds to repair (8 nodes at 200 Mbit/s with queues of 32 kB, without discipline: 0.05 to 0.6 of the ports' rate,
// now 0.7).

const (
	// datagrams: seven links into a port with room for four then still keep it busy (TestIncast)
	minWindow                 = 2
	initialWindow             = 16 // datagrams: 64 KiB and a bit of Ethernet's, what a cheap switch may hold for a port
	datagramsPerToleratedLoss = 50 // a loss in as many is no congestion
)

// congestion is the window of one sending packet number space, in datagrams.
type congestion struct {
	window, maxWindow int
	slowStart         bool   // nothing was lost yet: the window doubles every round
	roundEnd          uint64 // transmission whose arrival ends the round
	roundArrived      int    // in this round
	roundLost         int    // in this round
}

func newCongestion(maxWindow int) congestion {
	return congestion{window: min(initialWindow, maxWindow), maxWindow: maxWindow, slowStart: true}
}

// onAck takes what one ack told: how many datagrams it says have arrived and how many that shows to be lost, the
// newest transmission that has arrived, and how many there were so far.
func (g *congestion) onAck(arrived, lost int, newest, sent uint64) {
	g.roundArrived += arrived
	g.roundLost += lost
	if newest < g.roundEnd || g.roundArrived == 0 {
		return
	}
	if (g.roundLost-1)*datagramsPerToleratedLoss > g.roundArrived+g.roundLost {
		g.shrink()
	} else {
		grown := g.window + g.window/12 + 2
		if g.slowStart {
			grown = 2 * g.window
		}
		g.window = min(g.maxWindow, grown)
	}
	g.roundEnd, g.roundArrived, g.roundLost = sent+1, 0, 0
}

// shrink makes the window smaller: the network is full.
func (g *congestion) shrink() {
	g.window, g.slowStart = max(min(minWindow, g.maxWindow), g.window*7/10), false
}
