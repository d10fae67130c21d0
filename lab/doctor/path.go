package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ringlet/node/hostlimits"
)

// probeResult is the outcome of one probe.
type probeResult struct {
	arrived     bool
	reportedMTU int        // the size that fits, if the network reported that the probe is too large; else 0
	refusedBy   netip.Addr // router or firewall that refused the probe in the peer's place; invalid if none did
}

// probeSizes are common packet sizes: jumbo frames, Ethernet, PPPoE, VXLAN, WireGuard, and the least that IPv6 demands.
var probeSizes = []int{jumboMTU, ethernetMTU, 1492, 1450, 1420, minMTU}

// searchPathMTU finds the largest packet that arrives, up to local. It repeats a probe without an answer once. Kernels
// answer about six probes at once and then one a second, so it sends few probes that arrive.
func searchPathMTU(local int, probe func(size int) (probeResult, error)) (p Path, err error) {
	p.InterfaceMTU = min(local, jumboMTU)
	try := func(size int) (bool, error) {
		for range 2 {
			a, err := probe(size)
			if err != nil {
				return false, err
			}
			if a.arrived {
				p.LargestArrived = size
				return true, nil
			}
			if a.refusedBy.IsValid() {
				p.RefusedBy = a.refusedBy.String()
				return false, nil
			}
			if a.reportedMTU > 0 {
				p.NetworkReported = true
				return false, nil
			}
		}
		return false, nil
	}
	const small = 600 // every network passes this without fragmenting it
	if p.Answered, err = try(small); err != nil || !p.Answered {
		return p, err
	}
	sizes := slices.DeleteFunc(slices.Clone(probeSizes), func(s int) bool { return s >= p.InterfaceMTU })
	for _, size := range append([]int{p.InterfaceMTU}, sizes...) {
		if ok, err := try(size); ok || err != nil {
			return p, err
		}
	}
	return p, nil
}

// probeTimeout is how long an answer may take: a round trip around the world.
const probeTimeout = 400 * time.Millisecond

// probePort is the port of traceroute: no process listens there, so a host reports a datagram that arrives.
const probePort = 33434

// probePath finds the path MTU to a peer.
func probePath(ctx context.Context, peer string) *Path {
	fail := func(format string, args ...any) *Path { return &Path{Peer: peer, Err: fmt.Sprintf(format, args...)} }
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", peer)
	if err != nil {
		return fail("there is no address for it: %v", err)
	}
	to := netip.AddrPortFrom(addrs[0].Unmap(), probePort)
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return fail("there is no way to it: %v", err)
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	pr, err := newProber(c, to.Addr())
	if err != nil {
		return fail("packets to it cannot be kept whole: %v", err)
	}
	_, mtu := hostlimits.InterfaceOf(c.LocalAddr().(*net.UDPAddr).IP)
	if to.Addr().IsLoopback() || mtu == 0 {
		mtu = jumboMTU
	}
	p, err := searchPathMTU(mtu, pr.probe)
	p.Peer, p.Address, p.Routed = peer, to.Addr().String(), !onLocalNetwork(to.Addr())
	if err != nil {
		p.Err = err.Error()
	}
	return &p
}

// onLocalNetwork says whether an address is this host's own or on one of its networks, so that no router is between.
func onLocalNetwork(to netip.Addr) bool {
	addrs, _ := net.InterfaceAddrs() // without addresses it is on no network
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.Contains(to.AsSlice()) {
			return true
		}
	}
	return false
}

// prober sends datagrams with "do not fragment" set.
type prober struct {
	conn    *net.UDPConn
	raw     syscall.RawConn
	to      netip.Addr
	ipv6    bool
	headers int
}

func newProber(c *net.UDPConn, to netip.Addr) (*prober, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	p := &prober{
		conn:    c,
		raw:     raw,
		to:      to.WithZone(""),
		ipv6:    to.Is6(),
		headers: 28,
	}
	level, mtuOption, do, who := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO, unix.IP_RECVERR
	if p.ipv6 {
		p.headers = 48
		level, mtuOption, do, who = unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO, unix.IPV6_RECVERR
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = errors.Join(unix.SetsockoptInt(int(fd), level, mtuOption, do), unix.SetsockoptInt(int(fd), level, who, 1))
	})
	return p, errors.Join(err, set)
}

// probe sends a packet of a size and waits for the outcome. If the peer itself refuses it, the packet has arrived; if
// another host refuses it, it has not.
func (p *prober) probe(size int) (probeResult, error) {
	_, err := p.conn.Write(make([]byte, size-p.headers))
	if err == nil {
		if err = p.conn.SetReadDeadline(time.Now().Add(probeTimeout)); err != nil {
			return probeResult{}, err
		}
		_, err = p.conn.Read(make([]byte, 1))
	}
	from := p.lastICMPSender()
	switch {
	case errors.Is(err, unix.EMSGSIZE):
		return probeResult{reportedMTU: p.kernelPathMTU()}, nil
	case err == nil, from == p.to:
		return probeResult{arrived: true}, nil
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, unix.ENOBUFS):
		// lost on the way, or dropped by this host's own interface
		return probeResult{}, nil
	case errors.Is(err, unix.ECONNREFUSED): // from another host, as if it were the peer: a firewall that rejects
		return probeResult{refusedBy: from}, nil
	case from.IsValid():
		return probeResult{}, fmt.Errorf("%v says of a packet of %d bytes: %w", from, size, err)
	}
	return probeResult{}, fmt.Errorf("a packet of %d bytes: %w", size, err)
}

// lastICMPSender is the sender of the last ICMP message for the socket; invalid if there is none.
func (p *prober) lastICMPSender() (from netip.Addr) {
	_ = p.raw.Control(func(fd uintptr) {
		more := make([]byte, 512)
		for {
			_, n, _, _, err := unix.Recvmsg(int(fd), nil, more, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
			if err != nil {
				return
			}
			if one := icmpSender(more[:n]); one.IsValid() {
				from = one
			}
		}
	})
	return from
}

// icmpSender is the sender of the ICMP message in a control message of the kernel: struct sock_extended_err, with the
// sender's sockaddr behind it. It is invalid for an error that this host found by itself.
func icmpSender(control []byte) netip.Addr {
	const origin, sender = 4, 16 // offsets
	all, _ := unix.ParseSocketControlMessage(control)
	for _, m := range all {
		switch d := m.Data; {
		case len(d) >= sender+8 && d[origin] == unix.SO_EE_ORIGIN_ICMP:
			return netip.AddrFrom4([4]byte(d[sender+4:]))
		case len(d) >= sender+24 && d[origin] == unix.SO_EE_ORIGIN_ICMP6:
			return netip.AddrFrom16([16]byte(d[sender+8:]))
		}
	}
	return netip.Addr{}
}

// kernelPathMTU is the path MTU that the kernel knows, in bytes.
func (p *prober) kernelPathMTU() (mtu int) {
	level, name := unix.IPPROTO_IP, unix.IP_MTU
	if p.ipv6 {
		level, name = unix.IPPROTO_IPV6, unix.IPV6_MTU
	}
	_ = p.raw.Control(func(fd uintptr) { mtu, _ = unix.GetsockoptInt(int(fd), level, name) })
	return max(mtu, 1)
}
