package address

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// addressError says what is wrong with an address.
type addressError struct{ Text, Reason string }

func (e *addressError) Error() string { return fmt.Sprintf("%q %s", e.Text, e.Reason) }

// Unwrap gives the error of package net for such an address: callers match *net.AddrError for both.
func (e *addressError) Unwrap() error { return &net.AddrError{Err: e.Reason, Addr: e.Text} }

// maxPort is the largest port.
const maxPort = 1<<16 - 1

// CheckListen returns why a process cannot listen at HOST:PORT; nil: the form is right. An empty host stands for all
// networks of this host, port 0 for any free port.
func CheckListen(text string) error {
	_, _, err := splitHostPort(text, 0)
	return err
}

// CheckDial returns why a process cannot call HOST:PORT; nil: the form is right.
func CheckDial(text string) error {
	host, _, err := splitHostPort(text, 1)
	if err != nil {
		return err
	}
	return CheckHost(host)
}

// CheckHost returns why other hosts cannot call host, which must be a name or the address of one interface.
func CheckHost(host string) error {
	if host == "" {
		return &addressError{host, "is no host that other hosts could call: write its address or its name"}
	}
	if strings.HasPrefix(host, "[") {
		return &addressError{host, "has brackets, which an address of IPv6 needs only in front of a port: leave them out"}
	}
	if err := checkHost(host, host); err != nil {
		return err
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Unmap().IsUnspecified() {
		return &addressError{host, "means every network of a host, and cannot be called: write the one address by " +
			"which other hosts " +
			"reach this one"}
	}
	return nil
}

// splitHostPort splits HOST:PORT and checks the form of both; the port must be leastPort or more.
func splitHostPort(text string, leastPort int) (host string, port int, err error) {
	host, number, err := net.SplitHostPort(text)
	if err != nil {
		if hasBlank(text) {
			return "", 0, &addressError{text, "has blanks: write HOST:PORT without any"}
		}
		if !strings.Contains(text, ":") || strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
			return "", 0, &addressError{text, "has no port: write HOST:PORT"}
		}
		return "", 0, &addressError{text, "is not HOST:PORT; an address of IPv6 stands in brackets, as in [::1]:7000"}
	}
	if err := checkHost(text, host); err != nil {
		return "", 0, err
	}
	if number == "" {
		return "", 0, &addressError{text, "has no port behind the colon: write HOST:PORT"}
	}
	if !isDecimal(number) {
		return "", 0, &addressError{text,
			fmt.Sprintf("has the port %q: write a decimal number from %d to %d", number, leastPort,
				maxPort)}
	}
	port, err = strconv.Atoi(number)
	if err != nil || port < leastPort || port > maxPort {
		return "", 0, &addressError{text,
			fmt.Sprintf("has the port %s: it must be from %d to %d", number, leastPort, maxPort)}
	}
	return host, port, nil
}

// checkHost checks the form of host: an address, a name, or empty. Errors quote text, the whole input.
func checkHost(text, host string) error {
	if hasBlank(text) {
		return &addressError{text, "has blanks: leave them out"}
	}
	if host == "" {
		return nil
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	if strings.Trim(host, "0123456789.") == "" {
		return &addressError{text, "has a host of numbers that is no address: one of IPv4 has four from 0 to 255, " +
			"without leading " +
			"zeros"}
	}
	if len(host) > 253 {
		return &addressError{text, "has a host that is longer than a name can be"}
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(host, "."), ".") {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, invalidInName) {
			return &addressError{text, fmt.Sprintf("has the host %q, which is neither an address nor a name", host)}
		}
	}
	return nil
}

func invalidInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

func hasBlank(text string) bool { return strings.ContainsAny(text, " \t\r\n") }

// isDecimal says whether a text is digits without a leading zero.
func isDecimal(text string) bool {
	return text == "0" || text != "" && text[0] != '0' && strings.Trim(text, "0123456789") == ""
}

// A Claim is the address and port that one listener occupies on a host. The zero Claim occupies nothing. Two settings
// whose claims conflict cannot be used on the same host.
type Claim struct {
	network string // "tcp" or "udp"
	host    string // in its shortest form; "" is every network of both families
	port    int
}

// ListenerClaim is the claim of a listener at HOST:PORT: the zero Claim if the port is 0 or the address is wrong.
func ListenerClaim(network, text string) Claim {
	host, port, err := splitHostPort(text, 0)
	if err != nil || port == 0 {
		return Claim{}
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.Unmap().String()
	}
	return Claim{network, strings.ToLower(host), port}
}

// Equal says whether both are the same address.
func (c Claim) Equal(o Claim) bool { return c == o && c != Claim{} }

// CoversAllNetworks says whether the claim is for all networks, as 0.0.0.0, [::] or an empty host: every host has it.
func (c Claim) CoversAllNetworks() bool {
	ip, err := netip.ParseAddr(c.host)
	return c.host == "" || err == nil && ip.IsUnspecified()
}

// ConflictsWith says whether one host cannot have both claims. It looks no names up.
func (c Claim) ConflictsWith(o Claim) bool {
	switch {
	case c == Claim{} || c.network != o.network || c.port != o.port:
		return false
	case c == o:
		return true
	}
	return c.covers(o.host) || o.covers(c.host)
}

// covers says whether c is for all networks of the family of host: 0.0.0.0 covers 10.0.0.1, and an empty host all.
func (c Claim) covers(host string) bool {
	if c.host == "" {
		return true
	}
	ip, err := netip.ParseAddr(c.host)
	if err != nil || !ip.IsUnspecified() || host == "" {
		return false
	}
	other, err := netip.ParseAddr(host)
	return err == nil && ip.Is4() == other.Is4()
}

// IsLocalOnly says whether only processes of the same host can reach an address: it is a loopback address, or no IP
// address at all, such as the path of a Unix socket.
func IsLocalOnly(a net.Addr) bool {
	at, err := netip.ParseAddrPort(a.String())
	return err != nil || at.Addr().Unmap().IsLoopback()
}
