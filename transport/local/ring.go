package local

import (
	"encoding/binary"

	"ringlet/shmem"
	"ringlet/transport/link"
)

// The two cores of a mailbox: what may be written where, and what may be believed. Neither waits. Of the words that the
// other process writes each is read once and checked; positions are this side's own.

// kind of a record.
type kind uint8

const (
	kindPlaced     kind = iota + 1 // one placement
	kindPlacedMany                 // placements of pieces
	kindRefused                    // one placement that the table turned away, and why
	kindSignal
	kindGoodbye
	kindPad // up to the end of the ring
)

const (
	recordHeader  = 8
	placementSize = 24
	maxPlacements = 64 // placements in a record: 1544 bytes
)

// recordSize is the length of a record with n bytes of content.
func recordSize(n int) int { return (recordHeader + n + 7) &^ 7 }

// mailboxWriter is the sender's core of a mailbox.
type mailboxWriter struct {
	*mailbox
	pos           uint64 // head as this side knows it: written, perhaps not yet published
	tailSeen      uint64 // tail when it was last looked at
	reservedBytes uint64 // bytes of room for records of writes that do not wait, and are under way
}

// allocate finds room for a record with n bytes of content; nil means that the ring is full.
func (o *mailboxWriter) allocate(k kind, reason uint8, count, n int) ([]byte, error) {
	size := recordSize(n)
	at := int(o.pos & uint64(len(o.data)-1))
	need, pad := size, 0
	if rest := len(o.data) - at; rest < size {
		need, pad = size+rest, rest
	}
	if ok, err := o.hasSpace(need); !ok {
		return nil, err
	}
	if pad > 0 {
		putHeader(o.data[at:], kindPad, 0, 0, pad)
		o.pos += uint64(pad)
		at = 0
	}
	putHeader(o.data[at:], k, reason, count, size)
	o.pos += uint64(size)
	return o.data[at+recordHeader : at+size], nil
}

// hasSpace reports whether so many bytes are free beside those that are kept.
func (o *mailboxWriter) hasSpace(need int) (bool, error) {
	if o.pos+uint64(need)+o.reservedBytes-o.tailSeen <= uint64(len(o.data)) {
		return true, nil
	}
	if o.tailSeen = o.tail.Load(); o.pos-o.tailSeen > uint64(len(o.data)) {
		return false, corruptError(o.name, "position read", o.tailSeen)
	}
	return o.pos+uint64(need)+o.reservedBytes-o.tailSeen <= uint64(len(o.data)), nil
}

// reservationSize is room for a record of one placement, with what may have to be left empty before it at the ring's
// end.
var reservationSize = uint64(2 * recordSize(placementSize))

// reserve keeps room for a record of one placement. It reports false when the ring is full.
func (o *mailboxWriter) reserve() (bool, error) {
	ok, err := o.hasSpace(int(reservationSize))
	if ok {
		o.reservedBytes += reservationSize
	}
	return ok, err
}

// publish shows the receiver what was placed since the last time.
func (o *mailboxWriter) publish() { o.head.Store(o.pos) }

func putHeader(b []byte, k kind, reason uint8, count, size int) {
	binary.LittleEndian.PutUint64(b, uint64(size)|uint64(k)<<32|uint64(reason)<<40|uint64(count)<<48)
}

func putPlacement(b []byte, p *link.Placement) {
	_ = b[placementSize-1]
	binary.LittleEndian.PutUint32(b[0:], p.Ref.Window)
	binary.LittleEndian.PutUint32(b[4:], p.Ref.Gen)
	binary.LittleEndian.PutUint32(b[8:], p.Offset)
	binary.LittleEndian.PutUint32(b[12:], p.Length)
	binary.LittleEndian.PutUint64(b[16:], p.Imm)
}

func getPlacement(b []byte, p *link.Placement) {
	_ = b[placementSize-1]
	p.Ref = shmem.Ref{Window: binary.LittleEndian.Uint32(b[0:]), Gen: binary.LittleEndian.Uint32(b[4:])}
	p.Offset, p.Length = binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])
	p.Imm = binary.LittleEndian.Uint64(b[16:])
}

// mailboxReader is the receiver's core of a mailbox.
type mailboxReader struct {
	*mailbox
	pos      uint64 // tail
	headSeen uint64 // head when it was last looked at

	rec        record
	placements [maxPlacements]link.Placement
	signal     [link.MaxSignal]byte
}

// record is a message, out of the ring: what the sender does there later changes nothing.
type record struct {
	kind       kind
	reason     uint8
	placements []link.Placement // of kindPlaced and kindRefused one
	signal     []byte
}

// hasRecord reports whether there is something that next has not returned.
func (i *mailboxReader) hasRecord() bool { return i.head.Load() != i.pos }

// next takes the next record out of the ring; nil means that there is none. It is valid until the next call.
func (i *mailboxReader) next() (*record, error) {
	for {
		if i.pos == i.headSeen {
			if i.headSeen = i.head.Load(); i.pos == i.headSeen {
				return nil, nil
			}
			if have := i.headSeen - i.pos; have > uint64(len(i.data)) || have%8 != 0 {
				return nil, corruptError(i.name, "position written", i.headSeen)
			}
		}
		at := int(i.pos & uint64(len(i.data)-1))
		h := shmem.Word64(i.data, at).Load()
		size, count := int(uint32(h)), int(h>>48)
		content := size - recordHeader
		if size < recordHeader || size%8 != 0 || uint64(size) > i.headSeen-i.pos || size > len(i.data)-at {
			return nil, corruptError(i.name, "record's length", h)
		}
		r := &i.rec
		*r = record{kind: kind(h >> 32), reason: uint8(h >> 40)}
		b := i.data[at+recordHeader : at+size]
		i.pos += uint64(size)
		switch r.kind {
		case kindPad:
			continue
		case kindGoodbye:
			return r, nil
		case kindSignal:
			if count <= content && count <= link.MaxSignal {
				r.signal = i.signal[:copy(i.signal[:], b[:count])]
				return r, nil
			}
		case kindPlaced, kindPlacedMany, kindRefused:
			if count*placementSize == content && count > 0 && count <= maxPlacements &&
				(count == 1 || r.kind == kindPlacedMany) {
				r.placements = i.placements[:count]
				for j := range r.placements {
					getPlacement(b[j*placementSize:], &r.placements[j])
				}
				return r, nil
			}
		}
		return nil, corruptError(i.name, "record", h)
	}
}

// release gives the room of everything read back, and wakes a sender that waits for it.
func (i *mailboxReader) release() {
	i.tail.Store(i.pos)
	i.freedBell.Wake()
}
