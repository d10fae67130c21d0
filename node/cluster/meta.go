package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hashicorp/memberlist"
)

// protocolVersion is the version of everything that Ringlet's nodes send each other: metadata, gRPC services, wire
// header. Nodes of different versions do not form a cluster. Raise it with any change that an older node would misread.
const protocolVersion uint16 = 1

// Roles is a set of roles that a member can have.
type Roles uint8

// The roles.
const (
	Control Roles = 1 << iota // runs TagNet and the run control
	Readout                   // can hold a readout unit
	Builder                   // can hold a builder unit
	Spare                     // holds units only in place of a lost member, or of one that they are taken from

	allRoles = Control | Readout | Builder | Spare
)

// words are the words for the roles of a node.
var words = []struct {
	word  string
	roles Roles
}{{"ru", Readout}, {"bu", Builder}, {"both", Readout | Builder}, {"spare", Readout | Builder | Spare}}

// ParseRole reads the word for the role of a node: ru, bu, both or spare. It returns 0 for any other text.
func ParseRole(word string) Roles {
	for _, w := range words {
		if w.word == word {
			return w.roles
		}
	}
	return 0
}

// Word is the word for the role of a node: ru, bu, both or spare; for other roles it is String.
func (r Roles) Word() string {
	for _, w := range words {
		if w.roles == r {
			return w.word
		}
	}
	return r.String()
}

// Contains tells whether all roles of want are in r.
func (r Roles) Contains(want Roles) bool { return r&want == want }

// CanHold tells whether a member can hold these units.
func (r Roles) CanHold(readout, builder bool) bool {
	return (!readout || r.Contains(Readout)) && (!builder || r.Contains(Builder))
}

// HoldsUnit tells whether a member can hold a unit of either kind.
func (r Roles) HoldsUnit() bool { return r.Contains(Readout) || r.Contains(Builder) }

func (r Roles) String() string {
	s := ""
	for i, name := range []string{"control", "readout", "builder", "spare"} {
		if r&(1<<i) != 0 {
			if s != "" {
				s += "+"
			}
			s += name
		}
	}
	if s == "" {
		return "none"
	}
	return s
}

// Meta is the metadata that a member announces.
type Meta struct {
	Protocol uint16 // 0 = protocolVersion, for Open
	Roles    Roles
	GRPCAddr string // host:port of its gRPC services
	QUICAddr string // host:port of its data socket, UDP
	Version  string // release of Ringlet that the node runs
}

// The form on the wire (docs/design/007-membership-and-identity.md):
//
//	u8 'R' · u8 form, 1 · u16 protocol, little-endian · u8 roles · 3 × (u8 length · text): gRPC, QUIC, version
const (
	metaMagic       = 'R'
	metaFormVersion = 1
	metaFixedBytes  = 5
)

// Errors of decoding.
var (
	errMeta     = errors.New("not the metadata of a ringlet node")
	errProtocol = errors.New("another protocol version: run the same release on all nodes")
)

// appendTo appends the wire form. It fails if the texts are too long for the 512 bytes that gossip carries.
func (m Meta) appendTo(dst []byte) ([]byte, error) {
	start := len(dst)
	dst = append(dst, metaMagic, metaFormVersion)
	dst = binary.LittleEndian.AppendUint16(dst, m.Protocol)
	dst = append(dst, byte(m.Roles))
	for _, s := range []string{m.GRPCAddr, m.QUICAddr, m.Version} {
		if len(s) > 255 {
			return nil, fmt.Errorf("metadata: %.20q… is longer than 255 bytes", s)
		}
		dst = append(append(dst, byte(len(s))), s...)
	}
	if n := len(dst) - start; n > memberlist.MetaMaxSize {
		return nil, fmt.Errorf("metadata of %d bytes is longer than the %d that gossip carries", n, memberlist.MetaMaxSize)
	}
	return dst, nil
}

// decodeMeta decodes the wire form. Magic, form and protocol never change their places. The rest is decoded only if the
// protocol is this node's own; with errProtocol only Protocol is set.
func decodeMeta(b []byte, version uint16) (Meta, error) {
	if len(b) < metaFixedBytes || b[0] != metaMagic {
		return Meta{}, fmt.Errorf("%w: %d bytes beginning with %x", errMeta, len(b), b[:min(len(b), 2)])
	}
	m := Meta{Protocol: binary.LittleEndian.Uint16(b[2:])}
	if m.Protocol != version {
		return m, fmt.Errorf("%w: %d, this node speaks %d", errProtocol, m.Protocol, version)
	}
	if b[1] != metaFormVersion {
		return m, fmt.Errorf("%w: form %d, this node reads %d", errMeta, b[1], metaFormVersion)
	}
	m.Roles = Roles(b[4])
	if m.Roles&^allRoles != 0 || m.Roles.Contains(Spare) && !m.Roles.HoldsUnit() {
		return m, fmt.Errorf("%w: roles %#x", errMeta, b[4])
	}
	rest := b[metaFixedBytes:]
	for _, s := range []*string{&m.GRPCAddr, &m.QUICAddr, &m.Version} {
		if len(rest) == 0 || len(rest) < 1+int(rest[0]) {
			return m, fmt.Errorf("%w: a text runs past the end of %d bytes", errMeta, len(b))
		}
		*s, rest = string(rest[1:1+int(rest[0])]), rest[1+int(rest[0]):]
	}
	if len(rest) != 0 {
		return m, fmt.Errorf("%w: %d bytes behind the end", errMeta, len(rest))
	}
	return m, nil
}
