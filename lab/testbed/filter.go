package testbed

import (
	"fmt"
	"os/exec"
	"strings"
)

// CheckFilter says why SetFilter and SetResets cannot work here, or returns nil.
func CheckFilter() error {
	if _, err := exec.LookPath("nft"); err != nil {
		return fmt.Errorf("filters need the program nft, of the package nftables: %w", err)
	}
	return nil
}

// Detour is the class of the slow queue that WithDetours puts beside the fast one of every port. A rule "meta priority
// set" with this class delays a packet, so that later packets overtake it.
const Detour = "10:2"

// WithDetours gives the port of every host, and of the control, a second, slow queue towards it. Only packets that a
// rule of SetFilter selects take it.
func (b *Bed) WithDetours(slow Rate) error {
	for i := range b.hostNS {
		// The rate limit stays in front: its handle is 1:, its only class 1:1.
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
// bridge; all packets between hosts pass the chain. Interfaces have the names of the hosts, and "control". No rules
// mean no filter. The change is atomic. It needs CheckFilter.
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

// SetResets makes a host answer every TCP packet that it sends or receives with a reset, or ends that: connections
// break at both ends, new ones as soon as they are made. It needs CheckFilter.
func (b *Bed) SetResets(host string, on bool) error {
	i, ok := hostIndex(host)
	if !ok || i >= len(b.hostNS) {
		return &hostError{host, len(b.hostNS)}
	}
	const table = "table inet testbed"
	text := table + " {}\ndelete " + table + "\n"
	if on {
		// The resets pass the same chain, so packets with rst are spared; those with syn are, too, lest connecting be
		// refused.
		const chain = "chain %s {\ntype filter hook %[1]s priority 0; policy accept;\n" +
			"tcp flags & (syn | rst) == 0 reject with tcp reset\n}\n"
		text += table + " {\n" + fmt.Sprintf(chain, "input") + fmt.Sprintf(chain, "output") + "}\n"
	}
	_, err := b.hostNS[i].Run(text, "nft", "-f", "-")
	return err
}
