package decision

import (
	"encoding/binary"
	"errors"
	"fmt"

	"ringlet/shmem"
)

// MessageSize is the size of every message, bytes; docs/format/decision.md draws them.
const MessageSize = 16

// messageVersion is the first byte of a message. Another one is refused.
const messageVersion = 1

// MessageKind is the second byte of a message.
type MessageKind uint8

// Kinds of messages.
const (
	KindOpen        MessageKind = 1 // of the decision unit, to all: it is there; to a builder unit also where its ring is
	KindCredit      MessageKind = 2 // of the decision unit, to a builder unit: how many of its results it has read
	KindTriggered   MessageKind = 3 // of a readout unit, to the decision unit: events below Number are triggered
	KindRequestOpen MessageKind = 4 // of a node that came later, to the decision unit: it is to be told Open
	// KindEnd is of a node with units, to the decision unit: it has told all; so many results it wrote. And of the
	// decision unit, to a readout unit: so many DecisionMessages were all.
	KindEnd MessageKind = 5
	// of the decision unit, to a readout unit: the head of a DecisionMessage; Number: its first event
	KindDecisions MessageKind = 6
	KindAck       MessageKind = 7 // of a readout unit, to the decision unit: so many messages it has heard since Open
)

// ErrMessage is wrapped by every error of Message.Parse.
var ErrMessage = errors.New("malformed message of a decision unit")

// A Message goes between a decision unit and the other units. Its Kind says which fields mean something.
type Message struct {
	Kind         MessageKind
	Epoch        uint8
	Ref          shmem.Ref // of an Open: the builder unit's window; zero for who has none
	RingCapacity uint32    // of an Open: results that the ring holds, so that its window has 16 times as many bytes
	Number       uint64    // of all but an Open; 0 of a RequestOpen
}

// Append writes the message.
func (m *Message) Append(b []byte) []byte {
	b = append(b, messageVersion, byte(m.Kind), m.Epoch, 0)
	if m.Kind == KindOpen {
		b = binary.LittleEndian.AppendUint32(b, m.Ref.Window)
		b = binary.LittleEndian.AppendUint32(b, m.Ref.Gen)
		return binary.LittleEndian.AppendUint32(b, m.RingCapacity)
	}
	return binary.LittleEndian.AppendUint64(append(b, 0, 0, 0, 0), m.Number)
}

// Parse reads a message. What it accepts, Append writes as it was.
func (m *Message) Parse(b []byte) error {
	switch {
	case len(b) != MessageSize:
		return fmt.Errorf("%w: it has %d bytes, not %d", ErrMessage, len(b), MessageSize)
	case b[0] != messageVersion:
		return fmt.Errorf("%w: version %d, this is version %d", ErrMessage, b[0], messageVersion)
	case b[3] != 0:
		return fmt.Errorf("%w: its reserved byte 3 is %d", ErrMessage, b[3])
	}
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	switch kind := MessageKind(b[1]); kind {
	case KindOpen:
		*m = Message{
			Kind:         kind,
			Epoch:        b[2],
			Ref:          shmem.Ref{Window: word(4), Gen: word(8)},
			RingCapacity: word(12),
		}
		if m.RingCapacity > maxRingCapacity || (m.RingCapacity == 0) != (m.Ref == shmem.Ref{}) {
			return fmt.Errorf("%w: window %d.%d with %d places", ErrMessage, m.Ref.Window, m.Ref.Gen, m.RingCapacity)
		}
	case KindCredit, KindTriggered, KindRequestOpen, KindEnd, KindDecisions, KindAck:
		*m = Message{Kind: kind, Epoch: b[2], Number: binary.LittleEndian.Uint64(b[8:])}
		if word(4) != 0 || kind == KindRequestOpen && m.Number != 0 {
			return fmt.Errorf("%w: its reserved bytes from 4 on are % x", ErrMessage, b[4:])
		}
	default:
		return fmt.Errorf("%w: kind %d", ErrMessage, kind)
	}
	return nil
}
