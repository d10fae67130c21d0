package testbed

import (
	"encoding/json"
	"fmt"

	"ringlet/internal/netns"
)

// Address is the IP address of a host.
func (b *Bed) Address(host int) string { return fmt.Sprintf("10.77.0.%d", host+1) }

// ControlAddress is the IP address of the control's host.
func (b *Bed) ControlAddress() string { return "10.77.0.254" }

// A hostError is a name that no host of the bed has.
type hostError struct {
	Host  string
	Hosts int // number of hosts
}

func (e *hostError) Error() string {
	return fmt.Sprintf("%q is not a host of this test bed: they are n0 to n%d", e.Host, e.Hosts-1)
}

// Count is the traffic in one direction of a port.
type Count struct {
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`   // with Ethernet headers
	Dropped uint64 `json:"dropped"` // packets that found the queue full
}

func (c Count) since(before Count) Count {
	return Count{c.Packets - before.Packets, c.Bytes - before.Bytes, c.Dropped - before.Dropped}
}

// Port has the traffic of a host's port, as the kernel's queues counted it.
type Port struct {
	Host     string `json:"host"`
	RateBps  int64  `json:"rate_bps"` // as in the Spec
	ToHost   Count  `json:"to_host"`
	FromHost Count  `json:"from_host"`
}

// counters are those of all ports and links, which count since the bed was made.
type counters struct {
	ports []Port
	links []TreeLink
}

// counters reads them.
func (b *Bed) counters() (out counters, err error) {
	in, err := queues(b.switchNS)
	if err != nil {
		return out, err
	}
	out.links = b.treeLinks(in)
	for i, n := range b.hostNS {
		from, err := queues(n)
		if err != nil {
			return out, err
		}
		name := hostName(i)
		out.ports = append(out.ports, Port{
			Host:     name,
			RateBps:  int64(b.spec.rate(i)),
			ToHost:   in[name].count,
			FromHost: from["eth0"].count,
		})
	}
	return out, nil
}

// queue is a rate limit, as the kernel reports it.
type queue struct {
	count  Count
	bucket int64 // bytes
}

// queues are the rate limits in a namespace, by interface.
func queues(n *netns.Namespace) (map[string]queue, error) {
	text, err := n.Run("", "tc", "-s", "-j", "qdisc", "show")
	if err != nil {
		return nil, err
	}
	return parseQueues(text)
}

// parseQueues reads what tc -s -j qdisc show prints.
func parseQueues(text []byte) (map[string]queue, error) {
	var all []struct {
		Kind    string `json:"kind"`
		Dev     string `json:"dev"`
		Packets uint64 `json:"packets"`
		Bytes   uint64 `json:"bytes"`
		Drops   uint64 `json:"drops"`
		Options struct {
			Burst int64 `json:"burst"`
		} `json:"options"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("the output of tc is not a list of queues: %w", err)
	}
	out := map[string]queue{}
	for _, q := range all {
		if q.Kind == "tbf" {
			out[q.Dev] = queue{Count{q.Packets, q.Bytes, q.Drops}, q.Options.Burst}
		}
	}
	return out, nil
}
