package transport

import (
	"encoding/binary"
	"fmt"
	"strings"

	"ringlet/internal/registry"
	"ringlet/transport/link"
)

// helloSize is the length of a hello without its extension, bytes; docs/format/wire.md draws it.
const helloSize = 24

// maxExtension bounds what a carrier may add to a hello, bytes.
const maxExtension = 512

const helloMagic = 0x4C474E52 // "RNGL"

// hello is what both ends say before the first datagram.
type hello struct {
	version     uint8
	view        uint64 // which set of nodes, in which order
	maxDatagram int    // bytes
	credit      int    // datagrams in flight
	seqWindow   int    // how far repair may lag, datagrams
	carriers    carrierSet
	extension   []byte // of the carrier local: where its memory is
}

// carrierSet has bit c set for each Carrier c that an end would take; an answer has one.
type carrierSet uint8

func newCarrierSet(cs ...Carrier) (s carrierSet) {
	for _, c := range cs {
		s |= 1 << c
	}
	return s
}

func (s carrierSet) contains(c Carrier) bool { return s&(1<<c) != 0 }

// preferred is the carrier that two ends which would take any of the set use: on the same host the one that needs no
// network.
func (s carrierSet) preferred() Carrier {
	first := Carrier(0)
	for _, r := range Kinds {
		if s.contains(r.Carrier) && (first == 0 || r.SameHost) {
			first = r.Carrier
		}
	}
	return first
}

func (s carrierSet) String() string {
	var names []string
	for c := Carrier(1); c < CarrierAuto; c++ {
		if s.contains(c) {
			names = append(names, c.String())
		}
	}
	return strings.Join(names, " or ")
}

func (h hello) marshal() []byte {
	b := make([]byte, helloSize, helloSize+len(h.extension))
	binary.LittleEndian.PutUint32(b, helloMagic)
	b[4], b[5] = h.version, uint8(h.carriers)
	binary.LittleEndian.PutUint64(b[8:], h.view)
	binary.LittleEndian.PutUint16(b[16:], uint16(h.maxDatagram))
	binary.LittleEndian.PutUint16(b[18:], uint16(h.credit))
	binary.LittleEndian.PutUint16(b[20:], uint16(h.seqWindow))
	binary.LittleEndian.PutUint16(b[22:], uint16(len(h.extension)))
	return append(b, h.extension...)
}

func parseHello(b []byte) (hello, error) {
	if len(b) < 5 || binary.LittleEndian.Uint32(b) != helloMagic {
		return hello{}, fmt.Errorf("the first message of the peer is no hello of Ringlet: look what runs at its address")
	}
	// The version stands before everything that may change with it.
	h := hello{version: b[4]}
	if h.version != link.Version {
		return h, &link.VersionError{Got: h.version}
	}
	if len(b) < helloSize || len(b)-helloSize > maxExtension ||
		len(b)-helloSize != int(binary.LittleEndian.Uint16(b[22:])) {
		return h, fmt.Errorf("the hello is %d bytes long, and gives another length itself: look whether the peer runs the "+
			"same release", len(b))
	}
	h.carriers = carrierSet(b[5])
	h.extension = b[helloSize:]
	h.view = binary.LittleEndian.Uint64(b[8:])
	h.maxDatagram = int(binary.LittleEndian.Uint16(b[16:]))
	h.credit = int(binary.LittleEndian.Uint16(b[18:]))
	h.seqWindow = int(binary.LittleEndian.Uint16(b[20:]))
	return h, nil
}

// negotiate takes the smaller of what both ends can do.
func (h hello) negotiate(peer hello) (hello, error) {
	a := hello{
		version:     h.version,
		view:        h.view,
		maxDatagram: min(h.maxDatagram, peer.maxDatagram),
		credit:      min(h.credit, peer.credit),
		seqWindow:   min(h.seqWindow, peer.seqWindow),
		carriers:    h.carriers & peer.carriers,
	}
	if a.carriers == 0 {
		return a, fmt.Errorf("the peer would use the carrier %v, this node %v: give both the same transport", peer.carriers,
			h.carriers)
	}
	if a.credit == 0 || a.seqWindow == 0 { // which stand for what suits this end, in a configuration
		return a, fmt.Errorf("the hello asks for a credit of %d and a ring of %d, which cannot work", a.credit, a.seqWindow)
	}
	if err := (link.Config{MaxDatagram: a.maxDatagram, Credit: a.credit, SeqWindow: a.seqWindow}).Check(); err != nil {
		return a, fmt.Errorf("what the hello asks for cannot work: %w", err)
	}
	return a, nil
}

// RefuseCode says why a peer was turned away; it travels to the peer.
type RefuseCode uint64

// Why a peer is turned away.
const (
	RefuseVersion  RefuseCode = 1 // another version of the link protocol
	RefuseView     RefuseCode = 2 // another view
	RefuseStranger RefuseCode = 3 // a name that is not in the view, or is connected already
	RefuseHello    RefuseCode = 4 // a hello that makes no sense
	RefuseMemory   RefuseCode = 5 // memory that cannot be reached from here, where the carrier is local

	numRefuseCodes = 6
)

func (c RefuseCode) String() string {
	return registry.NameOf(c, "code", "", "version", "view", "stranger", "hello", "memory")
}

// A PeerRefusedError says that a peer turned this node away.
type PeerRefusedError struct {
	Peer   string
	Code   RefuseCode
	Reason string
}

func (e *PeerRefusedError) Error() string {
	return fmt.Sprintf("%s refused the connection (%s): %s", e.Peer, e.Code, e.Reason)
}

// A turnedAwayError says that this node turned a peer away: the other side of a PeerRefusedError.
type turnedAwayError struct {
	Peer  string
	Code  RefuseCode
	Cause error
}

func (e *turnedAwayError) Error() string {
	return fmt.Sprintf("turned %s away (%s): %v", e.Peer, e.Code, e.Cause)
}
func (e *turnedAwayError) Unwrap() error { return e.Cause }

// A HandshakeError says that one side did not believe who the other is; dialling again would not help.
type HandshakeError struct {
	Peer  string // as it was dialled
	Addr  string
	Cause error
}

func (e *HandshakeError) Error() string {
	return fmt.Sprintf("%s at %s and this node do not trust each other: %v", e.Peer, e.Addr, e.Cause)
}
func (e *HandshakeError) Unwrap() error { return e.Cause }
