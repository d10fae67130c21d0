package connlimit

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
)

// Gate bounds how many are inside at once. The zero value lets nobody in. It may be used by several goroutines.
//
// Who is inside keeps its place, unless it yields: then it makes room for who comes and finds no other place. The one
// that came first goes first, and where a host has too many, one of that host.
type Gate struct {
	Total   int // most inside; immutable
	PerHost int // most inside of one address, whatever the port; immutable. Who has no address is bounded by Total alone

	mu       sync.Mutex
	admitted uint64 // so many were let in
	inside   int
	hosts    map[netip.Addr]int // nobody is listed with 0
	yielding []*Place           // in the order in which they came
}

// Place is that of one who is inside. It may be used by several goroutines.
type Place struct {
	gate    *Gate
	host    netip.Addr
	number  uint64
	onEvict func()

	// guarded by gate.mu
	inside, yields bool
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

// Enter lets one in; else the error is a *fullError. away is called once if it must make room, by whoever comes; it is
// nil for one that never yields.
func (g *Gate) Enter(host netip.Addr, onEvict func()) (*Place, error) {
	p := &Place{gate: g, host: host, onEvict: onEvict}
	out, err := g.admit(p)
	if err != nil {
		return nil, err
	}
	if out != nil {
		out.onEvict()
	}
	return p, nil
}

// admit gives a newcomer a place, maybe that of another.
func (g *Gate) admit(p *Place) (out *Place, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	full, crowded := g.inside >= g.Total, p.host.IsValid() && g.hosts[p.host] >= g.PerHost
	if full || crowded {
		i := slices.IndexFunc(g.yielding, func(o *Place) bool { return !crowded || o.host == p.host })
		switch {
		case i >= 0:
			out = g.yielding[i]
			g.remove(out)
		case full:
			return nil, &fullError{Host: p.host, Inside: g.inside, All: true}
		default:
			return nil, &fullError{Host: p.host, Inside: g.hosts[p.host]}
		}
	}
	if g.hosts == nil {
		g.hosts = map[netip.Addr]int{}
	}
	g.hosts[p.host]++
	g.inside++
	g.admitted++
	p.number, p.inside = g.admitted, true
	return out, nil
}

// SetYielding says whether one makes room from now on: while it has not said who it is, say. It returns false if it had
// to do so already, or has left. A nil Place never yields.
func (p *Place) SetYielding(yes bool) (inside bool) {
	if p == nil {
		return true
	}
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	p.mark(yes)
	return p.inside
}

// mark is SetYielding; gate.mu is held.
func (p *Place) mark(yields bool) {
	if !p.inside || p.yields == yields {
		return
	}
	p.yields = yields
	g := p.gate
	i, _ := slices.BinarySearchFunc(g.yielding, p, func(a, b *Place) int { return cmp.Compare(a.number, b.number) })
	if yields {
		g.yielding = slices.Insert(g.yielding, i, p)
	} else {
		g.yielding = slices.Delete(g.yielding, i, i+1)
	}
}

// Leave gives a place back. It may be called again, and by one that had to make room.
func (p *Place) Leave() {
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	if p.inside {
		p.gate.remove(p)
	}
}

// remove takes one out that is inside; mu is held.
func (g *Gate) remove(p *Place) {
	p.mark(false)
	p.inside = false
	g.inside--
	if g.hosts[p.host]--; g.hosts[p.host] <= 0 {
		delete(g.hosts, p.host)
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
