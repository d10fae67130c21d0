package nodes

import (
	"fmt"

	nodev1 "ringlet/proto/ringlet/node/v1"
)

// roster has the nodes of a NodeSet, in the order of ranks.
type roster struct{ nodes []*member }

// Names are the names of the nodes, in the order of ranks.
func (r *roster) Names() []string {
	names := make([]string, len(r.nodes))
	for i, n := range r.nodes {
		names[i] = n.name
	}
	return names
}

// Processes are the names of the nodes whose processes have the units, in the order of ranks: the members' own, or
// their substitutes'.
func (r *roster) Processes() []string {
	names := make([]string, len(r.nodes))
	for i, n := range r.nodes {
		names[i] = n.process()
	}
	return names
}

// findProcess finds the member whose units a node's process has.
func (r *roster) findProcess(process string) (*member, error) {
	for _, n := range r.nodes {
		if n.process() == process {
			return n, nil
		}
	}
	return nil, fmt.Errorf("no member has its units in a process of %s", process)
}

// Reports are the last reports of the nodes, in the order of ranks; nil for a node without one.
func (r *roster) Reports() []*nodev1.Report {
	reports := make([]*nodev1.Report, len(r.nodes))
	for i, n := range r.nodes {
		reports[i] = n.latestReport()
	}
	return reports
}

// findMember finds a node of the set by its name.
func (r *roster) findMember(name string) (*member, error) {
	for _, n := range r.nodes {
		if n.name == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("there is no node called %s", name)
}
