package transport

import (
	"context"
	"fmt"
	"strings"

	"ringlet/internal/registry"
)

// Carrier is the means by which remote writes reach a peer.
type Carrier uint8

// Carriers. Hellos contain these numbers.
const (
	CarrierQUICGo Carrier = iota + 1 // DATAGRAM frames by quic-go (RFC 9221)
	CarrierQUIC                      // DATAGRAM frames; Ringlet itself builds the packets and sends many at a time
	CarrierStream                    // QUIC streams
	CarrierLocal                     // the memory of another process of this host
	CarrierAuto                      // CarrierLocal on the same host, Config.AutoNetwork otherwise

	numCarriers = iota + 1
)

// CarrierKind is a carrier with the name by which a configuration chooses it.
type CarrierKind struct {
	registry.Kind
	Carrier   Carrier
	SameHost  bool // reaches only processes of the same host, and has no datagrams
	CanDamage bool // a test can damage its encrypted packets before they are decrypted
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

// A CarrierChoice says which carriers the links of a run use.
type CarrierChoice struct {
	Carrier        Carrier     // of all links; CarrierAuto: local for a peer on this host, NetworkCarrier for others
	NetworkCarrier CarrierKind // between hosts
}

// AllowsLocal reports whether links may use memory of the same host.
func (c CarrierChoice) AllowsLocal() bool {
	return c.Carrier == CarrierLocal || c.Carrier == CarrierAuto
}

const (
	autoName    = "auto"
	autoNetwork = "quic" // the carrier of auto between hosts
	localPrefix = "local+"
)

// Choices lists the names that ParseChoice accepts.
func Choices() []string {
	out := append(registry.Names(Kinds), autoName)
	for _, r := range Kinds {
		if !r.SameHost {
			out = append(out, localPrefix+r.Name)
		}
	}
	return out
}

// HelpChoices is the help text for these names.
func HelpChoices() string {
	return registry.Help(Kinds) + ", " + localPrefix + "X (local on the same host, X elsewhere), " +
		autoName + " (" + localPrefix + autoNetwork + ")"
}

// ParseChoice reads a choice: the name of a carrier, "local+" before the name of one that crosses networks, or auto.
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
		return CarrierChoice{}, fmt.Errorf("the carrier after local+ must reach other hosts, and %s does not", network)
	case both:
		return CarrierChoice{Carrier: CarrierAuto, NetworkCarrier: row}, nil
	}
	return CarrierChoice{Carrier: row.Carrier, NetworkCarrier: row}, nil
}

// Upgrade says which carrier a connection becomes after the hellos.
type Upgrade struct {
	Carrier Carrier
	Dialler bool     // this end has dialled
	Damage  *Damager // damages packets that arrive; nil: no damage. Only a carrier with CanDamage gets one
}

// An Upgrader is a connection that has only exchanged hellos. After both ends have agreed on a carrier, both call
// Upgrade at the same time and use the returned connection instead; for CarrierQUICGo that is the same connection.
// After an error the connection is unusable.
type Upgrader interface {
	Upgrade(ctx context.Context, u Upgrade) (Conn, error)
}
