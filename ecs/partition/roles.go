package partition

import (
	"fmt"
	"slices"
	"strings"

	"ringlet/node/cluster"
	"ringlet/node/config"
)

// A node says its role, the units that it may have, when it is started (ringlet node --role), and tells it with its
// gossip. The functions here decide which nodes get which units. They read what the cluster lists and a configuration,
// and nothing else.

// layOut chooses the members for a shape among the nodes that have joined, in the order of ranks: for a rank with one
// unit first those that may have only this unit, then others, each by name. A spare is no member. The error, if nodes
// are missing, is a *config.InvalidError.
func layOut(cfg *config.Completed, joined map[string]cluster.Member) ([]string, error) {
	free := map[cluster.Roles][]string{} // by role, in the order of names
	for _, name := range cluster.UnitNames(joined) {
		if roles := joined[name].Meta.Roles; !roles.Contains(cluster.Spare) && name != decidesAlone(cfg) {
			free[roles] = append(free[roles], name)
		}
	}
	missing := map[cluster.Roles]int{}
	chosen := map[cluster.Roles][]string{} // by the units of the rank
	for _, role := range cfg.Roles() {
		units := unitsOf(role)
		from := units
		if len(free[from]) == 0 {
			from = cluster.Readout | cluster.Builder
		}
		_, decides := joined[cfg.DecisionNode]
		switch {
		case units == 0 && decides:
			chosen[units] = []string{cfg.DecisionNode}
		case units == 0 || len(free[from]) == 0:
			missing[units]++
		default:
			chosen[units], free[from] = append(chosen[units], free[from][0]), free[from][1:]
		}
	}
	if len(missing) > 0 {
		return nil, missingNodesError(missing, joined)
	}
	var names []string
	for _, units := range []cluster.Roles{cluster.Readout, 0, cluster.Readout | cluster.Builder, cluster.Builder} {
		names = append(names, slices.SortedFunc(slices.Values(chosen[units]), cluster.CompareNames)...)
	}
	return names, nil
}

// missingNodesError says for which units nodes are missing, and who has joined.
func missingNodesError(missing map[cluster.Roles]int, joined map[string]cluster.Member) error {
	var of, there []string
	for _, units := range []cluster.Roles{cluster.Readout, cluster.Readout | cluster.Builder, cluster.Builder} {
		if n := missing[units]; n > 0 {
			of = append(of, fmt.Sprintf("%d with --role %s", n, units.Word()))
		}
	}
	if missing[0] > 0 {
		of = append(of, "the decision-node")
	}
	for _, name := range cluster.UnitNames(joined) {
		there = append(there, fmt.Sprintf("%s (%s)", name, joined[name].Meta.Roles.Word()))
	}
	return &config.InvalidError{Problems: []config.Problem{{Key: "members", Reason: fmt.Sprintf(
		"nodes are missing: %s; there are %s: start more nodes, or name members with other roles",
		strings.Join(of, ", "), strings.Join(there, ", "))}}}
}

// unitsOf are the units of a rank; 0 if it has neither.
func unitsOf(r config.Role) (units cluster.Roles) {
	if r.RU != config.NoUnit {
		units |= cluster.Readout
	}
	if r.BU != config.NoUnit {
		units |= cluster.Builder
	}
	return units
}

// decidesAlone is the node that has the decision unit and no other; empty: there is none.
func decidesAlone(cfg *config.Completed) string {
	if slices.ContainsFunc(cfg.Roles(), func(r config.Role) bool { return unitsOf(r) == 0 }) {
		return cfg.DecisionNode
	}
	return ""
}

// maySubstitute says why a node cannot have the units of a member, one of names; nil if it can.
func maySubstitute(cfg *config.Completed, names []string, member string, node cluster.Member) error {
	return mayHold(node, unitsOf(cfg.Roles()[slices.Index(names, member)]))
}

// mayHold says why a node cannot have units of a member; nil if it can.
func mayHold(node cluster.Member, units cluster.Roles) error {
	if node.Meta.Roles.CanHold(units.Contains(cluster.Readout), units.Contains(cluster.Builder)) {
		return nil
	}
	unit := "readout unit"
	if node.Meta.Roles.Contains(cluster.Readout) {
		unit = "builder unit"
	}
	return fmt.Errorf("%s was started with --role %s, and cannot have a %s", node.Name, node.Meta.Roles.Word(), unit)
}

// checkRoles says which members cannot have their units. Names are in the order of ranks; members that have not joined
// are passed over.
func checkRoles(cfg *config.Completed, names []string, joined map[string]cluster.Member) error {
	var problems []config.Problem
	for rank, role := range cfg.Roles() {
		m, there := joined[names[rank]]
		if !there {
			continue
		}
		if err := mayHold(m, unitsOf(role)); err != nil {
			problems = append(problems, config.Problem{Key: "members", Reason: err.Error() +
				": name each member with its role, as in n0:ru,n1:bu, or start the node with another role"})
		}
	}
	if problems == nil {
		return nil
	}
	return &config.InvalidError{Problems: problems}
}

// membersByRole are the nodes that have joined, as the setting members lists them with their roles, without spares;
// empty if none says that it is for one kind of unit only.
func membersByRole(joined map[string]cluster.Member) string {
	var list []string
	said := false
	for _, name := range cluster.UnitNames(joined) {
		if roles := joined[name].Meta.Roles; !roles.Contains(cluster.Spare) {
			list = append(list, name+":"+roles.Word())
			said = said || !roles.CanHold(true, true)
		}
	}
	if !said {
		return ""
	}
	return strings.Join(list, ",")
}
