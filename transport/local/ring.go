package local

import (
	"encoding/binary"

	"ringlet/shmem"
	"ringlet/transport/link"
)

// The two cores of a door: what may be written where, and what may be believed. Neither waits. Of the words that the
// other process writes each is read once and checked; positions are this side's own.

// kind of a record.
type kind uint8

const (
	kindPlaced  kind = iota + 1 // one placement
	kindMany                    // placements of pieces
	kindRefused                 // one placement that the table turned away, and why
	kindSignal
	kindGoodbye
	kindPad // up to the end of the ring
)

const (
	recordHeader  = 8
	placementSize = 24
	maxMany       = 64 // placements in a record: 1544 bytes
)

// recordSize is the length of a record with n bytes of content.
func recordSize(n int) int { return (recordHeader + n + 7) &^ 7 }

// out is the sender's core of a door.
type out struct {
	*door
	at   uint64 // head as this side knows it: written, perhaps not yet published
	seen uint64 // tail when it was last looked at
	kept uint64 // bytes of room for records of writes that do not wait, and are under way
}

// place finds room for a record with n bytes of content; nil means that the ring is full.
func (o *out) place(k kind, reason uint8, count, n int) ([]byte, error) {
	size := recordSize(n)
	at := int(o.at & uint64(len(o.data)-1))
	need, pad := size, 0
	if rest := len(o.data) - at; rest < size {
		need, pad = size+rest, rest
	}
	if ok, err := o.fits(need); !ok {
		return nil, err
	}
	if pad > 0 {
		putHeader(o.data[at:], kindPad, 0, 0, pad)
		o.at += uint64(pad)
		at = 0
	}
	putHeader(o.data[at:], k, reason, count, size)
	o.at += uint64(size)
	return o.data[at+recordHeader : at+size], nil
}

// fits reports whether so many bytes are free beside those that are kept.
func (o *out) fits(need int) (bool, error) {
	if o.at+uint64(need)+o.kept-o.seen <= uint64(len(o.data)) {
		return true, nil
	}
	if o.seen = o.tail.Load(); o.at-o.seen > uint64(len(o.data)) {
		return false, corrupt(o.name, "position read", o.seen)
	}
	return o.at+uint64(need)+o.kept-o.seen <= uint64(len(o.data)), nil
}

// keepOne is room for a record of one placement, with what may have to be left empty before it at the ring's end.
var keepOne = uint64(2 * recordSize(placementSize))

// keep keeps room for a record of one placement. It reports false when the ring is full.
func (o *out) keep() (bool, error) {
	ok, err := o.fits(int(keepOne))
	if ok {
		o.kept += keepOne
	}
	return ok, err
}

// publish shows the receiver what was placed since the last time.
func (o *out) publish() { o.head.Store(o.at) }

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

// in is the receiver's core of a door.
type in struct {
	*door
	at  uint64 // tail
	end uint64 // head when it was last looked at

	rec    record
	many   [maxMany]link.Placement
	signal [link.MaxSignal]byte
}

// record is a message, out of the ring: what the sender does there later changes nothing.
type record struct {
	kind   kind
	reason uint8
	many   []link.Placement // of kindPlaced and kindRefused one
	signal []byte
}

// waiting reports whether there is something that next has not returned.
func (i *in) waiting() bool { return i.head.Load() != i.at }

// next takes the next record out of the ring; nil means that there is none. It is valid until the next call.
func (i *in) next() (*record, error) {
	for {
		if i.at == i.end {
			if i.end = i.head.Load(); i.at == i.end {
				return nil, nil
			}
			if have := i.end - i.at; have > uint64(len(i.data)) || have%8 != 0 {
				return nil, corrupt(i.name, "position written", i.end)
			}
		}
		at := int(i.at & uint64(len(i.data)-1))
		h := shmem.Word64(i.data, at).Load()
		size, count := int(uint32(h)), int(h>>48)
		content := size - recordHeader
		if size < recordHeader || size%8 != 0 || uint64(size) > i.end-i.at || size > len(i.data)-at {
			return nil, corrupt(i.name, "record's length", h)
		}
		r := &i.rec
		*r = record{kind: kind(h >> 32), reason: uint8(h >> 40)}
		b := i.data[at+recordHeader : at+size]
		i.at += uint64(size)
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
		case kindPlaced, kindMany, kindRefused:
			if count*placementSize == content && count > 0 && count <= maxMany && (count == 1 || r.kind == kindMany) {
				r.many = i.many[:count]
				for j := range r.many {
					getPlacement(b[j*placementSize:], &r.many[j])
				}
				return r, nil
			}
		}
		return nil, corrupt(i.name, "record", h)
	}
}

// taken gives the room of everything read back, and wakes a sender that waits for it.
func (i *in) taken() {
	i.tail.Store(i.at)
	i.room.Wake()
}
