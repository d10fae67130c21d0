package transport

import (
	"encoding/binary"
	"fmt"
	"strings"

	"ringlet/internal/registry"
	"ringlet/transport/link"
)

// helloSize is the length of a hello without its extension, bytes; docs/format/wire.md lists it.
const helloSize = 24

// maxExtension is the longest addition of a carrier to a hello, bytes.
const maxExtension = 512

const helloMagic = 0x4C474E52 // "RNGL"

// hello is the first message of each end, before any datagram.
type hello struct {
	version     uint8
	dialler     uint8  // place of the node that dials in its process, see package nodename; an answer leaves it out
	listener    uint8  // place of the node that is dialled in its process; an answer leaves it out
	view        uint64 // number of the set of nodes and of their order
	maxDatagram int    // bytes
	credit      int    // datagrams in flight
	seqWindow   int    // how far sending may run ahead of a repair, datagrams
	carriers    carrierSet
	extension   []byte // of the carrier local: where its memory is
}

// carrierSet has bit c set for each Carrier c that an end accepts; an answer has one bit.
type carrierSet uint8

func newCarrierSet(cs ...Carrier) (s carrierSet) {
	for _, c := range cs {
		s |= 1 << c
	}
	return s
}

func (s carrierSet) contains(c Carrier) bool { return s&(1<<c) != 0 }

// preferred is the carrier that two ends use if both accept the set: a carrier of the same host before one of a
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
	b[4], b[5], b[6], b[7] = h.version, uint8(h.carriers), h.dialler, h.listener
	binary.LittleEndian.PutUint64(b[8:], h.view)
	binary.LittleEndian.PutUint16(b[16:], uint16(h.maxDatagram))
	binary.LittleEndian.PutUint16(b[18:], uint16(h.credit))
	binary.LittleEndian.PutUint16(b[20:], uint16(h.seqWindow))
	binary.LittleEndian.PutUint16(b[22:], uint16(len(h.extension)))
	return append(b, h.extension...)
}

func parseHello(b []byte) (hello, error) {
	if len(b) < 5 || binary.LittleEndian.Uint32(b) != helloMagic {
		return hello{}, fmt.Errorf("the first message of the peer is no hello of Ringlet: " +
			"check which program listens at its address")
	}
	// The version comes before all fields that another version may change.
	h := hello{version: b[4]}
	if h.version != link.Version {
		return h, &link.VersionError{Got: h.version}
	}
	if len(b) < helloSize || len(b)-helloSize > maxExtension ||
		len(b)-helloSize != int(binary.LittleEndian.Uint16(b[22:])) {
		return h, fmt.Errorf("the hello is %d bytes long, but states another length: check whether the peer runs the "+
			"same release", len(b))
	}
	h.carriers, h.dialler, h.listener = carrierSet(b[5]), b[6], b[7]
	h.extension = b[helloSize:]
	h.view = binary.LittleEndian.Uint64(b[8:])
	h.maxDatagram = int(binary.LittleEndian.Uint16(b[16:]))
	h.credit = int(binary.LittleEndian.Uint16(b[18:]))
	h.seqWindow = int(binary.LittleEndian.Uint16(b[20:]))
	return h, nil
}

// negotiate returns a hello with the smaller of both ends' limits, and the carriers that both accept.
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
	if a.credit == 0 || a.seqWindow == 0 { // in a link.Config zero would mean the default
		return a, fmt.Errorf("the hello's credit of %d and sequence window of %d cannot work", a.credit, a.seqWindow)
	}
	if err := (link.Config{MaxDatagram: a.maxDatagram, Credit: a.credit, SeqWindow: a.seqWindow}).Check(); err != nil {
		return a, fmt.Errorf("the hello asks for sizes that cannot work: %w", err)
	}
	return a, nil
}

// RefuseCode says why an acceptor refused a peer; the code is sent to the peer.
type RefuseCode uint64

// Reasons to refuse a peer.
const (
	RefuseVersion  RefuseCode = 1 // another version of the link protocol
	RefuseView     RefuseCode = 2 // another view
	RefuseStranger RefuseCode = 3 // a name that is not in the view, not to link here, or connected already
	RefuseHello    RefuseCode = 4 // a hello that does not parse, or with limits or carriers that cannot work
	RefuseMemory   RefuseCode = 5 // memory that this process cannot map, where both ends accept only the carrier local

	numRefuseCodes = 6
)

func (c RefuseCode) String() string {
	return registry.NameOf(c, "code", "", "version", "view", "stranger", "hello", "memory")
}

// A PeerRefusedError says that a peer refused this node.
type PeerRefusedError struct {
	Peer   string
	Code   RefuseCode
	Reason string
}

func (e *PeerRefusedError) Error() string {
	return fmt.Sprintf("%s refused the connection (%s): %s", e.Peer, e.Code, e.Reason)
}

// A turnedAwayError says that this node refused a peer: the acceptor's side of a PeerRefusedError.
type turnedAwayError struct {
	Peer  string
	Code  RefuseCode
	Cause error
}

func (e *turnedAwayError) Error() string {
	return fmt.Sprintf("turned %s away (%s): %v", e.Peer, e.Code, e.Cause)
}
func (e *turnedAwayError) Unwrap() error { return e.Cause }

// A HandshakeError says that one side rejected the other's certificate; dialling again would fail too.
type HandshakeError struct {
	Peer  string // the name that was dialled
	Addr  string
	Cause error
}

func (e *HandshakeError) Error() string {
	return fmt.Sprintf("%s at %s and this node do not trust each other: %v", e.Peer, e.Addr, e.Cause)
}
func (e *HandshakeError) Unwrap() error { return e.Cause }
