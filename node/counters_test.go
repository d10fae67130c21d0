package node

import (
	"maps"
	"testing"

	"ringlet/node/config"
	"ringlet/transport"
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

func TestCarriersOfTheConfiguration(t *testing.T) {
	for _, c := range []struct {
		transport, network, seal string
		want                     carriers
	}{
		{"quic", "", "", carriers{links: transport.CarrierQUIC}},
		{"stream", "", "", carriers{links: transport.CarrierStream}},
		{"local", "", "", carriers{links: transport.CarrierLocal}},
		{"express", "", "", carriers{links: transport.CarrierExpress, seal: transport.SealAES}},
		{"express", "", "none", carriers{links: transport.CarrierExpress, seal: transport.SealNone}},
		{"auto", "", "", carriers{links: transport.CarrierAuto, network: transport.CarrierQUIC}},
		{"auto", "express", "", carriers{links: transport.CarrierAuto, network: transport.CarrierExpress, seal: transport.SealAES}},
	} {
		cfg := config.Default()
		cfg.Transport, cfg.Network, cfg.Seal = c.transport, c.network, c.seal
		if err := cfg.Complete(); err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		if got, err := carriersOf(&cfg); err != nil || got != c.want {
			t.Errorf("%v: %+v, %v", c, got, err)
		}
	}
}
