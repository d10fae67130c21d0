package sci

import (
	"errors"
	"fmt"

	"ringlet/sim"
)

// Config has the parameters of a network. Times are those of L1-farm unless it says otherwise.
type Config struct {
	SymbolTime    sim.Time // on the link: 16 bits
	HeaderSymbols int      // symbols of a packet besides its data: header and CRC
	EchoSymbols   int      // symbols of an echo
	IdleSymbols   int      // symbols between packets, at least
	BypassTime    sim.Time // from a symbol into a node to the same symbol out of it
	QuietTime     sim.Time // after a request has by-passed a node: how long the node begins no packet of its own
	RoutingTime   sim.Time // added by a change of rings to the path of a packet of MaxData
	PCIToPCI      sim.Time // first data word on one bus to first data word on the bus of a neighbour, with MaxData
	MaxData       int      // bytes of data in a packet

	MaxQueuedPerKind int      // packets of a kind (requests, responses) in a send or a receive queue
	MaxQueued        int      // packets of both kinds
	MaxStreams       int      // packets of a card without a response
	MaxIncoming      int      // packets between B-Link and PCI bus in a receiving card
	WithResponses    bool     // requests are answered; else a stream is free when its packet is in the send queue
	StarvationTime   sim.Time // a node clears the go bits when its packet has waited this long; 0: never

	BLinkClock      sim.Time // time of 64 bits
	BLinkExtraBytes int      // bytes that the B-Link adds to a packet
	BLinkTurnClocks int      // clocks between two transfers: turn-around and arbitration
	QueueTurnClocks int      // clocks more for a request from another ring's receive queue than the last one

	PCIClock      sim.Time // time of 64 bits
	PCIHeadClocks int      // clocks of a received burst before its first data word: address
	PCIGapClocks  int      // least idle clocks after it
}

// Dolphin is the hardware of L1-farm §4.4.3: LC3 link chips at 3 ns, PSB66 cards, PCI with 64 bits and 66 MHz.
// sim/documents/figures/common-sci.yaml has the places in the documents, and the reasons for other values.
func Dolphin() Config {
	return Config{
		SymbolTime:       3 * sim.Nanosecond,
		HeaderSymbols:    8,
		EchoSymbols:      4,
		IdleSymbols:      1,
		BypassTime:       60 * sim.Nanosecond,
		QuietTime:        75 * sim.Nanosecond,
		RoutingTime:      570 * sim.Nanosecond,
		PCIToPCI:         1400 * sim.Nanosecond,
		MaxData:          128,
		MaxQueuedPerKind: 7,
		MaxQueued:        8,
		MaxStreams:       16,
		MaxIncoming:      16,
		StarvationTime:   2 * sim.Microsecond,
		WithResponses:    true,
		BLinkClock:       12500 * sim.Picosecond,
		BLinkExtraBytes:  8,
		BLinkTurnClocks:  3,
		PCIClock:         15 * sim.Nanosecond,
		PCIHeadClocks:    1,
		PCIGapClocks:     9,
	}
}

// Check returns the first contradiction between the parameters.
func (c *Config) Check() error {
	switch {
	case c.SymbolTime <= 0 || c.BLinkClock <= 0 || c.PCIClock <= 0:
		return errors.New("the times of a symbol, of a B-Link clock and of a PCI clock must be above 0")
	case c.HeaderSymbols <= c.EchoSymbols:
		return fmt.Errorf("an echo of %d symbols is not shorter than the header of a packet, %d", c.EchoSymbols,
			c.HeaderSymbols)
	case c.routeTime() < 0:
		return fmt.Errorf("routing in %v is faster than the ring and the B-Link in it, %v", c.RoutingTime,
			c.RoutingTime-c.routeTime())
	case c.cardTime() < 0:
		return fmt.Errorf("PCI to PCI in %v is faster than the buses and the ring in it, %v", c.PCIToPCI,
			c.PCIToPCI-2*c.cardTime())
	}
	return nil
}

// symbols is the number of symbols of a packet with that much data.
func (c *Config) symbols(bytes int) int { return c.HeaderSymbols + (bytes+1)/2 }

// symbolsTime returns how long the given number of symbols takes on the link.
func (c *Config) symbolsTime(symbols int) sim.Time { return sim.Time(symbols) * c.SymbolTime }

// blinkTime is how long a packet holds the B-Link.
func (c *Config) blinkTime(bytes int) sim.Time {
	words := (2*c.symbols(bytes) + c.BLinkExtraBytes + 7) / 8
	return sim.Time(words+c.BLinkTurnClocks) * c.BLinkClock
}

// clocks is the time of n clocks of the PCI bus.
func (c *Config) clocks(n int) sim.Time { return sim.Time(n) * c.PCIClock }

// storeTime is from a packet's first symbol at its exit node until the node has the packet: all symbols but those that
// the echo replaces.
func (c *Config) storeTime(bytes int) sim.Time {
	return c.symbolsTime(c.symbols(bytes) - c.EchoSymbols)
}

// routeTime is the part of RoutingTime in the link chips: RoutingTime less the times that are modelled.
func (c *Config) routeTime() sim.Time {
	return c.RoutingTime - c.storeTime(c.MaxData) - c.blinkTime(c.MaxData)
}

// cardTime is the part of PCIToPCI in each of the two cards.
func (c *Config) cardTime() sim.Time {
	data := c.clocks(c.MaxData / 8)
	return (c.PCIToPCI - data - 2*c.blinkTime(c.MaxData) - c.storeTime(c.MaxData) - c.clocks(c.PCIHeadClocks)) / 2
}
