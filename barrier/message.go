package barrier

import (
	"encoding/binary"
	"fmt"

	"ringlet/internal/registry"
)

// MessageSize is the size of every barrier message on the wire, in bytes.
const MessageSize = 28

// messageVersion is the version that this package writes, and the only one it reads.
const messageVersion = 4

// messageKind is the kind of a message.
type messageKind uint8

const (
	// kindArrive tells the parent that the sender and all ranks below it have entered. In a dissemination it is the signal
	// of a round.
	kindArrive messageKind = 1 + iota
	// kindRelease tells a child that every rank has entered.
	kindRelease
	// kindQuery asks, on behalf of Origin, whether the receiver has entered and which ranks it waits for. It is sent only
	// after a time-out.
	kindQuery
	// kindReply answers a kindQuery with the Status of Rank.
	kindReply
)

// String returns the word for transcripts and errors.
func (k messageKind) String() string {
	return registry.NameOf(k, "message kind", "", "arrive", "release", "query", "reply")
}

// rankStatus is a rank's state in the epoch of a query.
type rankStatus uint8

const (
	// statusAbsent: it has not entered the epoch, so it is a missing rank.
	statusAbsent rankStatus = 1 + iota
	// statusWaiting: it has entered and waits for the rank WaitsFor.
	statusWaiting
	// statusReleased: it has entered and was released.
	statusReleased
	// statusSent: it has entered and has sent its signal to the querying rank; that signal was lost or is on its way.
	// Dissemination only.
	statusSent
)

// String returns the word for transcripts and errors.
func (s rankStatus) String() string {
	return registry.NameOf(s, "standing", "", "absent", "waiting", "left", "sent")
}

// Message is a barrier message. Fields that its kind does not use are zero.
type Message struct {
	Epoch    uint64
	From, To uint16
	Kind     messageKind

	Lag Lag // kindArrive: of the ranks it speaks for; kindRelease: of all ranks

	Origin   uint16     // kindQuery, kindReply: the rank whose time-out is over
	Rank     uint16     // kindReply: the rank whose status it is
	WaitsFor uint16     // kindReply with Status waiting: the rank that Rank waits for
	Status   rankStatus // kindReply
	Path     uint16     // kindQuery, kindReply of a dissemination: see dissemination.go
}

// String is the message's line in a transcript: "3 → 2 arrive 7".
func (m Message) String() string {
	s := fmt.Sprintf("%d → %d %s %d", m.From, m.To, m.Kind, m.Epoch)
	switch m.Kind {
	case kindArrive, kindRelease:
		if m.Lag.AfterFirst > 0 {
			s += fmt.Sprintf(", %d last by %d of %d µs", m.Lag.LastRank, m.Lag.AfterSecondLast, m.Lag.AfterFirst)
		}
	case kindQuery:
		s += fmt.Sprintf(" for %d", m.Origin)
	case kindReply:
		s += fmt.Sprintf(" for %d: %d %s", m.Origin, m.Rank, m.Status)
		if m.Status == statusWaiting {
			s += fmt.Sprintf(" for %d", m.WaitsFor)
		}
	}
	if m.Path != 0 {
		s += fmt.Sprintf(" over %d", m.Path)
	}
	return s
}

// putMessage writes m to the first MessageSize bytes of dst. The layout is docs/format/barrier.md.
func putMessage(dst []byte, m Message) {
	_ = dst[MessageSize-1]
	dst[0] = messageVersion
	dst[1] = byte(m.Kind)
	binary.LittleEndian.PutUint16(dst[2:], m.From)
	binary.LittleEndian.PutUint16(dst[4:], m.To)
	binary.LittleEndian.PutUint64(dst[8:], m.Epoch)
	if m.Kind == kindArrive || m.Kind == kindRelease {
		binary.LittleEndian.PutUint16(dst[6:], m.Lag.LastRank)
		binary.LittleEndian.PutUint32(dst[16:], m.Lag.AfterSecondLast)
		binary.LittleEndian.PutUint32(dst[20:], m.Lag.AfterFirst)
		binary.LittleEndian.PutUint32(dst[24:], m.Lag.MinOffer)
		return
	}
	binary.LittleEndian.PutUint16(dst[6:], m.Origin)
	binary.LittleEndian.PutUint16(dst[16:], m.Rank)
	binary.LittleEndian.PutUint16(dst[18:], m.WaitsFor)
	dst[20], dst[21] = byte(m.Status), 0
	binary.LittleEndian.PutUint16(dst[22:], m.Path)
	binary.LittleEndian.PutUint32(dst[24:], 0)
}

// parseMessage reads the message in b. It is strict: another size or version, an unknown kind or status, or a field set
// that the kind does not use give a *formatError, so every accepted message re-encodes to the same bytes.
func parseMessage(b []byte) (Message, error) {
	if len(b) != MessageSize {
		return Message{}, formatErrorf("is %d bytes long, it must be %d", len(b), MessageSize)
	}
	if b[0] != messageVersion {
		return Message{}, formatErrorf("has version %d, this node speaks version %d", b[0], messageVersion)
	}
	m := Message{
		Kind:  messageKind(b[1]),
		From:  binary.LittleEndian.Uint16(b[2:]),
		To:    binary.LittleEndian.Uint16(b[4:]),
		Epoch: binary.LittleEndian.Uint64(b[8:]),
	}
	if m.Kind == kindArrive || m.Kind == kindRelease {
		m.Lag.LastRank = binary.LittleEndian.Uint16(b[6:])
		m.Lag.AfterSecondLast = binary.LittleEndian.Uint32(b[16:])
		m.Lag.AfterFirst = binary.LittleEndian.Uint32(b[20:])
		m.Lag.MinOffer = binary.LittleEndian.Uint32(b[24:])
		return m, nil
	}
	m.Origin = binary.LittleEndian.Uint16(b[6:])
	m.Rank = binary.LittleEndian.Uint16(b[16:])
	m.WaitsFor = binary.LittleEndian.Uint16(b[18:])
	m.Status = rankStatus(b[20])
	m.Path = binary.LittleEndian.Uint16(b[22:])
	if err := m.check(); err != nil {
		return m, err
	}
	if b[21] != 0 || binary.LittleEndian.Uint32(b[24:]) != 0 {
		return Message{}, formatErrorf("has a set reserved byte")
	}
	return m, nil
}

// check checks the fields of a query or reply against its kind.
func (m Message) check() error {
	switch m.Kind {
	case kindQuery:
		if m.Rank != 0 || m.WaitsFor != 0 || m.Status != 0 {
			return formatErrorf("of kind query carries fields of a reply")
		}
	case kindReply:
		if m.Status < statusAbsent || m.Status > statusSent {
			return formatErrorf("of kind reply has unknown standing %d", uint8(m.Status))
		}
		if m.Status != statusWaiting && m.WaitsFor != 0 {
			return formatErrorf("of kind reply is %s but names a rank it waits for", m.Status)
		}
	default:
		return formatErrorf("has unknown kind %d", uint8(m.Kind))
	}
	return nil
}
