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

	"ringlet/internal/hostlimits"
)

// answer is what became of one probe.
type answer struct {
	arrived bool
	tooBig  int // the packet that fits, where the network said that the probe does not; 0: it did not say
}

// ladder are the sizes of packets that networks bear: jumbo frames, Ethernet, behind PPPoE, VXLAN, WireGuard, and what IPv6 demands.
var ladder = []int{jumbo, ethernet, 1492, 1450, 1420, leastMTU}

// search finds the largest packet that arrives, up to local. A probe that is not answered is tried twice: kernels answer no more than
// six or so at once, and one a second from then on, so few are to be made that arrive.
func search(local int, probe func(size int) (answer, error)) (p Path, err error) {
	p.Local = min(local, jumbo)
	try := func(size int) (bool, error) {
		for range 2 {
			a, err := probe(size)
			if err != nil {
				return false, err
			}
			if a.arrived {
				p.Largest = size
				return true, nil
			}
			if a.tooBig > 0 {
				p.Told = true
				return false, nil
			}
		}
		return false, nil
	}
	const small = 600 // below what any network must pass without cutting it
	if p.Answered, err = try(small); err != nil || !p.Answered {
		return p, err
	}
	sizes := slices.DeleteFunc(slices.Clone(ladder), func(s int) bool { return s >= p.Local })
	for _, size := range append([]int{p.Local}, sizes...) {
		if ok, err := try(size); ok || err != nil {
			return p, err
		}
	}
	return p, nil
}

// probeWait is how long an answer may take: a round trip around the world.
const probeWait = 400 * time.Millisecond

// probePort is where traceroute sends to as well: nobody listens there, so a host says that a datagram has arrived.
const probePort = 33434

// readPath looks at the way to a peer.
func readPath(ctx context.Context, peer string) *Path {
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
	pr, err := newProber(c, to.Addr().Is6())
	if err != nil {
		return fail("packets to it cannot be kept whole: %v", err)
	}
	_, mtu := hostlimits.Facing(c.LocalAddr().(*net.UDPAddr).IP)
	if to.Addr().IsLoopback() || mtu == 0 {
		mtu = jumbo
	}
	p, err := search(mtu, pr.probe)
	p.Peer, p.Address = peer, to.Addr().String()
	if err != nil {
		p.Err = err.Error()
	}
	return &p
}

// prober sends datagrams that nobody may cut.
type prober struct {
	conn    *net.UDPConn
	raw     syscall.RawConn
	six     bool
	headers int
}

func newProber(c *net.UDPConn, six bool) (*prober, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	p := &prober{conn: c, raw: raw, six: six, headers: 28}
	level, name, value := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO
	if six {
		p.headers = 48
		level, name, value = unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO
	}
	var set error
	err = raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), level, name, value) })
	return p, errors.Join(err, set)
}

// probe sends a packet of a size and waits for what becomes of it. That it was refused at the peer's port means that it arrived.
func (p *prober) probe(size int) (answer, error) {
	_, err := p.conn.Write(make([]byte, size-p.headers))
	if err == nil {
		if err = p.conn.SetReadDeadline(time.Now().Add(probeWait)); err != nil {
			return answer{}, err
		}
		_, err = p.conn.Read(make([]byte, 1))
	}
	switch {
	case err == nil, errors.Is(err, unix.ECONNREFUSED):
		return answer{arrived: true}, nil
	case errors.Is(err, unix.EMSGSIZE):
		return answer{tooBig: p.known()}, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return answer{}, nil
	}
	return answer{}, fmt.Errorf("a packet of %d bytes: %w", size, err)
}

// known is the largest packet that the kernel knows to fit the whole way.
func (p *prober) known() (mtu int) {
	level, name := unix.IPPROTO_IP, unix.IP_MTU
	if p.six {
		level, name = unix.IPPROTO_IPV6, unix.IPV6_MTU
	}
	_ = p.raw.Control(func(fd uintptr) { mtu, _ = unix.GetsockoptInt(int(fd), level, name) })
	return max(mtu, 1)
}
