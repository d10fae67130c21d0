package frames

import (
	"io"
	"slices"
	"sync"
)

const (
	// maxConns is how many connections a feed has at once: one that is attached, and those that say hello or read why
	// they are refused.
	maxConns = 16
	// maxOfHost is how many of them one host has; processes of the feed's own host may have all by a socket's path.
	maxOfHost = 8
)

// places are the connections of a feed. Who comes takes the place of the oldest that has nothing to say, if there is no
// other: one that is silent keeps nobody out.
type places struct {
	mu   sync.Mutex // guards the rest
	list []place    // the oldest first
}

// place is one connection.
type place struct {
	c     io.Closer
	host  string // "": it has none
	where string
	idle  bool // it has not said hello, or is refused
}

// take gives a connection a place. What is returned, if it is one, is to be closed: one that had a place, or the
// newcomer.
func (p *places) take(c io.Closer, host, where string) (out place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, place{c, host, where, true})
	of := 0
	for _, one := range p.list {
		if host != "" && one.host == host {
			of++
		}
	}
	if of <= maxOfHost && len(p.list) <= maxConns {
		return place{}
	}
	i := slices.IndexFunc(p.list, func(one place) bool { return one.idle && (of <= maxOfHost || one.host == host) })
	out = p.list[i] // the newcomer, if no other
	p.list = slices.Delete(p.list, i, i+1)
	return out
}

// set says whether a connection may lose its place.
func (p *places) set(c io.Closer, idle bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.list {
		if p.list[i].c == c {
			p.list[i].idle = idle
		}
	}
}

// leave gives a place back.
func (p *places) leave(c io.Closer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = slices.DeleteFunc(p.list, func(one place) bool { return one.c == c })
}
