package builder

import (
	"ringlet/sim"
	"ringlet/sim/component"
)

// host is a machine with a port.
type host struct {
	index                int
	cardPort, switchPort *component.Port // the port of its card, and the switch's port to it

	rus            []*ru
	nextRU         int // the unit whose turn is next
	queuedSegments int // segments in its card, and being made

	inFlightBudget int64 // how many more bytes may be on their way to it
	waitingRUs     []*ru // readout units that wait for the budget, in the order of asking
}

// maxQueued is the most segments of a host in its card and being made: one leaves while the next is made.
const maxQueued = 2

// network makes the hosts, their ports and the links between switches. A link that carries several flows at the same
// time is modelled as that many times as fast.
func (w *World) network() {
	for i := range w.c.Hosts {
		card := w.c.Port
		card.BufferBytes = 0 // the host bounds what it gives the card
		h := &host{
			index:          i,
			switchPort:     component.NewPort(w.s, w.c.Port),
			cardPort:       component.NewPort(w.s, card),
			inFlightBudget: w.c.InFlightLimit,
		}
		h.cardPort.OnFreed = (*cardFreed)(h)
		w.hosts = append(w.hosts, h)
	}
	if t := w.c.Topology; t != nil {
		link := w.c.Port
		link.PerByte = max(1, link.PerByte/sim.Time(t.Capacity()))
		for range t.Links() {
			w.switchLinks = append(w.switchLinks, component.NewPort(w.s, link))
		}
	}
}

// path lists the ports from one host to another; nil if the path leads through no card.
func (w *World) path(from, to *host) []*component.Port {
	if from == to {
		if w.c.SelfThroughCard {
			return []*component.Port{from.cardPort}
		}
		return nil
	}
	ports := []*component.Port{from.cardPort}
	if t := w.c.Topology; t != nil {
		w.route = t.Route(w.route[:0], from.index, to.index)
		for _, link := range w.route {
			ports = append(ports, w.switchLinks[link])
		}
	}
	return append(ports, to.switchPort)
}

type cardFreed host

// Handle: a segment has left the card, so the host may fill it again.
func (e *cardFreed) Handle(_, _ int64) {
	h := (*host)(e)
	h.queuedSegments--
	h.nextRU++
	for i := range h.rus { // in turn, if a host has several
		h.rus[(h.nextRU+i)%len(h.rus)].fillCard()
	}
}
