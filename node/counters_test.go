package node

import (
	"maps"
	"testing"
)

func TestEveryCounterIsTaken(t *testing.T) {
	type inner struct{ BytesSent, MTU, AESFailed uint64 }
	c := map[string]uint64{}
	countAll(c, "x.", struct {
		inner
		Links [8]uint64
		Peer  string // no counter
		Other inner
	}{inner{1, 2, 3}, [8]uint64{9, 4, 5, 6, 7}, "n1", inner{BytesSent: 8}})
	want := map[string]uint64{
		"x.bytes_sent": 1, "x.mtu": 2, "x.aes_failed": 3, "x.links_quic": 4, "x.links_express": 5, "x.links_stream": 6, "x.links_local": 7,
		"x.other_bytes_sent": 8, "x.other_mtu": 0, "x.other_aes_failed": 0,
	}
	if !maps.Equal(c, want) {
		t.Errorf("%v, not %v", c, want)
	}
}
