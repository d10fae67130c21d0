package guard

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
)

// Gate bounds how many are inside at once. The zero value lets nobody in. It may be used by several goroutines.
type Gate struct {
	Total   int // most inside; immutable
	PerHost int // most inside of one address, whatever the port; immutable

	mu     sync.Mutex
	inside int
	hosts  map[netip.Addr]int // nobody is listed with 0
}

// fullError says why somebody was turned away.
type fullError struct {
	Host   netip.Addr
	Inside int  // as many are inside
	All    bool // from everywhere; else from this host
}

func (e *fullError) Error() string {
	if e.All {
		return fmt.Sprintf("%s is turned away: %d are inside, and no more are let in at once", e.Host, e.Inside)
	}
	return fmt.Sprintf("%s is turned away: %d of that host are inside, and no more are let in at once", e.Host, e.Inside)
}

// Enter lets one in; else the error is a *fullError.
func (g *Gate) Enter(host netip.Addr) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.inside >= g.Total:
		return &fullError{Host: host, Inside: g.inside, All: true}
	case g.hosts[host] >= g.PerHost:
		return &fullError{Host: host, Inside: g.hosts[host]}
	}
	if g.hosts == nil {
		g.hosts = map[netip.Addr]int{}
	}
	g.hosts[host]++
	g.inside++
	return nil
}

// Leave is the end of one that was let in.
func (g *Gate) Leave(host netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.hosts[host]--; g.hosts[host] <= 0 {
		delete(g.hosts, host)
	}
}

// present is how many are.
func (g *Gate) present() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inside
}

// HostOf is the address of a peer without its port; the zero address where it has none.
func HostOf(a net.Addr) netip.Addr {
	var ap netip.AddrPort
	switch a := a.(type) {
	case *net.TCPAddr:
		ap = a.AddrPort()
	case *net.UDPAddr:
		ap = a.AddrPort()
	}
	return ap.Addr().Unmap().WithZone("")
}
