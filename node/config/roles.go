package config

import (
	"slices"
	"strconv"
	"strings"

	"ringlet/internal/nodename"
)

// NoUnit is the index of a unit that a process does not have.
const NoUnit = -1

// Role is the rank and units of one process.
type Role struct {
	Rank int    // 0 is the first
	Name string // as in members; else "n0" for rank 0
	RU   int    // index of its readout unit in the view, or NoUnit
	BU   int    // index of its builder unit in the view, or NoUnit
}

// Folded says whether the process has both units.
func (r Role) Folded() bool { return r.RU != NoUnit && r.BU != NoUnit }

// Roles lists the processes in order of rank: RUs on ranks [0, RUs), BUs on ranks [Nodes-BUs, Nodes). It needs a
// completed configuration.
func (c Config) Roles() []Role {
	roles := make([]Role, c.Nodes)
	names := c.MemberNames()
	for rank := range roles {
		r := Role{
			Rank: rank,
			Name: NodeName(rank, 1),
			RU:   NoUnit,
			BU:   NoUnit,
		}
		if names != nil {
			r.Name = names[rank]
		}
		if rank < c.RUs {
			r.RU = rank
		}
		if first := c.Nodes - c.BUs; rank >= first {
			r.BU = rank - first
		}
		roles[rank] = r
	}
	return roles
}

// NodeName is the name of the node with a rank, with so many nodes in each process, where the names follow from ranks:
// n0, n0.1, n1, n1.1 with two.
func NodeName(rank, nodesPerProcess int) string {
	return nodename.Join("n"+strconv.Itoa(rank/nodesPerProcess), rank%nodesPerProcess)
}

// nameMembers names the members if processes have several nodes. The shape is known.
func nameMembers(c *draft) {
	if c.Members != "" || c.NodesPerProcess <= 1 || c.Nodes > maxSources {
		return
	}
	names := make([]string, c.Nodes)
	for rank := range names {
		names[rank] = NodeName(rank, c.NodesPerProcess)
	}
	c.Members = strings.Join(names, ",")
}

// member is a node that the setting members names, and what it says of its units.
type member struct {
	name string
	role string // ru, bu or both; "" leaves it to the rank
}

// memberRoles are the roles that members may give, in the order of ranks.
var memberRoles = []string{"ru", "both", "bu"}

// memberList is the setting members; nil if it is left open.
func (c Operation) memberList() (list []member) {
	if strings.TrimSpace(c.Members) == "" {
		return nil
	}
	for text := range strings.SplitSeq(c.Members, ",") {
		name, role, _ := strings.Cut(text, ":")
		list = append(list, member{strings.TrimSpace(name), strings.TrimSpace(role)})
	}
	return list
}

// resolveRoles puts members with roles into the order of ranks, readout units first and builder units last, and takes
// the shape from them. Where neither members nor shape is given it takes the members that the nodes' own roles say. It
// returns false if the roles cannot be.
func resolveRoles(c *draft) (ok bool) {
	if c.Members == "" && c.Nodes == 0 && c.RUs == 0 && c.BUs == 0 {
		c.Members = c.JoinedMembers
	}
	list := c.memberList()
	var texts []string
	rus, bus := 0, 0
	for _, role := range memberRoles {
		for _, m := range list {
			if m.role != role {
				continue
			}
			texts = append(texts, m.name+":"+m.role)
			if role != "bu" {
				rus++
			}
			if role != "ru" {
				bus++
			}
		}
	}
	if len(texts) == 0 && !slices.ContainsFunc(list, func(m member) bool { return m.role != "" }) {
		return true
	}
	given := func(value, said int) bool { return value != 0 && value != said }
	switch {
	case len(texts) < len(list):
		c.add("members", "%q: give each node one of the roles ru, bu and both, as in n0:ru,n1:bu, or none of them a role",
			c.Members)
	case rus == 0 || bus == 0:
		c.add("members", "the roles make %d readout units and %d builder units: a run needs one of each", rus, bus)
	case given(c.Nodes, len(list)) || given(c.RUs, rus) || given(c.BUs, bus):
		c.add("members", "the roles make %d readout units and %d builder units on %d nodes, which nodes, rus or bus "+
			"contradict: leave these out, or the roles", rus, bus, len(list))
	default:
		c.Nodes, c.RUs, c.BUs, c.Members = len(list), rus, bus, strings.Join(texts, ",")
		return true
	}
	return false
}
