package nodes

import (
	"maps"
	"testing"
)

func TestCarried(t *testing.T) {
	for _, c := range []struct {
		transport, network string
		sums               map[string]uint64
		want               string
	}{
		{"quic", "", map[string]uint64{"link.links_quic": 12}, "quic"},
		{"auto", "stream", map[string]uint64{"link.links_local": 6}, "auto: 3 local, 0 stream"},
		{"auto", "quic", map[string]uint64{"link.links_local": 3, "link.links_quic": 8}, "auto: 2 local, 4 quic"},
		{"local+quic-go", "quic-go", map[string]uint64{"link.links_quic_go": 2}, "local+quic-go: 0 local, 1 quic-go"},
		{"auto", "stream", nil, "auto: 0 local, 0 stream"},
	} {
		r := Report{Transport: c.transport, Network: c.network, Links: linksByCarrier(c.sums)}
		if got := r.DescribeCarriers(); got != c.want {
			t.Errorf("%v: %q, not %q", c.sums, got, c.want)
		}
	}
	if got := linksByCarrier(map[string]uint64{"link.links_stream": 2, "link.links_local": 0}); !maps.Equal(got,
		map[string]uint64{"stream": 1}) {
		t.Errorf("links %v", got)
	}
}
