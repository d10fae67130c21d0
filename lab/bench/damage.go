package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"ringlet/lab/trial"
	"ringlet/transport/quic"
)

// Where a relay damages packets.
const (
	damageHeader = "header"
	damageBody   = "body"
)

const (
	packetHeader     = 13   // bytes of the packets of carrier quic that are not encrypted: docs/format/quic.md
	minDamagedPacket = 128  // bytes; only packets with data are damaged, and these are as long at least
	damageOneIn      = 100  // the relay damages the first packet, and then one in damageOneIn
	damageWriteSize  = 4096 // bytes of a write
)

// relay passes packets between a node that dials and another node, and flips one bit of some packets. Pipeline:
//
//	forward  (parallel, one for each direction)  read; damage, if this packet's turn has come; write
type relay struct {
	front, back *net.UDPConn
	node        netip.AddrPort
	damageWhere string

	// atomic
	dialler        atomic.Pointer[netip.AddrPort] // address of the node that sent the first packet
	damaging       atomic.Bool
	damagedPackets atomic.Uint64

	wg sync.WaitGroup
}

// newRelay listens beside the node at an address, and relays to it.
func newRelay(to, where string) (*relay, error) {
	node, err := netip.ParseAddrPort(to)
	if err != nil {
		return nil, err
	}
	r := &relay{node: node, damageWhere: where}
	if r.front, err = listenUDP(node.Addr().String()); err != nil {
		return nil, err
	}
	if r.back, err = listenUDP(node.Addr().String()); err != nil {
		return nil, errors.Join(err, r.front.Close())
	}
	for _, c := range [...]*net.UDPConn{r.front, r.back} {
		_ = c.SetReadBuffer(4 << 20) // the kernel drops what does not fit, and the link repairs the loss
	}
	r.wg.Go(func() {
		r.forward(r.front, r.back, func(from netip.AddrPort) netip.AddrPort {
			r.dialler.Store(&from)
			return r.node
		})
	})
	r.wg.Go(func() {
		r.forward(r.back, r.front, func(netip.AddrPort) netip.AddrPort { return *r.dialler.Load() })
	})
	return r, nil
}

func (r *relay) close() error {
	err := errors.Join(r.front.Close(), r.back.Close())
	r.wg.Wait()
	return err
}

// forward carries one direction until the sockets are closed.
func (r *relay) forward(in, out *net.UDPConn, destination func(from netip.AddrPort) netip.AddrPort) {
	b := make([]byte, 1<<16)
	draw := rand.New(rand.NewPCG(1, uint64(in.LocalAddr().(*net.UDPAddr).Port)))
	for first := true; ; {
		n, from, err := in.ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		if n >= minDamagedPacket && r.damaging.Load() && isSessionPacket(b) && (first || draw.IntN(damageOneIn) == 0) {
			first = false
			flipBit(b[:n], r.damageWhere, draw)
			r.damagedPackets.Add(1)
		}
		_, _ = out.WriteToUDPAddrPort(b[:n], destination(from)) // what cannot be sent is lost, and repaired
	}
}

// isSessionPacket says whether a packet is one of the carrier quic; handshakes and quic-go have the other packets.
func isSessionPacket(b []byte) bool { return b[0]&0xC0 == 0x40 && b[1]&0x80 != 0 }

// flipBit flips one bit. It spares bits that would make the packet one of another protocol.
func flipBit(b []byte, where string, draw *rand.Rand) {
	for {
		at := packetHeader + draw.IntN(len(b)-packetHeader)
		if where == damageHeader {
			at = draw.IntN(packetHeader)
		}
		bit := byte(1) << draw.IntN(8)
		if b[at] ^= bit; isSessionPacket(b) {
			return
		}
		b[at] ^= bit
	}
}

// damageMeasurement sends writes through a relay that damages one packet of a hundred, and counts the effects.
func damageMeasurement(where string) namedMeasurement {
	return func(ctx context.Context, c NodesConfig, d time.Duration) (f trial.Figures, err error) {
		var r *relay
		defer func() {
			if r != nil {
				err = errors.Join(err, r.close())
			}
		}()
		oneWay := &pattern{pairs: map[int][]int{0: {1}}}
		m := stationsConfig{
			nodes: &c,
			view:  1,
			pairs: oneWay.pairs,
			size:  damageWriteSize,
			batch: 1,
			relayAddr: func(addr string) (_ string, err error) {
				if r, err = newRelay(addr, where); err != nil {
					return "", err
				}
				return r.front.LocalAddr().String(), nil
			},
		}
		row, counted := patternRow{}, uint64(0)
		err = m.with(ctx, func(all []*station) error {
			r.damaging.Store(true)
			began := time.Now()
			err := runFor(d, func(over *atomic.Bool) error { return (&PatternsConfig{}).traffic(ctx, oneWay, all, over) })
			row.fillFromStations(all, time.Since(began))
			for _, s := range all {
				counted += refusedPackets(s.network.Stats().Bulk)
			}
			return err
		})
		if err == nil && row.Error != "" {
			err = fmt.Errorf("bench: %s", row.Error)
		}
		if err != nil {
			return nil, err
		}
		f = figuresOf(&row)
		damaged := r.damagedPackets.Load()
		f["damaged"], f["counted"] = float64(damaged), float64(counted)
		f["uncounted"] = float64(damaged) - float64(min(damaged, counted))
		return f, nil
	}
}

// refusedPackets counts the packets that a node dropped as invalid. It does not count data that the link sent again
// in another packet, and that arrived twice.
func refusedPackets(s quic.BulkStats) uint64 {
	return s.Malformed + s.UnknownSession + s.UnknownKey + s.Forged + s.Replayed
}
