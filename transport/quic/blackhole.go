package quic

import "time"

// A path may stop carrying full packets while a connection is up, a black hole in the words of RFC 8899 §4.3. quic-go
// (0.65) cannot make its packets smaller once a connection is up, so the socket below it looks for black holes. It
// sends rounds of two probes, a full one and then a small one, and the peer answers each:
//
//	the full one is answered                   the path carries full packets, and all misses are void
//	the small one is, and the full one is not  a miss
//	none is                                    no result: the path is down, and liveness looks after that
//
// After maxMissedRounds misses in a row the path counts as narrow. Rounds go on, with growing pauses, until the peer
// answers a full probe. The detector is pure: it has no clock and sends nothing.

const (
	// probeRoundInterval is the time between rounds while the connection sends, and after a round without a result.
	probeRoundInterval = int64(250 * time.Millisecond)
	// fullAnswerGrace is how long after the answer to the small probe the answer to the full one may arrive.
	fullAnswerGrace = int64(30 * time.Millisecond)
	// probeRoundTimeout is how long a round waits for answers.
	probeRoundTimeout = int64(time.Second)
	// maxMissedRounds: where many connections share a port with a short queue, half of the large packets are lost; then
	// one connection in 32 sends halves for initialRaiseInterval by mistake. A black hole is found within half a second.
	// quic-go's own probe then comes after as much time again at most, well within Config.IdleTimeout.
	maxMissedRounds = 5
	// initialRaiseInterval is the time from the finding of a narrow path to the next round, maxRaiseInterval the longest
	// time between rounds.
	initialRaiseInterval = int64(500 * time.Millisecond)
	maxRaiseInterval     = int64(30 * time.Second)
)

// blackHoleDetector is what one end knows of the packet sizes that its path to a peer carries. Times are ns.
type blackHoleDetector struct {
	isNarrow     bool // full packets do not arrive
	missedRounds int  // in a row

	round uint64 // number of the newest round
	// a full probe of a later round proves that full packets arrive; answers to this round and earlier ones prove nothing
	provenRound     uint64
	awaitingAnswers bool  // the newest round waits for answers
	roundSentAt     int64 // when the newest round was sent
	smallAnsweredAt int64 // when its small probe was answered; 0: it was not
	nextRoundAt     int64 // the next round is not sent before this
	raiseInterval   int64 // between rounds of a narrow path
}

// step ends the present round when its time is over, and reports whether to send another now. used says whether the
// connection has sent a full packet's bytes since the last round: an idle connection needs no rounds.
func (h *blackHoleDetector) step(now int64, used bool) (send bool) {
	if h.awaitingAnswers {
		switch {
		case h.smallAnsweredAt != 0 && now-h.smallAnsweredAt >= fullAnswerGrace:
			h.onMiss(now)
		case h.smallAnsweredAt == 0 && now-h.roundSentAt >= probeRoundTimeout:
			h.awaitingAnswers, h.nextRoundAt = false, now
		default:
			return false
		}
	}
	if now < h.nextRoundAt || !used && !h.isNarrow && h.missedRounds == 0 {
		return false
	}
	h.round++
	h.awaitingAnswers, h.roundSentAt, h.smallAnsweredAt, h.nextRoundAt = true, now, 0, now+probeRoundInterval
	return true
}

// onMiss ends a round in which only the small probe was answered.
func (h *blackHoleDetector) onMiss(now int64) {
	h.awaitingAnswers = false
	if h.isNarrow {
		h.raiseInterval = min(2*h.raiseInterval, maxRaiseInterval)
		h.nextRoundAt = now + h.raiseInterval
		return
	}
	h.nextRoundAt = now
	if h.missedRounds++; h.missedRounds < maxMissedRounds {
		return
	}
	h.isNarrow, h.missedRounds, h.provenRound = true, 0, h.round
	h.raiseInterval, h.nextRoundAt = initialRaiseInterval, now+initialRaiseInterval
}

// onAnswer takes the answer to a probe. An answer counts once, so a replayed old one proves nothing.
func (h *blackHoleDetector) onAnswer(now int64, round uint64, full bool) {
	current := h.awaitingAnswers && round == h.round
	switch {
	case round > h.round:
		// the peer answers a round that this end has not sent
	case !full:
		if current && h.smallAnsweredAt == 0 {
			h.smallAnsweredAt = now
		}
	case round > h.provenRound:
		h.provenRound, h.missedRounds = round, 0
		if h.isNarrow {
			h.isNarrow, h.nextRoundAt = false, now+probeRoundInterval
		}
		h.awaitingAnswers = h.awaitingAnswers && !current
	}
}

// cancelRound drops the present round: this host could not send its probes.
func (h *blackHoleDetector) cancelRound(now int64) {
	h.awaitingAnswers, h.nextRoundAt = false, now+probeRoundInterval
}

// untilNextStep is the time after which the owner must call step.
func (h *blackHoleDetector) untilNextStep(now int64) time.Duration {
	next := fullAnswerGrace
	if !h.awaitingAnswers {
		next = max(fullAnswerGrace, h.nextRoundAt-now)
	}
	return time.Duration(next)
}
