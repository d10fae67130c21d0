package address

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lookup finds the addresses of a name. Tests replace it.
var lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// Listen listens at HOST:PORT by TCP, and binds exactly the address named. lc may be the zero ListenConfig.
func Listen(ctx context.Context, lc net.ListenConfig, text string) (net.Listener, error) {
	network, at, err := bindAddress(ctx, "tcp", text)
	if err != nil {
		return nil, err
	}
	return lc.Listen(ctx, network, at)
}

// ListenTCP is Listen with the zero ListenConfig and no context.
func ListenTCP(text string) (net.Listener, error) {
	return Listen(context.Background(), net.ListenConfig{}, text)
}

// retrySoon has TCP send again at least once a second what is not acknowledged, if the kernel can (Linux 6.15).
// Otherwise a connection moves again up to as long after a cut as the cut was. It never fails.
func retrySoon(_, _ string, c syscall.RawConn) error {
	_ = c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_RTO_MAX_MS, int(time.Second/time.Millisecond))
	})
	return nil
}

// ListenService is ListenTCP for a service between processes of a cluster: its connections move soon after a cut.
func ListenService(text string) (net.Listener, error) {
	lc := net.ListenConfig{Control: retrySoon}
	lc.SetMultipathTCP(false) // it does not have the option
	return Listen(context.Background(), lc, text)
}

// DialService calls such a service. It is for grpc.WithContextDialer.
func DialService(ctx context.Context, at string) (net.Conn, error) {
	return (&net.Dialer{Control: retrySoon}).DialContext(ctx, "tcp", at)
}

// ListenUDP listens at HOST:PORT by UDP, and binds exactly the address named.
func ListenUDP(text string) (*net.UDPConn, error) {
	network, at, err := bindAddress(context.Background(), "udp", text)
	if err != nil {
		return nil, err
	}
	addr, err := net.ResolveUDPAddr(network, at)
	if err != nil {
		return nil, err
	}
	return net.ListenUDP(network, addr)
}

// bindAddress returns the network for package net (such as tcp4) and the address to bind, with a number for each name.
func bindAddress(ctx context.Context, network, text string) (of, at string, err error) {
	host, port, err := splitHostPort(text, 0)
	if err != nil {
		return "", "", err
	}
	if host == "" {
		return network, text, nil
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		if ip, err = resolve(ctx, host); err != nil {
			return "", "", err
		}
	}
	if ip = ip.Unmap(); ip.IsUnspecified() && ip.Is4() {
		network += "4"
	} else if ip.IsUnspecified() {
		network += "6"
	}
	return network, net.JoinHostPort(ip.String(), strconv.Itoa(port)), nil
}

// resolve looks a name up and returns its first address of IPv4; if there is none, its first address.
func resolve(ctx context.Context, host string) (netip.Addr, error) {
	all, err := lookup(ctx, host)
	if err != nil {
		return netip.Addr{}, err
	}
	for i := range all {
		if all[i] = all[i].Unmap(); all[i].IsUnspecified() {
			return netip.Addr{}, &addressError{host,
				fmt.Sprintf("is a name for %v, every network of a host: write the address that "+
					"is meant", all[i])}
		}
	}
	for _, ip := range all {
		if ip.Is4() {
			return ip, nil
		}
	}
	if len(all) == 0 {
		return netip.Addr{}, &addressError{host, "is a name without an address"}
	}
	return all[0], nil
}

// ResolveLocal returns the address of this host that a process binds and tells other hosts. A name is looked up once,
// so that all services of the process bind the same address. A name that is a loopback address here is refused, unless
// it is localhost: other hosts could not call it.
func ResolveLocal(ctx context.Context, host string) (string, error) {
	if err := CheckHost(host); err != nil {
		return "", err
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return host, nil
	}
	ip, err := resolve(ctx, host)
	switch {
	case err != nil:
		return "", err
	case ip.IsLoopback() && !isLocalName(host):
		return "", &addressError{host,
			fmt.Sprintf("is %v here, which no other host can call: write the address by which others "+
				"reach this host", ip)}
	}
	return ip.String(), nil
}

// isLocalName says whether a name means this host by definition: localhost and its like.
func isLocalName(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || strings.HasPrefix(host, "localhost.")
}
