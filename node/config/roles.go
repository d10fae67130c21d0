package config

import "strconv"

// NoUnit is the index of a unit that a process does not hold.
const NoUnit = -1

// Role says what one process is.
type Role struct {
	Rank int    // 0 is the first
	Name string // as members names it; else "n0" for rank 0
	RU   int    // index of its readout unit in the view, or None
	BU   int    // index of its builder unit in the view, or None
}

// Folded says whether the process holds both units.
func (r Role) Folded() bool { return r.RU != NoUnit && r.BU != NoUnit }

// Roles lists the processes in order of rank: RUs on ranks [0, RUs), BUs on ranks [Nodes-BUs, Nodes). It holds after
// Complete.
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
