package link

import "math"

// recovery is the sending half of both packet number spaces: what is under way, what an ack or a silence tells of it,
// and when it is sent again (RFC 9002). Its parts are pure by themselves: the numbers (space.go), the round trip
// (rtt.go), the share that is lost (loss.go), the window (congestion.go) and the sizes that pass (path.go).
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
