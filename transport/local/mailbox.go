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

// Ring sizes, bytes. 256 KiB hold 8192 placements: more than a node's builder units have windows open. It is a fraction
// of a second-level cache, so that records are read before the cache has dropped them.
const (
	defaultRing = 256 << 10
	minRing     = 8 << 10 // several times the longest record
	maxRing     = 1 << 30
)

// kind of a record in a mailbox (docs/format/ring.md).
type kind uint8

const (
	kindPlaced     kind = iota + 1 // one placement; its immediate is the record's number
	kindPlacedMany                 // placements of pieces, each followed by its immediate
	kindRefused                    // one placement that the export table refused, followed by the reason
	kindSignal
	kindGoodbye
)

const (
	placementSize = 16 // without the immediate
	pieceSize     = placementSize + 8
	refusedSize   = placementSize + 1
	maxPlacements = 64 // placements that a record may have
	largestRecord = max(maxPlacements*pieceSize, link.MaxSignal)
)

// createMailbox makes this process's mailbox.
func createMailbox(name, dir string, size int) (seg *shmem.Segment, in *ring.Consumer, nonce ring.Nonce, err error) {
	_, _ = rand.Read(nonce[:]) // rand.Read never fails
	settings := ring.Settings{Use: ring.Messages, LargestRecord: largestRecord, Nonce: nonce}
	seg, in, err = ring.Create(name, size, settings, shmem.WithDir(dir))
	return seg, in, nonce, err
}

// openMailbox maps a mailbox that the peer has made. It must contain the given nonce.
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

// placementsSize is the size of a record with n placements, bytes.
func placementsSize(k kind, n int) int {
	switch k {
	case kindPlacedMany:
		return n * pieceSize
	case kindRefused:
		return refusedSize
	}
	return placementSize
}

// encodePlacements writes placements into a record of placementsSize bytes, and returns the record's number.
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

// message is a copy of a record, so that the sender can no longer change it.
type message struct {
	kind       kind
	reason     uint8
	placements []link.Placement // one for kindPlaced and kindRefused
	signal     []byte
}

// inbox reads a mailbox; the receiver owns it.
type inbox struct {
	*ring.Consumer
	message    message
	placements [maxPlacements]link.Placement
	signal     [link.MaxSignal]byte
}

// next returns the next message, or nil if there is none. It is valid until the next call.
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

// decode checks a record and copies it out of the ring.
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
