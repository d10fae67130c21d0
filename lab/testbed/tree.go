package testbed

import (
	"fmt"
	"strconv"

	"ringlet/internal/netns"
)

// With leaves and spines the bed has a fat tree in place of one switch: each leaf has a link to each spine, with the
// rate and queue of a port, and hosts are plugged into one leaf after the other. A packet to another leaf takes the
// spine of the port of its destination, port modulo spines, as in the fat trees of ringlet plan (LHCb-EB §IV.A,
// equation 1). All switches are bridges in one namespace; the tables of addresses are fixed, and nothing is flooded: a
// packet flooded in a tree with two spines would go round for ever.

// A TreeLink has the traffic between a leaf and a spine, as the kernel's queues counted it.
type TreeLink struct {
	Leaf    int   `json:"leaf"`
	Spine   int   `json:"spine"`
	ToSpine Count `json:"to_spine"`
	ToLeaf  Count `json:"to_leaf"`
}

// isTree tells that the bed has a fat tree.
func (s *Spec) isTree() bool { return s.Leaves > 0 }

// maxSwitches of a kind in a fat tree.
const maxSwitches = 64

// checkTree adds what is wrong with the numbers of switches.
func (s *Spec) checkTree(add func(key, format string, args ...any)) {
	if s.Leaves == 0 && s.Spines == 0 {
		return
	}
	if s.Leaves < 1 || s.Leaves > min(maxSwitches, max(1, s.Hosts)) {
		add("leaves", "%d is not between 1 and the number of hosts, at most %d; without spines there are no leaves",
			s.Leaves, maxSwitches)
	}
	if s.Spines < 1 || s.Spines > maxSwitches {
		add("spines", "%d is not between 1 and %d; leaves need spines", s.Spines, maxSwitches)
	}
}

// portsOfLeaf is the number of hosts on each leaf but perhaps the last ones.
func (s *Spec) portsOfLeaf() int { return (s.Hosts + s.Leaves - 1) / s.Leaves }

// place is where a host is plugged in: its leaf, and the port there.
func (s *Spec) place(host int) (leaf, port int) {
	return host / s.portsOfLeaf(), host % s.portsOfLeaf()
}

// switchOf is the name of the bridge that a host is plugged into. The control's is the first.
func (s *Spec) switchOf(host int) string {
	if !s.isTree() {
		return "br0"
	}
	leaf, _ := s.place(host)
	return leafName(leaf)
}

func leafName(leaf int) string   { return "leaf" + strconv.Itoa(leaf) }
func spineName(spine int) string { return "spine" + strconv.Itoa(spine) }

// towards is the name of the interface with which a switch sends to another one.
func towards(from, to string) string { return from + "-" + to }

// switches are the names of all bridges.
func (s *Spec) switches() (names []string) {
	if !s.isTree() {
		return []string{"br0"}
	}
	for leaf := range s.Leaves {
		names = append(names, leafName(leaf))
	}
	for spine := range s.Spines {
		names = append(names, spineName(spine))
	}
	return names
}

// eachLink calls do with each pair of a leaf and a spine, until it fails.
func (s *Spec) eachLink(do func(leaf, spine int) error) error {
	for leaf := range s.Leaves {
		for spine := range s.Spines {
			if err := do(leaf, spine); err != nil {
				return err
			}
		}
	}
	return nil
}

// addSwitches makes the bridges, and the links between them. Without spanning tree and multicast snooping a bridge
// sends nothing by itself, and a port forwards as soon as it is up.
func (b *Bed) addSwitches() error {
	var lines []string
	for _, name := range b.spec.switches() {
		lines = append(lines, fmt.Sprintf("link add name %s type bridge forward_delay 0 mcast_snooping 0", name),
			fmt.Sprintf("link set dev %s up", name))
	}
	if err := b.ip(b.switchNS, lines...); err != nil || !b.spec.isTree() {
		return err
	}
	return b.spec.eachLink(b.addTreeLink)
}

// addTreeLink makes the link between a leaf and a spine.
func (b *Bed) addTreeLink(leaf, spine int) error {
	up, down := towards(leafName(leaf), spineName(spine)), towards(spineName(spine), leafName(leaf))
	err := b.ip(b.switchNS,
		fmt.Sprintf("link add name %s mtu %d gso_max_segs 1 type veth peer name %s mtu %[2]d gso_max_segs 1",
			up, b.spec.MTU, down),
		fmt.Sprintf("link set dev %s master %s up", up, leafName(leaf)),
		fmt.Sprintf("link set dev %s master %s up", down, spineName(spine)))
	if err != nil {
		return err
	}
	const quiet = "link set dev %s learning off flood off mcast_flood off bcast_flood off"
	if err := batch(b.switchNS, "bridge", []string{fmt.Sprintf(quiet, up), fmt.Sprintf(quiet, down)}); err != nil {
		return err
	}
	burst := b.spec.hostBurst(b.spec.Rate)
	for _, dev := range []string{up, down} {
		if err := b.setTokenBucket(b.switchNS, dev, "add", b.spec.Rate, burst+burst/2, int64(b.spec.Queue)); err != nil {
			return err
		}
	}
	return nil
}

// addRoutes enters in every switch the route to an address at the port of a host.
func (b *Bed) addRoutes(mac string, host int) error {
	if !b.spec.isTree() {
		return nil
	}
	leaf, port := b.spec.place(host)
	spine := spineName(port % b.spec.Spines)
	lines := []string{fmt.Sprintf("fdb replace %s dev %s master static", mac, towards(spine, leafName(leaf)))}
	for other := range b.spec.Leaves {
		if other != leaf {
			lines = append(lines, fmt.Sprintf("fdb replace %s dev %s master static", mac, towards(leafName(other), spine)))
		}
	}
	return batch(b.switchNS, "bridge", lines)
}

// treeLinks reads the counters of all links between switches, which count since the bed was made. in are the queues of
// the switches.
func (b *Bed) treeLinks(in map[string]queue) (out []TreeLink) {
	_ = b.spec.eachLink(func(leaf, spine int) error {
		l, s := leafName(leaf), spineName(spine)
		out = append(out, TreeLink{leaf, spine, in[towards(l, s)].count, in[towards(s, l)].count})
		return nil
	})
	return out
}

// setTokenBucket limits what leaves through an interface.
func (b *Bed) setTokenBucket(n *netns.Namespace, dev, how string, rate Rate, bucket, limit int64,
	more ...string) error {
	const tbf = "qdisc %s dev %s root handle 1: tbf rate %dbit burst %d limit %d"
	return b.tc(n, append([]string{fmt.Sprintf(tbf, how, dev, rate, bucket, limit)}, more...)...)
}
