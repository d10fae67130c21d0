package nodes

import (
	"fmt"
	"strings"

	"ringlet/node"
	"ringlet/node/config"
)

// linksByCarrier counts links by their carrier. Both ends of a link count it, or only one if the other node is dead.
func linksByCarrier(sums map[string]uint64) map[string]uint64 {
	out := map[string]uint64{}
	for name, ends := range sums {
		if carrier, ok := strings.CutPrefix(name, node.CounterLinks); ok && ends > 0 {
			out[strings.ReplaceAll(carrier, "_", "-")] = (ends + 1) / 2
		}
	}
	return out
}

// DescribeCarriers says which carriers the links have: "quic", or "auto: 3 local, 0 stream".
func (r *Report) DescribeCarriers() string {
	if r.Network == "" {
		return r.Transport
	}
	var kinds []string
	for _, c := range [...]string{config.LocalCarrier, r.Network} {
		kinds = append(kinds, fmt.Sprintf("%d %s", r.Links[c], c))
	}
	return r.Transport + ": " + strings.Join(kinds, ", ")
}
