package ejfat

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Sizes of the headers, bytes.
const (
	BalancerSize = 16
	SegmentSize  = 20
	SyncSize     = 28
)

// The constants of the headers.
const (
	balancerMagic   = 0x4C42 // "LB"
	balancerVersion = 2
	slotVersion     = 3 // has a slot in place of version 2's reserved field
	protocolSegment = 1 // next protocol: a segment follows the load balancer's header
	segmentPreamble = 0x1000
	segmentVersion  = 1
	draftVersion    = 2      // version of segments in an older draft
	syncMagic       = 0x4C43 // "LC"
	syncVersion     = 1
)

// The kinds of failure. Each *packetError wraps one of them.
var (
	errTruncated = errors.New("truncated")
	errMagic     = errors.New("wrong magic")
	errVersion   = errors.New("unknown version")
	errDraft     = errors.New("an older draft of EJFAT's segments: let the sender use version 1, as E2SAR does")
	errSize      = errors.New("wrong size")
)

// packetError says which field of a packet is wrong.
type packetError struct {
	Field string // in the words of docs/format/ejfat.md
	Value uint64
	Err   error // the kind
}

// Error is a sentence that names the field and its value.
func (e *packetError) Error() string {
	return fmt.Sprintf("ejfat packet: %s is %d (%#x): %v", e.Field, e.Value, e.Value, e.Err)
}

// Unwrap is the kind.
func (e *packetError) Unwrap() error { return e.Err }

func newPacketError(err error, field string, value uint64) error {
	return &packetError{Field: field, Value: value, Err: err}
}

// Segment is a part of the buffer of one source for one event.
type Segment struct {
	DataID uint16 // of the source
	Offset uint32 // of Data in the buffer, bytes
	Length uint32 // of the whole buffer, bytes
	Event  uint64 // number of the event
	Data   []byte // empty only if the whole buffer is
}

// ParseSegment reads a packet: a segment, with or without a load balancer's header in front. Data is a slice of packet.
// Event is the number in the segment, since the load balancer's header may count microseconds instead. ParseSegment
// checks that the data end within the buffer. The error is a *packetError.
func ParseSegment(packet []byte) (Segment, error) {
	b := packet
	if len(b) >= 2 && binary.BigEndian.Uint16(b) == balancerMagic {
		if err := checkBalancer(b); err != nil {
			return Segment{}, err
		}
		b = b[BalancerSize:]
	}
	if len(b) < SegmentSize {
		return Segment{}, newPacketError(errTruncated, "length of the packet", uint64(len(packet)))
	}
	if v := b[0] >> 4; v != segmentVersion {
		if v == draftVersion {
			return Segment{}, newPacketError(errDraft, "version of the segment", uint64(v))
		}
		return Segment{}, newPacketError(errVersion, "version of the segment", uint64(v))
	}
	s := Segment{
		DataID: binary.BigEndian.Uint16(b[2:]),
		Offset: binary.BigEndian.Uint32(b[4:]),
		Length: binary.BigEndian.Uint32(b[8:]),
		Event:  binary.BigEndian.Uint64(b[12:]),
		Data:   b[SegmentSize:],
	}
	switch {
	case s.Offset > s.Length || uint64(len(s.Data)) > uint64(s.Length-s.Offset):
		return Segment{}, newPacketError(errSize, "offset", uint64(s.Offset))
	case len(s.Data) == 0 && s.Length > 0:
		return Segment{}, newPacketError(errSize, "length of the data", 0)
	}
	return s, nil
}

// checkBalancer checks a load balancer's header.
func checkBalancer(b []byte) error {
	if len(b) < BalancerSize {
		return newPacketError(errTruncated, "length of the packet", uint64(len(b)))
	}
	if v := b[2]; v != balancerVersion && v != slotVersion {
		return newPacketError(errVersion, "version of the load balancer's header", uint64(v))
	}
	if next := b[3]; next != protocolSegment {
		return newPacketError(errVersion, "next protocol", uint64(next))
	}
	return nil
}

// AppendBalancer appends a load balancer's header of version 2. The load balancer sends segments of one entropy to one
// port: give all segments of an event the same one if one thread is to receive them.
func AppendBalancer(b []byte, event uint64, entropy uint16) []byte {
	b = binary.BigEndian.AppendUint16(b, balancerMagic)
	b = append(b, balancerVersion, protocolSegment, 0, 0)
	b = binary.BigEndian.AppendUint16(b, entropy)
	return binary.BigEndian.AppendUint64(b, event)
}

// AppendSegment appends the header of a segment, and its data.
func AppendSegment(b []byte, s Segment) []byte {
	b = binary.BigEndian.AppendUint16(b, segmentPreamble)
	b = binary.BigEndian.AppendUint16(b, s.DataID)
	b = binary.BigEndian.AppendUint32(b, s.Offset)
	b = binary.BigEndian.AppendUint32(b, s.Length)
	b = binary.BigEndian.AppendUint64(b, s.Event)
	return append(b, s.Data...)
}

// Sync is a synchronisation message: how far a source of events is, and how fast.
type Sync struct {
	Source uint32 // id of the source of events
	Event  uint64 // number of the latest event
	Rate   uint32 // events per second
	Time   uint64 // nanoseconds since 1970
}

// IsSync says whether a packet begins as a synchronisation message does.
func IsSync(b []byte) bool { return len(b) >= 2 && binary.BigEndian.Uint16(b) == syncMagic }

// ParseSync reads a synchronisation message. The error is a *packetError.
func ParseSync(b []byte) (Sync, error) {
	switch {
	case len(b) != SyncSize:
		return Sync{}, newPacketError(errTruncated, "length of the message", uint64(len(b)))
	case !IsSync(b):
		return Sync{}, newPacketError(errMagic, "magic", uint64(binary.BigEndian.Uint16(b)))
	case b[2] != syncVersion:
		return Sync{}, newPacketError(errVersion, "version of the message", uint64(b[2]))
	}
	return Sync{
		Source: binary.BigEndian.Uint32(b[4:]),
		Event:  binary.BigEndian.Uint64(b[8:]),
		Rate:   binary.BigEndian.Uint32(b[16:]),
		Time:   binary.BigEndian.Uint64(b[20:]),
	}, nil
}

// AppendSync appends a synchronisation message.
func AppendSync(b []byte, s Sync) []byte {
	b = binary.BigEndian.AppendUint16(b, syncMagic)
	b = append(b, syncVersion, 0)
	b = binary.BigEndian.AppendUint32(b, s.Source)
	b = binary.BigEndian.AppendUint64(b, s.Event)
	b = binary.BigEndian.AppendUint32(b, s.Rate)
	return binary.BigEndian.AppendUint64(b, s.Time)
}
