package local

import (
	"encoding/binary"
	"errors"
	"fmt"

	"ringlet/shmem"
	"ringlet/shmem/ring"
)

// maxOffer is the longest offer, bytes.
const maxOffer = 512

const (
	offerVersion = 2 // version 2: mailboxes are rings of records
	offerHeader  = 40
	maxNamesSize = maxOffer - offerHeader
)

// offer says where one end's memory is: its export table and its mailbox for this link. The table's ID and the nonce
// are random and also stand in the memory: by them the peer knows that it has mapped the same memory, and not memory of
// the same name on another host.
type offer struct {
	tableName   string
	tableID     shmem.TableID
	mailboxName string
	nonce       ring.Nonce
}

func (o offer) marshal() []byte {
	b := make([]byte, offerHeader, offerHeader+len(o.tableName)+len(o.mailboxName))
	b[0] = offerVersion
	binary.LittleEndian.PutUint16(b[4:], uint16(len(o.tableName)))
	binary.LittleEndian.PutUint16(b[6:], uint16(len(o.mailboxName)))
	copy(b[8:], o.tableID[:])
	copy(b[24:], o.nonce[:])
	return append(append(b, o.tableName...), o.mailboxName...)
}

// errBadOffer says that an offer cannot be read.
var errBadOffer = errors.New("the peer's offer of its memory")

func parseOffer(b []byte) (o offer, err error) {
	if len(b) == 0 {
		return o, fmt.Errorf("%w is empty", errBadOffer)
	}
	if b[0] != offerVersion {
		return o, fmt.Errorf("%w is of version %d, this node reads %d", errBadOffer, b[0], offerVersion)
	}
	if len(b) < offerHeader || len(b) > maxOffer {
		return o, fmt.Errorf("%w has %d bytes, not %d to %d", errBadOffer, len(b), offerHeader, maxOffer)
	}
	n, m := int(binary.LittleEndian.Uint16(b[4:])), int(binary.LittleEndian.Uint16(b[6:]))
	if n+m != len(b)-offerHeader || b[1]|b[2]|b[3] != 0 {
		return o, fmt.Errorf("%w has %d bytes for two names of %d and %d bytes", errBadOffer, len(b)-offerHeader, n, m)
	}
	o.tableID, o.nonce = shmem.TableID(b[8:24]), ring.Nonce(b[24:40])
	o.tableName, o.mailboxName = string(b[offerHeader:offerHeader+n]), string(b[offerHeader+n:])
	return o, nil
}

// unreachableError says that this process cannot map the peer's memory, so it cannot use the carrier local.
func unreachableError(peer string, err error) error {
	return fmt.Errorf("the memory of %s cannot be reached from this process, so the carrier local cannot be used "+
		"(another host, another /dev/shm, as in another container, or another user; use auto or a network carrier): %w",
		peer, err)
}
