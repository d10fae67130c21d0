package local

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"ringlet/shmem"
	"ringlet/shmem/ring"
	"ringlet/transport/link"
)

// Ring sizes, bytes. 256 KiB hold 8192 placements: more than the builder units of a node have windows open, and a
// fraction of a second-level cache, so that what is read was not yet thrown out of it.
const (
	defaultRing = 256 << 10
	minRing     = 8 << 10 // several of the longest records
	maxRing     = 1 << 30
)

// kind of a record in a mailbox, which is a ring of messages (docs/format/ring.md).
type kind uint8

const (
	kindPlaced     kind = iota + 1 // one placement, the immediate of which is the record's number
	kindPlacedMany                 // placements of pieces, each with its immediate behind it
	kindRefused                    // one placement that the table turned away, and behind it why
	kindSignal
	kindGoodbye
)

const (
	placementSize = 16 // without the immediate
	pieceSize     = placementSize + 8
	refusedSize   = placementSize + 1
	maxPlacements = 64 // placements in a record
	largestRecord = max(maxPlacements*pieceSize, link.MaxSignal)
)

// createMailbox makes the memory that this process receives by.
func createMailbox(name, dir string, size int) (seg *shmem.Segment, in *ring.Consumer, nonce ring.Nonce, err error) {
	_, _ = rand.Read(nonce[:]) // it cannot fail
	settings := ring.Settings{Use: ring.Messages, LargestRecord: largestRecord, Nonce: nonce}
	seg, in, err = ring.Create(name, size, settings, shmem.WithDir(dir))
	return seg, in, nonce, err
}

// openMailbox maps a mailbox that a peer made, to send by. It must hold the given nonce.
func openMailbox(name, dir string, want ring.Nonce) (*shmem.Segment, *ring.Producer, error) {
	seg, err := shmem.Open(name, shmem.WithDir(dir))
	if err != nil {
		return nil, nil, err
	}
	out, err := ring.OpenProducer(name, seg.Bytes())
	if err == nil && out.Nonce() != want {
		err = shmem.ErrOtherTable
	}
	if err != nil {
		_ = seg.Close()
		return nil, nil, err
	}
	return seg, out, nil
}

// placementsSize is how many bytes a record of placements has.
func placementsSize(k kind, n int) int {
	switch k {
	case kindPlacedMany:
		return n * pieceSize
	case kindRefused:
		return refusedSize
	}
	return placementSize
}

// encodePlacements writes placements into a record of that size, and says what its number is.
func encodePlacements(b []byte, k kind, reason uint8, ps []link.Placement) (number uint64) {
	le := binary.LittleEndian
	for i := range ps {
		p := &ps[i]
		le.PutUint64(b, uint64(p.Ref.Gen)<<32|uint64(p.Ref.Window))
		le.PutUint64(b[8:], uint64(p.Length)<<32|uint64(p.Offset))
		switch k {
		case kindPlacedMany:
			le.PutUint64(b[placementSize:], p.Imm)
			b = b[pieceSize:]
			continue
		case kindRefused:
			b[placementSize] = reason
		}
		number = p.Imm
	}
	return number
}

func placementOf(b []byte, imm uint64) link.Placement {
	where, what := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	return link.Placement{
		Ref:    shmem.Ref{Window: uint32(where), Gen: uint32(where >> 32)},
		Offset: uint32(what),
		Length: uint32(what >> 32),
		Imm:    imm,
	}
}

// message is a record out of a mailbox: what the sender does there later changes nothing.
type message struct {
	kind       kind
	reason     uint8
	placements []link.Placement // of kindPlaced and kindRefused one
	signal     []byte
}

// inbox reads a mailbox. It is the receiver's.
type inbox struct {
	*ring.Consumer
	message    message
	placements [maxPlacements]link.Placement
	signal     [link.MaxSignal]byte
}

// next gives the next message; nil means that there is none. It is valid until the next call.
func (i *inbox) next() (*message, error) {
	r, ok, err := i.Next()
	if i.RefusedRecords() > 0 {
		err = errors.New("mailbox: " + i.WhyRefused())
	}
	if !ok || err != nil {
		return nil, err
	}
	return i.decode(r)
}

// decode copies a record out of the ring, and checks it.
func (i *inbox) decode(r ring.Record) (*message, error) {
	m := &i.message
	*m = message{kind: kind(r.Kind)}
	size := len(r.Data)
	switch m.kind {
	case kindGoodbye:
		return m, nil
	case kindSignal:
		if size <= link.MaxSignal {
			m.signal = i.signal[:copy(i.signal[:], r.Data)]
			return m, nil
		}
	case kindPlaced, kindRefused:
		if size == placementsSize(m.kind, 1) {
			m.placements = i.placements[:1]
			m.placements[0] = placementOf(r.Data, r.Number)
			if m.kind == kindRefused {
				m.reason = r.Data[placementSize]
			}
			return m, nil
		}
	case kindPlacedMany:
		if n := size / pieceSize; n*pieceSize == size && n > 0 && n <= maxPlacements {
			m.placements = i.placements[:n]
			for j := range m.placements {
				b := r.Data[j*pieceSize:][:pieceSize]
				m.placements[j] = placementOf(b, binary.LittleEndian.Uint64(b[placementSize:]))
			}
			return m, nil
		}
	}
	return nil, fmt.Errorf("mailbox: a record of kind %d cannot have %d bytes", r.Kind, size)
}
