package quic

import (
	"testing"

	"ringlet/transport/express"
	"ringlet/transport/link"
)

// TestEveryCarrierAndMTU: what each carrier asks of a link on a path of any MTU can work, and fits what is below the
// link.
func TestEveryCarrierAndMTU(t *testing.T) {
	for mtu := minPacketSize + 28; mtu <= 1<<16; mtu++ {
		size := min(mtu-28, maxBulkPacket)
		x := &expressConn{packetSize: size, credit: creditFor(size)}
		sizes := x.Sizes()
		credit, ring := sizes.Credit, sizes.SeqWindow
		cfg := link.Config{
			MaxDatagram:  x.MaxDatagram(),
			BaseDatagram: sizes.BaseDatagram,
			Credit:       credit,
			SeqWindow:    ring,
		}
		if err := cfg.Check(); err != nil {
			t.Fatalf("MTU %d: %v", mtu, err)
		}
		if ring < 2*credit {
			t.Errorf("MTU %d: a ring of %d for a credit of %d", mtu, ring, credit)
		}
		// All that may be in flight, in parts, with as much again that was sent twice, must not look too old to the
		// opener.
		pieces := (x.MaxDatagram() + minPacketSize - 1) / (minPacketSize - express.Overhead - 16)
		if flying := 2 * (credit + link.ResponseCredit) * max(1, pieces); flying > express.ReplayDepth {
			t.Errorf("MTU %d: %d packets may be in flight, and %d are remembered", mtu, flying, express.ReplayDepth)
		}
		if credit*size > creditBytes && credit > 16 {
			t.Errorf("MTU %d: a credit of %d packets", mtu, credit)
		}
	}
	for mtu := minPacketSize + 48; mtu <= 1500; mtu++ {
		c := &conn{maxDatagram: min(maxPacketSize, mtu-28) - fullPacketOverhead}
		if err := (link.Config{MaxDatagram: c.MaxDatagram()}).Check(); err != nil {
			t.Fatalf("quic, MTU %d: %v", mtu, err)
		}
	}
	const queue = 128 // of received datagrams, in quic-go
	if n := link.DefaultCredit + link.ResponseCredit + (link.DefaultCredit+
		link.ResponseCredit)/link.DefaultAckEvery; n > queue {
		t.Errorf("quic: %d datagrams may wait where %d have room", n, queue)
	}
	if err := (link.Config{MaxDatagram: streamDatagram, Credit: streamCredit,
		SeqWindow: streamRingSize}).Check(); err != nil {
		t.Errorf("stream: %v", err)
	}
	if n := (streamCredit + link.ResponseCredit) * streamDatagram; n > streamBuf {
		t.Errorf("stream: %d bytes may be in flight, more than the %d of flow control", n, streamBuf)
	}
}
