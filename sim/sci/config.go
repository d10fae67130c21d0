package sci

import (
	"errors"
	"fmt"

	"ringlet/sim"
)

// Config is what a network is made of. Times are those of L1-farm unless it says otherwise.
type Config struct {
	Symbol    sim.Time // on the link: 16 bits
	Header    int      // symbols of a packet besides its data: header and CRC
	Echo      int      // symbols of an echo
	Idle      int      // symbols between packets, at least
	Bypass    sim.Time // from a symbol into a node to the same symbol out of it
	QuietTime sim.Time // how long no request must have by-passed a node before it begins a packet of its own
	Routing   sim.Time // what changing rings adds to the way of a packet of MaxData
	PCIToPCI  sim.Time // first data word on one bus to first data word on the bus of a neighbour, with MaxData
	MaxData   int      // bytes of data in a packet

	Queue    int      // packets of a kind (requests, responses) in a send or a receive queue
	Total    int      // packets of both kinds
	Streams  int      // packets of a card on their way, until their response
	Incoming int      // packets between B-Link and PCI bus in a receiving card
	Response bool     // requests are answered; else a stream is free when its packet is in the send queue
	Starving sim.Time // a node whose packet has waited so long for the link clears the go bits; 0: never

	BLinkClock sim.Time // 64 bits each
	BLinkExtra int      // bytes that the B-Link adds to a packet
	BLinkTurn  int      // clocks between two transfers: turn-around and arbitration
	QueueTurn  int      // clocks more for a request from the receive queue of another ring than the last one's

	PCIClock sim.Time // 64 bits each
	PCIHead  int      // clocks of a received burst before its first data word: address
	PCIGap   int      // idle clocks after it, at least
}

// Dolphin is the hardware of L1-farm §4.4.3: LC3 link chips at 3 ns, PSB66 cards, PCI with 64 bits and 66 MHz. The
// places in the documents, and the reasons of what no document says, stand in sim/figures/common-sci.yaml.
func Dolphin() Config {
	return Config{
		Symbol:     3 * sim.Nanosecond,
		Header:     8,
		Echo:       4,
		Idle:       1,
		Bypass:     60 * sim.Nanosecond,
		QuietTime:  75 * sim.Nanosecond,
		Routing:    570 * sim.Nanosecond,
		PCIToPCI:   1400 * sim.Nanosecond,
		MaxData:    128,
		Queue:      7,
		Total:      8,
		Streams:    16,
		Incoming:   16,
		Starving:   2 * sim.Microsecond,
		Response:   true,
		BLinkClock: 12500 * sim.Picosecond,
		BLinkExtra: 8,
		BLinkTurn:  3,
		PCIClock:   15 * sim.Nanosecond,
		PCIHead:    1,
		PCIGap:     9,
	}
}

// Check says what a network cannot be made of.
func (c *Config) Check() error {
	switch {
	case c.Symbol <= 0 || c.BLinkClock <= 0 || c.PCIClock <= 0:
		return errors.New("a symbol, a clock of the B-Link and one of the PCI bus take time")
	case c.Header <= c.Echo:
		return fmt.Errorf("an echo of %d symbols is not shorter than the header of a packet, %d", c.Echo, c.Header)
	case c.route() < 0:
		return fmt.Errorf("routing in %v is faster than the ring and the B-Link in it, %v", c.Routing, c.Routing-c.route())
	case c.card() < 0:
		return fmt.Errorf("PCI to PCI in %v is faster than the buses and the ring in it, %v", c.PCIToPCI,
			c.PCIToPCI-2*c.card())
	}
	return nil
}

// symbols of a packet with that much data.
func (c *Config) symbols(bytes int) int { return c.Header + (bytes+1)/2 }

// link is the time of so many symbols on the link.
func (c *Config) link(symbols int) sim.Time { return sim.Time(symbols) * c.Symbol }

// blink is how long a packet holds the B-Link.
func (c *Config) blink(bytes int) sim.Time {
	words := (2*c.symbols(bytes) + c.BLinkExtra + 7) / 8
	return sim.Time(words+c.BLinkTurn) * c.BLinkClock
}

// clocks is a time on the PCI bus.
func (c *Config) clocks(n int) sim.Time { return sim.Time(n) * c.PCIClock }

// store is from a packet's first symbol at the node that takes it off to its last but those of the echo, when the node
// has it.
func (c *Config) store(bytes int) sim.Time { return c.link(c.symbols(bytes) - c.Echo) }

// route is what is left of Routing for the link chips, when the times that are modelled are taken off.
func (c *Config) route() sim.Time { return c.Routing - c.store(c.MaxData) - c.blink(c.MaxData) }

// card is the same of PCIToPCI for each of the two cards.
func (c *Config) card() sim.Time {
	data := c.clocks(c.MaxData / 8)
	return (c.PCIToPCI - data - 2*c.blink(c.MaxData) - c.store(c.MaxData) - c.clocks(c.PCIHead)) / 2
}
