package partition

import (
	"maps"
	"slices"

	"ringlet/internal/nodename"
	"ringlet/node/cluster"
	"ringlet/node/config"
)

// A spare is a node of the cluster that is no member of the configuration. With spares: auto it substitutes for a
// member that is lost: its process gets rank, indices and seat of the member, under the member's name.

// substitutesFor returns which spare substitutes for which member: for the first member that is missing the first spare
// in its order of preference that can have its units, and so on. Members without a spare are left out.
func substitutesFor(missing, spares []string, can func(member, spare string) bool) map[string]string {
	out := map[string]string{}
	for _, name := range missing {
		for _, spare := range preferredSpares(name, spares) {
			if can(name, spare) {
				out[name] = spare
				spares = slices.DeleteFunc(slices.Clone(spares), func(s string) bool { return s == spare })
				break
			}
		}
	}
	return out
}

// preferredSpares are spares in the order in which a member would have them: those of its own process, which may have
// the same trouble, come last.
func preferredSpares(member string, spares []string) []string {
	apart := func(spare string) int {
		if nodename.ProcessOf(spare) == nodename.ProcessOf(member) {
			return 1
		}
		return 0
	}
	return slices.SortedStableFunc(slices.Values(spares), func(a, b string) int { return apart(a) - apart(b) })
}

// sparesAmong are the nodes of the cluster that can have units and are none of these.
func sparesAmong(present map[string]cluster.Member, taken []string) []string {
	return slices.DeleteFunc(cluster.UnitNames(present), func(name string) bool { return slices.Contains(taken, name) })
}

// withSubstitutes returns the nodes that are present, by the names of the members that they are or substitute for.
// moves are the substitutes that users want; absent are members that nobody substitutes for.
func withSubstitutes(cfg *config.Completed, names []string, absent []absentNode, moves map[string]string,
	present map[string]cluster.Member) map[string]cluster.Member {
	out := maps.Clone(present)
	taken := slices.Clone(names)
	for _, name := range names {
		if m, there := present[moves[name]]; there && moves[name] != name {
			out[name], taken = m, append(taken, m.Name)
		}
	}
	if cfg.Spares != config.SparesAuto {
		return out
	}
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, there := out[name]
		return there || isAbsent(absent, name)
	})
	can := func(member, spare string) bool {
		return maySubstitute(cfg, names, member, present[spare]) == nil
	}
	for name, by := range substitutesFor(missing, sparesAmong(present, taken), can) {
		out[name] = present[by]
	}
	return out
}

// candidates are the processes that can have the units of a lost member: its own, if it may live, then the spares.
func (c *readmitter) candidates(name string) (list []cluster.Member) {
	members := c.cfg.Members.ByName()
	if m, there := members[c.currentState().moves[name]]; there && !c.run.ProcessEnded(m.Name, m.Meta.GRPCAddr) {
		return []cluster.Member{m} // a user wants it
	}
	if m, there := members[name]; there && !c.run.ProcessEnded(name, m.Meta.GRPCAddr) {
		list = append(list, m)
	}
	cfg := c.run.Configuration()
	if cfg.Spares != config.SparesAuto {
		return list
	}
	taken := c.run.Names()
	for i, process := range c.run.Processes() {
		if member := taken[i]; process != member && c.run.MayReadmit(member) == nil {
			continue // it substituted for a node that is lost again
		}
		taken = append(taken, process)
	}
	for _, spare := range preferredSpares(name, sparesAmong(members, taken)) {
		if m := members[spare]; !c.run.ProcessEnded(spare, m.Meta.GRPCAddr) && c.mayHave(name, m) == nil {
			list = append(list, m)
		}
	}
	return list
}

// mayHave says why a node cannot have the units of a member of the run; nil if it can.
func (c *readmitter) mayHave(member string, node cluster.Member) error {
	cfg := c.run.Configuration()
	return maySubstitute(&cfg, c.run.Names(), member, node)
}
