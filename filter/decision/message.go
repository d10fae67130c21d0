package decision

import (
	"encoding/binary"
	"errors"
	"fmt"

	"ringlet/shmem"
)

// MessageSize is the size of every Message in bytes (docs/format/decision.md).
const MessageSize = 16

// messageVersion is the first byte of a message. Other versions are refused.
const messageVersion = 1

// MessageKind is the second byte of a message.
type MessageKind uint8

// Kinds of messages.
const (
	KindOpen        MessageKind = 1 // of the decision unit, to all: it is there; to a builder unit also its result ring
	KindCredit      MessageKind = 2 // of the decision unit, to a builder unit: how many of its results it has read
	KindTriggered   MessageKind = 3 // of a readout unit, to the decision unit: events below Number are triggered
	KindRequestOpen MessageKind = 4 // of a node that joined later, to the decision unit: asks for Open
	// KindEnd is of a node with units, to the decision unit: the node has sent everything, with Number results in its
	// ring. From the decision unit to a readout unit: Number DecisionMessages were all.
	KindEnd MessageKind = 5
	// of the decision unit, to a readout unit: the head of a DecisionMessage; Number: its first event
	KindDecisions MessageKind = 6
	KindAck       MessageKind = 7 // of a readout unit, to the decision unit: Number messages received since Open
)

// ErrMessage is wrapped by every error of Message.Parse.
var ErrMessage = errors.New("malformed message of a decision unit")

// A Message goes between a decision unit and the other units. Its Kind says which fields are used.
type Message struct {
	Kind         MessageKind
	Epoch        uint8
	Ref          shmem.Ref // of an Open: the builder unit's window; zero for other units
	RingCapacity uint32    // of an Open: results that the ring holds; its window has 16 bytes for each
	Number       uint64    // of all but an Open; 0 of a RequestOpen
}

// Append appends the encoded message to b.
func (m *Message) Append(b []byte) []byte {
	b = append(b, messageVersion, byte(m.Kind), m.Epoch, 0)
	if m.Kind == KindOpen {
		b = binary.LittleEndian.AppendUint32(b, m.Ref.Window)
		b = binary.LittleEndian.AppendUint32(b, m.Ref.Gen)
		return binary.LittleEndian.AppendUint32(b, m.RingCapacity)
	}
	return binary.LittleEndian.AppendUint64(append(b, 0, 0, 0, 0), m.Number)
}

// Parse parses a message. Append encodes an accepted message to the same bytes.
func (m *Message) Parse(b []byte) error {
	switch {
	case len(b) != MessageSize:
		return fmt.Errorf("%w: it has %d bytes, not %d", ErrMessage, len(b), MessageSize)
	case b[0] != messageVersion:
		return fmt.Errorf("%w: it has version %d, and this program %d: run the same release on all nodes", ErrMessage,
			b[0], messageVersion)
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
			return fmt.Errorf("%w: a ring in window %d.%d has %d places: a ring has at most %d, and no window means 0",
				ErrMessage, m.Ref.Window, m.Ref.Gen, m.RingCapacity, maxRingCapacity)
		}
	case KindCredit, KindTriggered, KindRequestOpen, KindEnd, KindDecisions, KindAck:
		*m = Message{Kind: kind, Epoch: b[2], Number: binary.LittleEndian.Uint64(b[8:])}
		if word(4) != 0 || kind == KindRequestOpen && m.Number != 0 {
			return fmt.Errorf("%w: its reserved bytes from 4 on are % x", ErrMessage, b[4:])
		}
	default:
		return fmt.Errorf("%w: kind %d is unknown", ErrMessage, kind)
	}
	return nil
}
