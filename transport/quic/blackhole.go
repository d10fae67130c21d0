package quic

import "time"

// A path that stops carrying full packets while a connection is up, a black hole in the words of RFC 8899 (section
// 4.3). quic-go (0.65) makes no smaller packets once a connection is up, so this is looked for below it. Evidence is a
// round of two probes, a full one and behind it a small one, that the peer answers one by one:
//
//	the full one is answered                   the path carries full packets, and all misses are void
//	the small one is, and the full one is not  a miss
//	none is                                    nothing: that is an outage, and another one looks after it
//
// After so many misses in a row as maxMissedRounds the path is taken for narrow. Then rounds go on, more and more
// seldom, until a full probe is answered. This file decides; it has no clock and sends nothing.

const (
	// probeRoundInterval is the time between rounds of a connection that sends, and after one that said nothing.
	probeRoundInterval = int64(250 * time.Millisecond)
	// fullAnswerGrace is how much later than the small one the answer to the full one may come.
	fullAnswerGrace = int64(30 * time.Millisecond)
	// probeRoundTimeout is how long an answer is waited for.
	probeRoundTimeout = int64(time.Second)
	// maxMissedRounds: of large packets half are lost where many share a port with a short queue; then one connection in
	// 32 sends halves for initialRaiseInterval. A black hole is found within half a second: quic-go's next probe comes
	// when as much time has passed again, at most, and the connection must be heard of within Config.IdleTimeout.
	maxMissedRounds = 5
	// initialRaiseInterval is how long after the path became narrow the next round is, maxRaiseInterval the longest time
	// between rounds.
	initialRaiseInterval = int64(500 * time.Millisecond)
	maxRaiseInterval     = int64(30 * time.Second)
)

// blackHoleDetector is what one end knows of the packets that its path to a peer carries. Times are ns.
type blackHoleDetector struct {
	isNarrow     bool // full packets do not arrive
	missedRounds int  // in a row

	round uint64 // number of the newest
	// rounds up to this one have been heard of, or say nothing of a path that has become narrow since
	provenRound     uint64
	awaitingAnswers bool  // the newest waits for answers
	roundSentAt     int64 // when it was sent
	smallAnsweredAt int64 // when its small one was answered, or 0
	nextRoundAt     int64 // no round before
	raiseInterval   int64 // between rounds of a path that is narrow
}

// step ends the round in hand when its time is over, and reports whether another is to be sent now. used says that the
// connection has sent full packets since the last round: where nothing is sent, nothing has to be known.
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

// onMiss takes a round whose small probe alone has arrived.
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

// onAnswer takes the answer to a probe of a round. Each counts once: an old one that is sent again proves nothing.
func (h *blackHoleDetector) onAnswer(now int64, round uint64, full bool) {
	current := h.awaitingAnswers && round == h.round
	switch {
	case round > h.round:
		// of a round that has not been
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

// cancelRound takes back the round in hand: this host had no room for its probes.
func (h *blackHoleDetector) cancelRound(now int64) {
	h.awaitingAnswers, h.nextRoundAt = false, now+probeRoundInterval
}

// untilNextStep is how long step may be left alone.
func (h *blackHoleDetector) untilNextStep(now int64) time.Duration {
	next := fullAnswerGrace
	if !h.awaitingAnswers {
		next = max(fullAnswerGrace, h.nextRoundAt-now)
	}
	return time.Duration(next)
}
