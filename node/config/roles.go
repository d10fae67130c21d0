package config

import "strconv"

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
			Name: "n" + strconv.Itoa(rank),
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
