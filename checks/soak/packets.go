package main

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// packetsEach is how many datagrams an attack sends to a port.
const packetsEach = 500

// datagrams makes an attack that sends datagrams, which draw makes, to each UDP port.
func datagrams(draw func(*dice) []byte) func(context.Context, *hostileRun, *dice) (map[string]int, error) {
	return func(ctx context.Context, h *hostileRun, d *dice) (map[string]int, error) {
		ports, err := h.listening("udp")
		if err != nil {
			return nil, err
		}
		came := map[string]int{}
		for _, at := range ports {
			c, err := net.Dial("udp", at)
			if err != nil {
				return nil, err
			}
			for i := 0; i < packetsEach && ctx.Err() == nil; i++ {
				_, _ = c.Write(draw(d)) // fails if the port has been closed
			}
			_ = c.SetDeadline(time.Now().Add(20 * time.Millisecond))
			came[awaitAnswer(c)]++
			_ = c.Close()
		}
		return came, nil
	}
}

func randomDatagram(d *dice) []byte { return d.bytes(d.IntN(1 << d.IntN(16))) }

// shortHeader looks like a QUIC packet of an existing connection.
func shortHeader(d *dice) []byte {
	b := d.bytes(21 + d.IntN(1400))
	b[0] = 0x40 | b[0]&0x3f
	return b
}

// wildSegments sends segments that are correct except for their event numbers.
func wildSegments(ctx context.Context, h *hostileRun, d *dice) (map[string]int, error) {
	c, err := net.Dial("udp", udpAddress(h.sourceAddrs[1]))
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	for i := 0; i < packetsEach && ctx.Err() == nil; i++ {
		number := []uint64{math.MaxUint64, 1 << 63, 1 << 48, 1 << 32, d.Uint64(), 1<<40 + uint64(i)}[d.IntN(6)]
		_, _ = c.Write(udpSegment(udpSource, number, d.bytes(d.IntN(100)))) // a datagram may be lost
	}
	_ = c.SetDeadline(time.Now().Add(20 * time.Millisecond))
	return map[string]int{awaitAnswer(c): 1}, nil
}

// replay captures datagrams on loopback, and sends them again, unchanged or with bits flipped. It needs raw sockets.
func replay(ctx context.Context, h *hostileRun, d *dice) (map[string]int, error) {
	ports, err := h.listening("udp")
	if err != nil {
		return nil, err
	}
	to := map[uint16]bool{}
	for _, at := range ports {
		if a, err := net.ResolveUDPAddr("udp", at); err == nil {
			to[uint16(a.Port)] = true
		}
	}
	packets, err := captureDatagrams(ctx, to, h.attackDuration/2)
	if errors.Is(err, unix.EPERM) {
		return map[string]int{"NOT MADE, it takes root": 1}, nil
	} else if err != nil {
		return nil, err
	}
	raw, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(raw) }()
	came := map[string]int{}
	for _, p := range packets {
		came["sent again"]++
		if d.chance(50) {
			came["forged"]++
			p[28+d.IntN(len(p)-28)] ^= 1 << d.IntN(8) // behind the headers of IP and UDP
		}
		_ = unix.Sendto(raw, p, 0, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}) // fails for a packet that is too large
	}
	return came, nil
}

// captureDatagrams captures packets to these UDP ports of loopback for a time, with their IP and UDP headers.
func captureDatagrams(ctx context.Context, to map[uint16]bool, long time.Duration) (out [][]byte, err error) {
	const allIP = unix.ETH_P_IP>>8 | unix.ETH_P_IP&0xff<<8 // in the order of the network
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, allIP)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}); err != nil {
		return nil, err
	}
	block := make([]byte, 1<<16)
	for end := time.Now().Add(long); time.Now().Before(end) && ctx.Err() == nil && len(out) < packetsEach; {
		n, _, err := unix.Recvfrom(fd, block, 0)
		if err != nil {
			continue // nothing came
		}
		const udp, here = 17, 0x7f
		b := block[:n]
		if n <= 28 || b[0] != 0x45 || b[9] != udp || b[16] != here || !to[binary.BigEndian.Uint16(b[22:])] {
			continue
		}
		p := append([]byte(nil), b...)
		p[26], p[27] = 0, 0 // no checksum of UDP
		out = append(out, p)
	}
	return out, nil
}
