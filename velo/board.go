package velo

import (
	"encoding/binary"
	"fmt"

	"ringlet/event"
)

// The fragment of a board, docs/format/velo.md: a header word, the clusters, two bytes of padding if the number of
// clusters is odd, a trailer word. Little-endian.
const (
	// Version is the version of the format, in the header of MFPs and raw banks.
	Version uint8 = 1
	// BankType is LHCb's type for the data of its first vertex detector.
	BankType event.BankType = 8
	// MaxClusters is how many clusters a fragment can have.
	MaxClusters = 127
	// MaxBoards is how many boards the header can tell apart.
	MaxBoards = 256

	wordBytes   = 4
	headerBytes = wordBytes
	// MinBoardSize and MaxBoardSize are the sizes in bytes of a fragment without clusters, and of the largest.
	MinBoardSize = 2 * wordBytes
	MaxBoardSize = MinBoardSize + (2*MaxClusters+wordBytes-1)&^(wordBytes-1)

	countShift, overflowBit, boardShift = 16, 1 << 23, 24

	boardMarker     = 0xE1
	formatName      = "velo board"
	maxLostClusters = 255
	sumShift        = 16
)

// Board is a view of the fragment of one board. ParseBoard makes valid ones.
type Board []byte

// boardSize is the size in bytes of a fragment with n clusters, a multiple of 4.
func boardSize(n int) int { return MinBoardSize + (2*n+wordBytes-1)&^(wordBytes-1) }

// ParseBoard views a fragment, which must be all of b. It checks the size, the marker, the checksum, that the count of
// lost clusters agrees with the header, and that the clusters ascend, share no strip, and do not reach beyond strip
// 2047. The error is a *event.FormatError of kind ErrTruncated, ErrSize, ErrMagic, ErrChecksum, ErrOrder or ErrRange.
func ParseBoard(b []byte) (Board, error) {
	if len(b) < MinBoardSize {
		return nil, newFormatError(event.ErrTruncated, "header", 0, "%d bytes do not hold header and trailer, which take %d",
			len(b), MinBoardSize)
	}
	head := binary.LittleEndian.Uint32(b)
	n := int(head>>countShift) & MaxClusters
	if want := boardSize(n); len(b) != want {
		kind := event.ErrSize
		if len(b) < want {
			kind = event.ErrTruncated
		}
		return nil, newFormatError(kind, "clusters", 2,
			"%d clusters take %d bytes with header and trailer, the fragment has %d", n,
			want, len(b))
	}
	tail := binary.LittleEndian.Uint32(b[len(b)-wordBytes:])
	if tail&0xFF != boardMarker {
		return nil, newFormatError(event.ErrMagic, "trailer", len(b)-wordBytes, "0x%02X is not 0x%02X", tail&0xFF,
			boardMarker)
	}
	lost := tail >> 8 & 0xFF
	if full := head&overflowBit != 0; full != (lost > 0) || full && n != MaxClusters {
		return nil, newFormatError(event.ErrSize, "lost", len(b)-wordBytes+1,
			"%d clusters were lost, but the header has %d clusters and an overflow bit that is %v", lost, n, full)
	}
	sum, err := checkClusters(b[headerBytes : headerBytes+2*n])
	if err != nil {
		return nil, err
	}
	if sum += uint16(head) + uint16(head>>16) + uint16(lost); sum != uint16(tail>>sumShift) {
		return nil, newFormatError(event.ErrChecksum, "checksum", len(b)-2, "0x%04X is stored, the bytes give 0x%04X",
			tail>>sumShift, sum)
	}
	return Board(b[:len(b):len(b)]), nil
}

// checkClusters checks a list of clusters as ParseBoard says, and returns the sum of its words for the checksum.
func checkClusters(words []byte) (sum uint16, err error) {
	last := -1
	for i := 0; i+2 <= len(words); i += 2 {
		c := Cluster(binary.LittleEndian.Uint16(words[i:]))
		switch {
		case c&zeroBits != 0:
			return 0, newFormatError(event.ErrRange, "cluster", headerBytes+i, "0x%04X has bits that must be zero", uint16(c))
		case c.last() >= MaxStrips:
			return 0, newFormatError(event.ErrRange, "cluster", headerBytes+i, "two strips from %d reach beyond the last, %d",
				c.Strip(), MaxStrips-1)
		case c.Strip() <= last:
			return 0, newFormatError(event.ErrOrder, "cluster", headerBytes+i, "strip %d follows strip %d", c.Strip(), last)
		}
		last = c.last()
		sum += uint16(c)
	}
	return sum, nil
}

// Event is the low 16 bits of the event id.
func (b Board) Event() uint16 { return binary.LittleEndian.Uint16(b) }

// Number is the number of the board.
func (b Board) Number() int { return int(b[3]) }

// NumClusters is the number of clusters.
func (b Board) NumClusters() int { return int(b[2]) & MaxClusters }

// Cluster is cluster i, 0..NumClusters()-1.
func (b Board) Cluster(i int) Cluster {
	return Cluster(binary.LittleEndian.Uint16(b[headerBytes+2*i:]))
}

// LostClusters is how many clusters the board found beyond MaxClusters and left out; 255 stands for 255 or more.
func (b Board) LostClusters() int { return int(b[len(b)-wordBytes+1]) }

// Clusters ranges over the clusters in order.
func (b Board) Clusters() func(yield func(int, Cluster) bool) {
	return func(yield func(int, Cluster) bool) {
		for i := range b.NumClusters() {
			if !yield(i, b.Cluster(i)) {
				return
			}
		}
	}
}

// PutBoard writes the fragment of a board for an event into dst, which must have room for it (MaxBoardSize is always
// enough), and returns its size in bytes. The clusters must be in order. Those beyond MaxClusters are left out; the
// fragment counts them as lost, together with the lost ones that the caller has left out before.
func PutBoard(dst []byte, ev uint16, board int, clusters []Cluster, lost int) int {
	n := min(len(clusters), MaxClusters)
	lost = min(lost+len(clusters)-n, maxLostClusters)
	size := boardSize(n)
	dst = dst[:size:size]
	head := uint32(ev) | uint32(n)<<countShift | uint32(board)<<boardShift
	if lost > 0 {
		head |= overflowBit
	}
	binary.LittleEndian.PutUint32(dst[size-2*wordBytes:], 0) // padding; without clusters it is the header, written below
	sum := uint16(head) + uint16(head>>16) + uint16(lost)
	for i, c := range clusters[:n] {
		binary.LittleEndian.PutUint16(dst[headerBytes+2*i:], uint16(c))
		sum += uint16(c)
	}
	binary.LittleEndian.PutUint32(dst, head)
	binary.LittleEndian.PutUint32(dst[size-wordBytes:], boardMarker|uint32(lost)<<8|uint32(sum)<<sumShift)
	return size
}

// SetEvent changes the event id of a fragment that PutBoard has written, and its checksum.
func SetEvent(b []byte, ev uint16) {
	at := len(b) - 2
	old := binary.LittleEndian.Uint16(b)
	binary.LittleEndian.PutUint16(b, ev)
	binary.LittleEndian.PutUint16(b[at:], binary.LittleEndian.Uint16(b[at:])+ev-old)
}

// newFormatError builds the error of the parser; it is not inlined, to keep the parser small.
//
//go:noinline
func newFormatError(kind error, field string, offset int, reason string, args ...any) error {
	return &event.FormatError{
		Format: formatName,
		Field:  field,
		Reason: fmt.Sprintf(reason, args...),
		Record: event.NoRecord,
		Offset: int64(offset),
		Err:    kind,
	}
}
