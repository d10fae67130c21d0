package connlimit

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
)

// Gate bounds how many peers are inside at once. The zero value admits none. It may be used by several goroutines.
//
// A peer inside keeps its place, unless the place yields: then a newcomer that finds no free place takes it. Of several
// yielding places the oldest goes first; if the newcomer's host has reached its limit, the oldest one of that host.
type Gate struct {
	MaxTotal int // how many peers may be inside; immutable
	// how many peers may be inside from one address, whatever the port; immutable. Peers without an address count for
	// MaxTotal alone
	MaxPerHost int

	mu            sync.Mutex
	admittedCount uint64 // peers admitted so far
	insideCount   int
	insideByHost  map[netip.Addr]int // only hosts with a peer inside
	yielding      []*Place           // in order of admission
}

// Place is the place of one peer inside. It may be used by several goroutines.
type Place struct {
	gate            *Gate
	host            netip.Addr
	admissionNumber uint64
	onEvict         func()

	// guarded by gate.mu
	inside, yielding bool
}

// fullError says which limit has kept a peer out.
type fullError struct {
	Host        netip.Addr
	InsideCount int  // peers inside
	TotalFull   bool // of all hosts (MaxTotal); else of Host alone (MaxPerHost)
}

func (e *fullError) Error() string {
	if e.TotalFull {
		return fmt.Sprintf("%s is turned away: %d are inside, and no more are let in at once", e.Host, e.InsideCount)
	}
	return fmt.Sprintf("%s is turned away: %d of that host are inside, and no more are let in at once", e.Host,
		e.InsideCount)
}

// Enter gives a peer from host a place; if there is none, the error is a *fullError. If a newcomer takes the place
// later, the newcomer's Enter calls onEvict, once; onEvict may be nil for a place that never yields.
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

// admit gives p a free place. If none is free, it takes the place of out, which yields, and gives it to p. The error is
// a *fullError if no place yields.
func (g *Gate) admit(p *Place) (out *Place, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	full, crowded := g.insideCount >= g.MaxTotal, p.host.IsValid() && g.insideByHost[p.host] >= g.MaxPerHost
	if full || crowded {
		i := slices.IndexFunc(g.yielding, func(o *Place) bool { return !crowded || o.host == p.host })
		switch {
		case i >= 0:
			out = g.yielding[i]
			g.remove(out)
		case full:
			return nil, &fullError{Host: p.host, InsideCount: g.insideCount, TotalFull: true}
		default:
			return nil, &fullError{Host: p.host, InsideCount: g.insideByHost[p.host]}
		}
	}
	if g.insideByHost == nil {
		g.insideByHost = map[netip.Addr]int{}
	}
	g.insideByHost[p.host]++
	g.insideCount++
	g.admittedCount++
	p.admissionNumber, p.inside = g.admittedCount, true
	return out, nil
}

// SetYielding sets whether a newcomer may take the place from now on; it may, for example, until the peer has
// authenticated itself. It returns false if a newcomer has taken the place, or the peer has left. A nil Place never
// yields.
func (p *Place) SetYielding(yes bool) (inside bool) {
	if p == nil {
		return true
	}
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	p.markYielding(yes)
	return p.inside
}

// markYielding is SetYielding; gate.mu is held.
func (p *Place) markYielding(yields bool) {
	if !p.inside || p.yielding == yields {
		return
	}
	p.yielding = yields
	g := p.gate
	i, _ := slices.BinarySearchFunc(g.yielding, p, func(a, b *Place) int {
		return cmp.Compare(a.admissionNumber,
			b.admissionNumber)
	})
	if yields {
		g.yielding = slices.Insert(g.yielding, i, p)
	} else {
		g.yielding = slices.Delete(g.yielding, i, i+1)
	}
}

// Leave gives a place back. It may be called twice, and after a newcomer has taken the place.
func (p *Place) Leave() {
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	if p.inside {
		p.gate.remove(p)
	}
}

// remove frees the place of p, which is inside; mu is held.
func (g *Gate) remove(p *Place) {
	p.markYielding(false)
	p.inside = false
	g.insideCount--
	if g.insideByHost[p.host]--; g.insideByHost[p.host] <= 0 {
		delete(g.insideByHost, p.host)
	}
}

// HostOf is the address of a peer without its port; the zero address if it has no IP address.
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
