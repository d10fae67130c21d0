package transport

import (
	"context"
	"fmt"
	"strings"

	"ringlet/internal/registry"
)

// Carrier is what brings remote writes to a peer.
type Carrier uint8

// Carriers. The numbers stand in hellos.
const (
	CarrierQUICGo Carrier = iota + 1 // DATAGRAM frames by quic-go (RFC 9221)
	CarrierQUIC                      // DATAGRAM frames in packets of our own, many in one system call
	CarrierStream                    // QUIC streams
	CarrierLocal                     // the memory of another process of this host
	CarrierAuto                      // CarrierLocal on the same host, Config.AutoNetwork otherwise

	numCarriers = iota + 1
)

// CarrierKind is a kind of carrier: what a configuration may name.
type CarrierKind struct {
	registry.Kind
	Carrier   Carrier
	SameHost  bool // it reaches processes of the same host only, and has no datagrams
	CanDamage bool // what it has sealed can be damaged on purpose before it is opened
}

// Kinds is the table of carriers.
var Kinds = []CarrierKind{
	{
		Kind:      registry.Kind{Name: "quic", Help: "datagrams of QUIC, many at a time"},
		Carrier:   CarrierQUIC,
		CanDamage: true,
	},
	{
		Kind:    registry.Kind{Name: "quic-go", Help: "the same by the library quic-go alone, to compare with"},
		Carrier: CarrierQUICGo,
	},
	{Kind: registry.Kind{Name: "stream", Help: "QUIC streams"}, Carrier: CarrierStream},
	{Kind: registry.Kind{Name: "local", Help: "memory of the same host"}, Carrier: CarrierLocal, SameHost: true},
}

func (c Carrier) String() string {
	for _, r := range Kinds {
		if r.Carrier == c {
			return r.Name
		}
	}
	if c == CarrierAuto {
		return autoName
	}
	return fmt.Sprintf("carrier(%d)", uint8(c))
}

// A CarrierChoice is the carriers of a run.
type CarrierChoice struct {
	Carrier        Carrier     // of all links; CarrierAuto: that goes by where the peer is
	NetworkCarrier CarrierKind // between hosts
}

// AllowsLocal says whether memory of the same host may be used.
func (c CarrierChoice) AllowsLocal() bool {
	return c.Carrier == CarrierLocal || c.Carrier == CarrierAuto
}

const (
	autoName    = "auto"
	autoNetwork = "quic" // what auto takes between hosts
	localPrefix = "local+"
)

// Choices lists what ParseChoice takes.
func Choices() []string {
	out := append(registry.Names(Kinds), autoName)
	for _, r := range Kinds {
		if !r.SameHost {
			out = append(out, localPrefix+r.Name)
		}
	}
	return out
}

// HelpChoices says what they are.
func HelpChoices() string {
	return registry.Help(Kinds) + ", " + localPrefix + "X (local on the same host, X elsewhere), " +
		autoName + " (" + localPrefix + autoNetwork + ")"
}

// ParseChoice reads a choice: the name of a kind; "local+" and that of one that crosses networks; or auto.
func ParseChoice(name string) (CarrierChoice, error) {
	if name == autoName {
		name = localPrefix + autoNetwork
	}
	network, both := strings.CutPrefix(name, localPrefix)
	row, err := registry.Find("carrier", Kinds, network)
	switch {
	case err != nil:
		return CarrierChoice{}, err
	case both && row.SameHost:
		return CarrierChoice{}, fmt.Errorf("the carrier %s does not reach other hosts", network)
	case both:
		return CarrierChoice{Carrier: CarrierAuto, NetworkCarrier: row}, nil
	}
	return CarrierChoice{Carrier: row.Carrier, NetworkCarrier: row}, nil
}

// Upgrade asks a connection to become another carrier.
type Upgrade struct {
	Carrier Carrier
	Dialler bool     // this end has dialled
	Damage  *Damager // of packets that come; nil: none. A carrier whose row says Damages has it
}

// An Upgrader is a connection fresh from its hellos. Both ends call Upgrade at the same time, after they have agreed on
// the carrier, and use what it returns in its place; for CarrierQUICGo that is the connection itself. On error the
// connection is of no use.
type Upgrader interface {
	Upgrade(ctx context.Context, u Upgrade) (Conn, error)
}
