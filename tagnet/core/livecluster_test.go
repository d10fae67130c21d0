package core

// The part of a cluster in which the data are live: each node gets the events one by one, and c.total is how many there
// are.

// addLiveSteps adds what can happen to the live data of a node.
func (c *cluster) addLiveSteps(i int, add func(do func(), format string, args ...any)) {
	n := c.nodes[i]
	if !c.cfg.Live || !n.attachedRU || c.down || n.first == NoMEP {
		return
	}
	if c.update(n).InputEnded && !n.endReported {
		add(func() { c.sendReport(n, i); c.takeReady() }, "ru%d reports its end", i)
	}
	if n.arrived < c.total {
		add(func() { n.arrived++; c.sendReport(n, i); c.takeReady() }, "event %d comes to ru%d", n.arrived, i)
	}
	if n.flush < n.arrived {
		add(func() { n.flush = n.arrived; c.sendReport(n, i); c.takeReady() }, "ru%d has waited for a full MEP", i)
	} else if n.overdue < n.arrived && !c.cfg.CompleteEventsOnly {
		add(func() { n.overdue = n.arrived; c.sendReport(n, i); c.takeReady() }, "ru%d has waited for others", i)
	}
}

// readable is the MEP up to which a readout unit can read.
func (c *cluster) readable(n *clusterNode) uint64 {
	if !c.cfg.Live {
		return c.total
	}
	if c.cfg.CompleteEventsOnly && n.arrived < n.cutOf[n.read].end() {
		return 0
	}
	return n.cuts.Next().MEP
}

// sendReport has a readout unit report what it holds.
func (c *cluster) sendReport(n *clusterNode, i int) {
	in := Report{Unit: i, Stream: n.streamRU, Update: c.update(n)}
	n.endReported = in.Update.InputEnded
	if c.cfg.Live {
		in.Reach = &Reach{FirstUncut: min(n.arrived, n.cuts.Next().End), CompleteBelow: n.arrived,
			FlushBelow: n.flush, OverdueBelow: n.overdue, Ended: n.arrived == c.total}
	}
	must(c.t, c.core.Step(c.tick(), in).Err)
}

// repeatReport is the report with which a unit's stream begins.
func (c *cluster) repeatReport(n *clusterNode, i int) {
	if c.cfg.Live && n.first != NoMEP && n.cuts.Next() != nil {
		c.sendReport(n, i)
	}
}

func (c *cluster) liveUpdate(n *clusterNode) Update {
	u := Update{ReadBelow: n.read, InputEnded: n.known.CutsOver && n.read == n.cuts.Next().MEP}
	for mep := n.first; mep < n.read; mep++ {
		u.Events += uint64(n.cutOf[mep].Events)
	}
	return u
}

// receiveCuts has a readout unit take the cuts of a notice.
func (c *cluster) receiveCuts(i int, v *Notice) {
	n := c.nodes[i]
	if v.CutsAt == nil {
		return
	}
	if next := n.cuts.Next(); next == nil {
		n.cuts.Begin(*v.CutsAt, v.Earlier)
		n.arrived = v.CutsAt.End
	} else if next.MEP != v.CutsAt.MEP || next.EventsBefore != v.CutsAt.EventsBefore {
		c.t.Fatalf("ru%d hears cuts from %+v on, where %+v is next", i, *v.CutsAt, *next)
	}
	for j, cut := range v.Cuts {
		if end := n.cuts.Next().After(v.Cuts[:j]).End; cut.FirstEvent != end {
			c.t.Fatalf("ru%d hears of a cut from event %d on, where %d is next", i, cut.FirstEvent, end)
		}
		n.cutOf[v.CutsAt.MEP+uint64(j)] = cut
	}
	n.known.CutsOver = n.known.CutsOver || v.CutsOver
}

// store notes the events of a MEP that was built: each copy has the same.
func (c *cluster) store(mep uint64, cut Cut) {
	if had, ok := c.made[mep]; ok && had != cut {
		c.t.Fatalf("MEP %d was built with the events %+v, and again with %+v", mep, had, cut)
	}
	c.made[mep] = cut
}

// verifyLive holds that each event is in one MEP, and returns how many MEPs and events there are.
func (c *cluster) verifyLive() (meps, events uint64) {
	for mep := range uint64(len(c.made)) {
		cut := c.made[mep]
		if cut.FirstEvent != events {
			c.t.Fatalf("MEP %d has the events %+v, where %d is next", mep, cut, events)
		}
		events = cut.end()
	}
	if want := c.total; events != want && (c.cfg.MaxEvents == 0 || events != c.cfg.MaxEvents) {
		c.t.Fatalf("%d events are in MEPs, of %d", events, want)
	}
	return uint64(len(c.made)), events
}
