package testbed

import (
	"fmt"
	"os/exec"
	"strings"
)

// CheckFilter says why SetFilter and SetResets cannot work here, or nil.
func CheckFilter() error {
	if _, err := exec.LookPath("nft"); err != nil {
		return fmt.Errorf("filters need the program nft, of the package nftables: %w", err)
	}
	return nil
}

// Detour is the class of the slow queue that WithDetours puts beside the fast one of every port: a rule "meta
// priority set" that names it makes a packet late, so that those behind it overtake it.
const Detour = "10:2"

// WithDetours gives the port of every host, and of the control, a second and slow queue towards it. No packet takes
// it unless a rule of SetFilter says so.
func (b *Bed) WithDetours(slow Rate) error {
	for i := range b.hostNS {
		// The rate limit of the port stays in front: its handle is 1:, its only class 1:1.
		if err := b.tc(b.switchNS, detourRules(hostName(i), "parent 1:1", slow)...); err != nil {
			return err
		}
	}
	return b.tc(b.switchNS, detourRules(controlHost, "root", slow)...)
}

func detourRules(dev, where string, slow Rate) []string {
	const class = "class add dev %s parent 10: classid %s htb rate %dbit burst %d cburst %[4]d"
	return []string{
		fmt.Sprintf("qdisc add dev %s %s handle 10: htb default 1", dev, where),
		fmt.Sprintf(class, dev, "10:1", int64(maxRate), 1<<20),
		fmt.Sprintf(class, dev, Detour, int64(slow), 1600),
	}
}

// SetFilter replaces the packet filter of the switch. A rule is a line in nft's language for a chain of the family
// bridge through which everything goes that one host sends another; interfaces have the names of the hosts, and
// "control". No rules: no filter. The change is one: no packet meets half of it. It needs CheckFilter.
func (b *Bed) SetFilter(rules []string) error {
	const table = "table bridge testbed"
	text := table + " {}\ndelete " + table + "\n"
	if len(rules) > 0 {
		const head = " {\nchain forward {\ntype filter hook forward priority 0; policy accept;\n"
		text += table + head + strings.Join(rules, "\n") + "\n}\n}\n"
	}
	_, err := b.switchNS.Run(text, "nft", "-f", "-")
	return err
}

// SetResets makes a host answer every packet of TCP that it sends or gets with a reset, or ends that: connections break
// at both ends, new ones as soon as they are made. It needs CheckFilter.
func (b *Bed) SetResets(host string, on bool) error {
	i, ok := hostIndex(host)
	if !ok || i >= len(b.hostNS) {
		return &hostError{host, len(b.hostNS)}
	}
	const table = "table inet testbed"
	text := table + " {}\ndelete " + table + "\n"
	if on {
		// The resets themselves go out by the same chain; and who asks for a connection shall not hear that nobody listens.
		const chain = "chain %s {\ntype filter hook %[1]s priority 0; policy accept;\n" +
			"tcp flags & (syn | rst) == 0 reject with tcp reset\n}\n"
		text += table + " {\n" + fmt.Sprintf(chain, "input") + fmt.Sprintf(chain, "output") + "}\n"
	}
	_, err := b.hostNS[i].Run(text, "nft", "-f", "-")
	return err
}
