package link

// Where the carrier has no congestion control of its own, requests in flight are bounded by a window below the credit, so that a
// network shared with others is not harmed. A round ends when something sent after its beginning has arrived. A round that lost
// more than 2 % shrinks the window to 0.7 of what it was, any other lets it grow by a ninth up to the credit: the loss threshold and
// the factor of BBRv2 (draft-cardwell-iccrg-bbr-congestion-control-02, section 4.3), which tell a queue that overflows from a path
// that loses now and then; at 1 % random loss a window halved per loss (RFC 5681) would be 12 datagrams.
//
// A ninth: two links through one port then share it within 1.5 and lose 3.5 to 5 %; with an eighth within 1.8 and 5.5 %, with a sixteenth 2 %,
// but then 1 % of random loss keeps a window of 117 (jumbo frames) at a fifth, not at 0.6 (TestLinksShareABottleneck, 2026-11-21).

const (
	leastWindow   = 8  // datagrams: keeps the gap rule and a few echoes at work
	lossTolerated = 50 // a loss in as many is no congestion
)

// congestion is the window of one sending lane, in datagrams.
type congestion struct {
	window, most int
	end          uint64 // transmission whose arrival ends the round
	arrived      int    // in this round
	lost         int    // in this round
}

func newCongestion(most int) congestion { return congestion{window: most, most: most} }

// heard takes what one echo told: how many datagrams it says have arrived and how many that shows to be lost, the newest transmission
// that has arrived, and how many there were so far.
func (g *congestion) heard(arrived, lost int, newest, sent uint64) {
	g.arrived += arrived
	g.lost += lost
	if newest < g.end || g.arrived == 0 {
		return
	}
	if g.lost*lossTolerated > g.arrived+g.lost {
		g.shrink()
	} else {
		g.window = min(g.most, g.window+g.window/9+1)
	}
	g.end, g.arrived, g.lost = sent+1, 0, 0
}

// shrink makes the window smaller: the network is full.
func (g *congestion) shrink() { g.window = max(min(leastWindow, g.most), g.window*7/10) }

// mayRepair reports whether a datagram of the lane may be sent again: what is on its way, not known to be lost, is less than the window, or
// silence asks for it.
func (c *Core) mayRepair(lane int) bool {
	s := &c.send[lane]
	return s.repairPending() && (lane != laneRequests || !c.cfg.Congestion || s.urgent > 0 || s.live-s.waiting < c.jam.window)
}

// mayRequest reports whether one more new request datagram may be sent.
func (c *Core) mayRequest() bool {
	s := &c.send[laneRequests]
	return s.open() && (!c.cfg.Congestion || s.live < c.jam.window)
}
