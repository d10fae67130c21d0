package config

// resolvePush refuses what readout units cannot do that assign MEPs to builder units by number.
func (c *draft) resolvePush() {
	if !c.DisciplineKind().Push {
		return
	}
	const why = "with the discipline push, readout units assign MEPs to builder units by number, each in its turn: "
	for _, set := range []struct {
		key string
		not bool
	}{
		{"next", c.Next != nextRoundRobin},
		{"empty-place", c.EmptyPlace != "wait"},
		{"groups", c.Groups != ""},
		{"partitions", c.Partitions != ""},
	} {
		if set.not {
			c.add(set.key, why+"leave it out, or give another discipline")
		}
	}
	if c.HasLiveSources() {
		c.add("discipline", "push assigns MEPs before the scheduler knows of them, and of live data the scheduler decides "+
			"which events are a MEP: give discipline shift, or another one")
	}
}
