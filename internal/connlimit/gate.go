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
	MaxTotal int // most inside; immutable
	// most inside of one address, whatever the port; immutable. Who has no address is bounded by Total alone
	MaxPerHost int

	mu            sync.Mutex
	admittedCount uint64 // so many were let in
	insideCount   int
	insideByHost  map[netip.Addr]int // nobody is listed with 0
	yielding      []*Place           // in the order in which they came
}

// Place is that of one who is inside. It may be used by several goroutines.
type Place struct {
	gate            *Gate
	host            netip.Addr
	admissionNumber uint64
	onEvict         func()

	// guarded by gate.mu
	inside, yielding bool
}

// fullError says why somebody was turned away.
type fullError struct {
	Host        netip.Addr
	InsideCount int  // as many are inside
	TotalFull   bool // from everywhere; else from this host
}

func (e *fullError) Error() string {
	if e.TotalFull {
		return fmt.Sprintf("%s is turned away: %d are inside, and no more are let in at once", e.Host, e.InsideCount)
	}
	return fmt.Sprintf("%s is turned away: %d of that host are inside, and no more are let in at once", e.Host,
		e.InsideCount)
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

// SetYielding says whether one makes room from now on: while it has not said who it is, say. It returns false if it had
// to do so already, or has left. A nil Place never yields.
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
	p.markYielding(false)
	p.inside = false
	g.insideCount--
	if g.insideByHost[p.host]--; g.insideByHost[p.host] <= 0 {
		delete(g.insideByHost, p.host)
	}
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
