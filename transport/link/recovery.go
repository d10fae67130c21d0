package link

import "math"

// recovery is the sending half of both packet number spaces: which datagrams are in flight, what an ack or a time-out
// says of them, and when to send them again (RFC 9002). Its parts are pure: the numbers (space.go), the sizes that pass
// (path.go), and below the round-trip time, the share of lost datagrams and the congestion window.
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
	lastProgress  int64 // when an ack last confirmed something, or a repair was sent by timer, ns
	silentSince   int64 // when an ack last confirmed something, ns
	backoff       uint
	ambiguousAcks bool // since the last repairing tick, acks confirmed only repeated datagrams
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

// inFlight is the number of outstanding datagrams.
func (v *recovery) inFlight() int { return v.send[0].inFlight + v.send[1].inFlight }

// mayRequest reports whether one more new request datagram may be sent.
func (v *recovery) mayRequest() bool {
	s := &v.send[spaceRequests]
	return s.hasCredit() && (!v.cfg.CongestionControl || s.inFlight < v.congestion.window)
}

// mayRepair reports whether a lost datagram of the space may be sent again: either fewer datagrams than the congestion
// window are in flight and not known to be lost, or the timer demands a repair.
func (v *recovery) mayRepair(space int) bool {
	s := &v.send[space]
	free := space != spaceRequests || !v.cfg.CongestionControl || s.inFlight-s.awaitingRepair < v.congestion.window
	return s.awaitingRepair > 0 && (free || s.urgentRepairs > 0)
}

// mayResend reports whether there is a tail copy or a repair to send.
func (v *recovery) mayResend() bool {
	return v.tailCopies[spaceRequests].isDue() || v.tailCopies[spaceResponses].isDue() || v.mayRepair(spaceRequests) ||
		v.mayRepair(spaceResponses)
}

// nextRepair returns the next datagram to send again, responses first, or nil.
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
		v.silentSince = now // the silence begins with the first outstanding datagram
		if v.backoff == 0 {
			v.lastProgress = now
		}
	}
	v.transmissions++
	r.timesSent = uint8(min(int(r.timesSent)+1, math.MaxUint8))
	r.transmission, r.sentAt = v.transmissions, now
}

// shouldFragment decides whether a datagram of n bytes leaves in fragments, and notes that in its record.
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

// onAck takes an ack of both spaces: it lists the confirmed numbers of each space in acked, until the next ack, and
// queues lost datagrams for repair. It returns the offset of what it does not understand, or -1.
func (v *recovery) onAck(now int64, b []byte) (wrongAt int) {
	size := len(b)
	var sample *sentDatagram
	before, newestAdvanced := v.inFlight(), false
	for space := range v.send {
		v.send[space].acked = v.send[space].acked[:0]
	}
	for space := range v.send {
		s := &v.send[space]
		// An ack that comes sooner after a repetition than the shortest round trip is of an earlier transmission (RFC 8985
		// §6.2). After spurious retransmissions round trips are longer than thought; then sooner than one PTO counts.
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
		v.backoff = min(v.backoff, 1) // the next time-out repairs at once: another probe would be as ambiguous
	}
	if sample != nil && !sample.repeated {
		v.rtt.addSample(now - sample.sentAt)
	}
	return -1
}

// noteAcked notes a confirmed record, and what it says of the path. It returns the newer of the two records by
// transmission: only the newest of an ack gives a round-trip sample, since the ack of an earlier one may have been lost
// (RFC 9002 §5.1). A record that was repeated gives none, since the ack may be of either transmission (Karn).
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

// checkPathMTU looks for a black hole after an ack. If the path no longer carries full datagrams, those in flight are
// sent again in fragments, and the congestion window starts anew: their loss was not congestion.
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

// detectTailLoss repairs the end of one space's burst while acks of the other space keep moving the deadline. Say the
// last request of a burst is lost while signals go on: no later request can overtake it. Datagrams of the two spaces
// may overtake each other in queues, so time decides, not order.
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

// nextTailCopy returns the datagram of which a copy is due, or nil.
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

// pto is how long to wait for an ack: longer than past round trips, and twice as long for each recent spurious
// retransmission. As long as every datagram is sent again before its ack arrives, no round trip can be measured.
func (v *recovery) pto() int64 { return max(minProbeDelay<<v.loss.spuriousBackoff, v.rtt.timeout()) }

// repairDelay is how long to wait without an ack before the next repair.
func (v *recovery) repairDelay() int64 {
	if v.probesQuickly() {
		return min(max(quickProbeDelay, 2*v.rtt.smoothed)<<(v.loss.quickProbes+v.loss.spuriousBackoff), v.pto())
	}
	if v.backoff == 0 {
		return min(maxTimeout, v.pto())
	}
	return min(maxTimeout, max(minTimeout, v.pto())<<(v.backoff-1))
}

// probesQuickly reports whether the next probe comes after a short wait, since the path loses datagrams.
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

// deadline is when tick repairs if no ack comes, or 0.
func (v *recovery) deadline() int64 {
	if v.inFlight() == 0 {
		return 0
	}
	return v.lastProgress + v.repairDelay()
}

// tick repairs if the deadline has passed.
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
		if !shrunk { // once, even if both spaces are silent
			v.congestion.shrink()
			shrunk = true
		}
		s.urgentRepairs = maxTimeoutRepairs
		// signals and answers are few, and have no congestion window
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

// Repair by time. Gaps reveal every loss but that of the tail: when the newest datagrams of a burst are lost, no later
// one overtakes them. So after a silence the newest one is sent again as a probe (as in RFC 8985 §7 for TCP); its ack
// reveals the gaps. Only if probes bring no ack are the oldest datagrams sent again, with growing pauses.

const (
	millisecond = int64(1e6)
	initialRTT  = 20 * millisecond
	// The scheduler may take the core from a peer's process for a slice or two; most probes sent sooner are wasted.
	// Measured on 2 cores with 8 processes, 2026-11-21.
	minProbeDelay = 4 * millisecond
	minTimeout    = 20 * millisecond
	maxTimeout    = 500 * millisecond
	// A round trip makes later time-outs at most this long: a megabyte in the queue of a port of 100 Mbit/s. Longer ones
	// come from a process that was stopped.
	maxRTTTimeout = 80 * millisecond
	// The longest round trip is first assumed to be this long; each sample takes a part of the assumption away. The first
	// samples are short, of signals and of the data that a port passes at once. If all the data queued behind were sent
	// again before its ack arrives, no round trip would ever be measured, and each datagram would be sent several times.
	initialAssumedRTT = 3 * initialRTT
	assumedDecay      = 16
	// A time-out repairs at most this many datagrams, so as not to flood a peer that resumes after a stop.
	maxTimeoutRepairs = 16
)

// rtt is the smoothed round-trip time (RFC 6298), and a recent maximum. An ack waits behind the data that its sender
// has just queued at a slow port, 40 ms at 200 Mbit/s, once per cycle of phases; between, signals make short round
// trips. By 4 × the variance alone the time-out would forget the long ones, and every phase would begin with useless
// probes (0.3 % of all datagrams with 8 nodes, 2026-11-21).
type rtt struct {
	smoothed, variance, min, recentMax int64
	hasSample                          bool
	assumedMax                         int64 // the assumed longest one, less with each sample
}

func newRTT() rtt {
	return rtt{smoothed: initialRTT, variance: initialRTT / 2, min: initialRTT, assumedMax: initialAssumedRTT}
}

// addSample takes one round trip, ns. A sample above maxTimeout means that the peer or the path stopped; it is cut to
// maxTimeout.
func (r *rtt) addSample(d int64) {
	if d < 0 {
		return
	}
	d = min(d, maxTimeout)
	r.min = min(r.min, d)
	capped := min(d, maxRTTTimeout)
	r.recentMax = max(capped, r.recentMax-(r.recentMax-capped)/256)
	r.assumedMax -= r.assumedMax / assumedDecay
	if !r.hasSample { // the first sample replaces what was assumed
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

// How much the path loses decides how long repair waits. If the last datagram of a burst is lost, no gap shows it, and
// the sender waits for an ack in vain. On a path without loss an early probe is mostly wasted, so the wait is
// milliseconds, and as long as recent long round trips. Where datagrams do get lost, a phase of a dozen would stop for
// milliseconds in one of four cases. So a link that has recently lost datagrams, in either space,
//
//	sends the last datagram of a burst twice, at once
//	probes a few times after short waits, before it waits as usual
//	counts a datagram as lost as soon as a later one of its space has arrived
//
// A repetition that was not needed arrives as a duplicate, and acks count duplicates. So a path that is slow or
// reorders is not taken for one that loses.

const (
	// quickProbeDelay is the longest delay of an ack at the peer, and as long again for the path.
	quickProbeDelay    = 2 * maxAckDelay
	maxQuickProbes     = 3 // after 2, 4 and 8 ms; then after the PTO
	quickTailLossDelay = 2 * millisecond
	// Each spurious retransmission doubles the waits, at most maxSpurious times. After spuriousDecay datagrams without one
	// they are halved again. A slow port has up to half a second of data in its queue, and signals overtake it: without
	// this rule the probes alone would exceed its rate (TestQueueOfOnesOwn).
	maxSpurious   = 6
	spuriousDecay = 64
	// The share of lost datagrams is a mean over about the last lossMeanWindow. A link counts as lossy from its first loss
	// until 177 datagrams after its last. With small MEPs a link sends only two datagrams per phase, so it must learn from
	// one loss: before it has, each costs the time of a hundred phases. Above congestedShare a queue overflows, and
	// sending more would make that worse (TestIncast).
	lossMeanWindow = 256
	shareUnit      = 1 << 24
	shareOfOneLoss = shareUnit / lossMeanWindow
	lossyShare     = shareOfOneLoss / 2
	congestedShare = shareUnit / 8
)

// loss is the recent share of lost datagrams, in 1/shareUnit.
type loss struct {
	lossShare          int
	quickProbes        uint // quick probes since the last progress
	spuriousBackoff    uint // how often waits are doubled, for recent spurious retransmissions
	sinceSpurious      int  // datagrams since the last spurious retransmission
	unackedCopies      int  // tail copies sent whose arrival no ack has counted yet
	reportedDuplicates [numSpaces]uint16
}

// onArrival takes a datagram that has arrived, and how often it was sent. All its transmissions but one count as lost,
// until the peer reports duplicates.
func (l *loss) onArrival(sends int) {
	for range sends {
		l.lossShare -= l.lossShare / lossMeanWindow
	}
	l.lossShare += (sends - 1) * shareOfOneLoss
	if l.sinceSpurious++; l.sinceSpurious >= spuriousDecay && l.spuriousBackoff > 0 {
		l.spuriousBackoff, l.sinceSpurious = l.spuriousBackoff-1, 0
	}
}

// onDuplicates takes the peer's count of duplicates in a space. Those beyond the number of tail copies are spurious
// retransmissions.
func (l *loss) onDuplicates(space int, duplicates uint16) {
	n := int(int16(duplicates - l.reportedDuplicates[space]))
	if n <= 0 { // an ack that was overtaken has an older count
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

// onTimeout notes that no ack came in the whole wait. If no ack came at all, repetitions were not spurious, and waits
// are no longer doubled. If acks came only of datagrams that were sent more than once, the waits are halved once.
func (l *loss) onTimeout(ambiguous bool) {
	switch {
	case !ambiguous:
		l.spuriousBackoff = 0
	case l.spuriousBackoff > 0:
		l.spuriousBackoff--
	}
}

// isLossy reports whether the path loses datagrams: some were lost recently, but fewer than an overflowing queue would
// lose.
func (l *loss) isLossy() bool { return l.lossShare > lossyShare && l.lossShare < congestedShare }

// tailCopy is the last datagram of a burst in its space, which is to be sent a second time.
type tailCopy struct {
	record *sentDatagram
	seq    uint32
}

// isDue reports whether the copy is still useful.
func (t *tailCopy) isDue() bool {
	return t.record != nil && t.record.outstanding && t.record.seq == t.seq && !t.record.repairQueued
}

// Where the carrier has no congestion control, a window below the credit bounds requests in flight, so that other users
// of the network are not harmed. A round ends when a datagram sent after its beginning has arrived. A round that lost
// more than 2 % shrinks the window to 0.7; after any other the window grows by a twelfth and two datagrams, up to the
// credit. Threshold and factor are those of BBRv2 (draft-cardwell-iccrg-bbr-congestion-control-02, section 4.3), which
// tell an overflowing queue from random loss; a window halved per loss (RFC 5681) would be 12 datagrams at 1 % random
// loss. One lost datagram per round is ignored: in a round of a small window it is more than 2 %, and 2 % of random
// loss held a window at 18, of 116 (jumbo frames) or 712. It is now 77 and 104 (TestWindowAtRandomLoss); a shared port
// loses 4.6 % instead of 4.2 (2026-11-22).
//
// With a twelfth and two, two links through one port share it within a factor of 1.2 and lose 2.5 to 4.3 %. With a
// ninth and one, a link that starts later got a third for a long time; with three or more datagrams they lost 7 %; with
// a sixteenth, 1 % of random loss would hold a window of 117 (jumbo frames) at a fifth (TestLinksShareABottleneck,
// 2026-11-21).
//
// A link begins with a window that any switch port can hold, and doubles it every round until a datagram is lost. If
// seven links begin with a megabyte each, they fill queues and need seconds to repair the losses (8 nodes at 200 Mbit/s
// with queues of 32 kB, without discipline: 0.05 to 0.6 of the ports' rate, now 0.7).

const (
	// datagrams: seven links with it still fill a port whose queue holds four (TestIncast)
	minWindow                 = 2
	initialWindow             = 16 // datagrams, 23 kB (jumbo frames: 143 kB): what a cheap switch may hold for a port
	datagramsPerToleratedLoss = 50 // one loss in this many is no congestion
)

// congestion is the congestion window of one sending packet number space, in datagrams.
type congestion struct {
	window, maxWindow int
	slowStart         bool   // no datagram was lost yet: the window doubles every round
	roundEnd          uint64 // transmission whose arrival ends the round
	roundArrived      int    // datagrams that arrived in this round
	roundLost         int    // datagrams lost in this round
}

func newCongestion(maxWindow int) congestion {
	return congestion{window: min(initialWindow, maxWindow), maxWindow: maxWindow, slowStart: true}
}

// onAck takes the result of one ack: how many datagrams have arrived and how many turn out to be lost, the newest
// transmission that has arrived, and the newest one sent.
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

// shrink makes the window smaller, since the network is full.
func (g *congestion) shrink() {
	g.window, g.slowStart = max(min(minWindow, g.maxWindow), g.window*7/10), false
}
