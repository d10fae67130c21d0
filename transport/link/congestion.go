package link

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
