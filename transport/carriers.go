package transport

import (
	"context"
	"fmt"
)

// Carrier is what brings remote writes to a peer.
type Carrier uint8

// Carriers.
const (
	CarrierQUIC    Carrier = iota + 1 // DATAGRAM frames on QUIC (RFC 9221)
	CarrierExpress                    // datagrams sealed with keys of the QUIC session, many in one system call
	CarrierStream                     // QUIC streams
	CarrierLocal                      // the memory of another process of this host
	CarrierAuto                       // CarrierLocal on the same host, Config.AutoNetwork otherwise

	carriers = iota + 1
)

var carrierNames = [carriers]string{"", "quic", "express", "stream", "local", "auto"}

func (c Carrier) String() string {
	if c > 0 && int(c) < len(carrierNames) {
		return carrierNames[c]
	}
	return fmt.Sprintf("carrier(%d)", uint8(c))
}

// ParseCarrier reads a carrier's name.
func ParseCarrier(s string) (Carrier, error) {
	for c := CarrierQUIC; c < carriers; c++ {
		if s == carrierNames[c] {
			return c, nil
		}
	}
	return 0, fmt.Errorf("carrier %q is not one of quic, express, stream, local, auto", s)
}

// Seal is how the carrier express protects what it sends.
type Seal uint8

// Seals.
const (
	SealAES  Seal = iota + 1 // AES-128-GCM
	SealNone                 // a keyed session number and a CRC-32C: for networks that nobody else can reach
)

func (s Seal) String() string {
	switch s {
	case SealAES:
		return "aes"
	case SealNone:
		return "none"
	}
	return fmt.Sprintf("seal(%d)", uint8(s))
}

// ParseSeal reads a seal's name.
func ParseSeal(s string) (Seal, error) {
	switch s {
	case "aes":
		return SealAES, nil
	case "none":
		return SealNone, nil
	}
	return 0, fmt.Errorf("seal %q is neither aes nor none", s)
}

// Upgrade asks a connection to become another carrier.
type Upgrade struct {
	Carrier Carrier
	Seal    Seal
	Dialler bool // this end has dialled
	// Window and Ring bound what the carrier may ask for. Zero: what suits it.
	Window, Ring int
}

// An Upgrader is a connection fresh from its hellos. Both ends call Upgrade at the same time, after they have agreed on the carrier,
// and use what it returns in its place; for CarrierQUIC that is the connection itself. On error the connection is of no use.
type Upgrader interface {
	Upgrade(ctx context.Context, u Upgrade) (Conn, error)
}
