package link

import (
	"encoding/binary"
	"fmt"

	"ringlet/shmem"
)

// Version is the version of the link protocol. It is the first byte of every datagram and part of the hello; a peer
// with another version is refused.
const Version = 5

// A datagram belongs to one of two packet number spaces, or is an ack. The spaces have numbers and credits of their
// own, so that requests cannot hold up the responses that would free their places (SCI-bridge §II.B.1).
const (
	spaceRequests  = 0 // remote writes
	spaceResponses = 1 // signals, completions, refusals
	numSpaces      = 2
	kindAck        = 2 // without a number: what has arrived, and the credit
	kindFragment   = 3 // a fragment of a numbered datagram
)

// Frame types. docs/format/wire.md lists them.
const (
	framePad     = 0
	frameWrite   = 1
	frameSignal  = 2
	frameDone    = 3
	frameRefused = 4
	frameScatter = 5
	frameAck     = 6
)

// Sizes of the fixed parts, bytes.
const (
	headerSize      = 8
	writeHeaderSize = 36
	signalHeader    = 8
	doneSize        = 8
	refusedSize     = 8
	scatterHeader   = 8
	pieceHeader     = 24
	ackFrameHeader  = 4
	fragmentHeader  = headerSize + 8 // with the datagram's header
)

// MaxSignal is the longest payload of a signal, bytes.
const MaxSignal = 1024

// MinDatagram is the smallest size that a carrier's datagrams must allow, bytes: a signal of full length, or an ack.
const MinDatagram = headerSize + signalHeader + MaxSignal

const (
	flagDmove        = 1 << 0
	flagImmediateAck = 1 << 7 // in the byte of a datagram's kind
)

// malformedError says that a datagram does not parse. The bytes from the offset on had no effect.
func malformedError(at int, why string) error {
	return fmt.Errorf("link datagram is malformed at byte %d: %s", at, why)
}

// header is the first 8 bytes of every datagram.
type header struct {
	kind         uint8
	immediateAck bool // the sender cannot go on before an ack
	view         uint16
	seq          uint32
}

func putHeader(b []byte, h header) {
	b[0] = Version
	b[1] = h.kind
	if h.immediateAck {
		b[1] |= flagImmediateAck
	}
	binary.LittleEndian.PutUint16(b[2:], h.view)
	binary.LittleEndian.PutUint32(b[4:], h.seq)
}

// IsUrgent reports whether a datagram that Next has built contains only what others wait for: an ack, responses,
// signals. It may overtake other datagrams.
func IsUrgent(d []byte) bool { return d[1]&^flagImmediateAck != spaceRequests }

func parseHeader(b []byte) (header, error) {
	if len(b) < headerSize {
		return header{}, malformedError(len(b), "shorter than a header")
	}
	if b[0] != Version {
		return header{}, &VersionError{Got: b[0]}
	}
	h := header{
		kind:         b[1] &^ flagImmediateAck,
		immediateAck: b[1]&flagImmediateAck != 0,
		view:         binary.LittleEndian.Uint16(b[2:]),
		seq:          binary.LittleEndian.Uint32(b[4:]),
	}
	if h.kind > kindFragment {
		return header{}, malformedError(1, "unknown kind of datagram")
	}
	return h, nil
}

// writeFrame is one chunk of a remote write. Every chunk has all that its placing needs, so chunks may arrive in any
// order.
type writeFrame struct {
	flags             uint8
	tx                uint32
	ref               shmem.Ref
	transactionOffset uint32 // of the transaction's first byte in the window
	transactionSize   uint32 // bytes of the transaction
	chunk             uint16
	imm               uint64
	data              []byte
}

func (f *writeFrame) isDmove() bool { return f.flags&flagDmove != 0 }

// placement is the range of the whole transaction.
func (f *writeFrame) placement() Placement {
	return Placement{f.ref, f.transactionOffset, f.transactionSize, f.imm}
}

func putWriteHeader(b []byte, f *writeFrame, n int) {
	_ = b[writeHeaderSize-1]
	b[0] = frameWrite
	b[1] = f.flags
	binary.LittleEndian.PutUint16(b[2:], uint16(n))
	binary.LittleEndian.PutUint32(b[4:], f.tx)
	binary.LittleEndian.PutUint32(b[8:], f.ref.Window)
	binary.LittleEndian.PutUint32(b[12:], f.ref.Gen)
	binary.LittleEndian.PutUint32(b[16:], f.transactionOffset)
	binary.LittleEndian.PutUint32(b[20:], f.transactionSize)
	binary.LittleEndian.PutUint16(b[24:], f.chunk)
	binary.LittleEndian.PutUint16(b[26:], 0)
	binary.LittleEndian.PutUint64(b[28:], f.imm)
}

func refAt(b []byte) shmem.Ref {
	return shmem.Ref{Window: binary.LittleEndian.Uint32(b), Gen: binary.LittleEndian.Uint32(b[4:])}
}

// BulkHeaderSize is the length of a datagram with one full chunk, without the chunk's bytes.
const BulkHeaderSize = headerSize + writeHeaderSize

// parseWrite reads the write frame at b[0:] and returns its length. chunkSize is the agreed size of a full chunk.
func parseWrite(b []byte, chunkSize int, f *writeFrame) (int, string) {
	if len(b) < writeHeaderSize {
		return 0, "a write's header is cut off"
	}
	n := int(binary.LittleEndian.Uint16(b[2:]))
	if writeHeaderSize+n > len(b) {
		return 0, "a write's data is cut off"
	}
	if why := parseWriteHead(b, chunkSize, n, f); why != "" {
		return 0, why
	}
	f.data = b[writeHeaderSize : writeHeaderSize+n]
	return writeHeaderSize + n, ""
}

// parseWriteHead reads the header of a write frame with n bytes of data.
func parseWriteHead(b []byte, chunkSize, n int, f *writeFrame) string {
	if int(binary.LittleEndian.Uint16(b[2:])) != n {
		return "a write's data is cut off"
	}
	f.flags = b[1]
	f.tx = binary.LittleEndian.Uint32(b[4:])
	f.ref = refAt(b[8:])
	f.transactionOffset = binary.LittleEndian.Uint32(b[16:])
	f.transactionSize = binary.LittleEndian.Uint32(b[20:])
	f.chunk = binary.LittleEndian.Uint16(b[24:])
	f.imm = binary.LittleEndian.Uint64(b[28:])
	chunks := chunkCount(int(f.transactionSize), chunkSize)
	if chunks > maxChunks || int(f.chunk) >= chunks {
		return "a write's chunk lies beyond its transaction"
	}
	if uint64(f.transactionOffset)+uint64(f.transactionSize) > 1<<32 {
		return "a write reaches past 4 GiB"
	}
	if want := chunkLen(int(f.transactionSize), chunkSize, int(f.chunk)); n != want {
		return fmt.Sprintf("chunk %d of a write of %d bytes is %d bytes, not %d", f.chunk, f.transactionSize, n, want)
	}
	return ""
}

// chunkCount is the number of chunks of a transaction; one without bytes has one chunk, so that it can be placed and
// answered.
func chunkCount(total, chunkSize int) int { return max(1, (total+chunkSize-1)/chunkSize) }

func chunkLen(total, chunkSize, chunk int) int { return min(chunkSize, total-chunk*chunkSize) }

// spaceAckHeader is the length of the fixed part of one space's ack: next (all datagrams below have arrived), limit
// (datagrams with numbers below may be sent), the number of 64-bit words of the bitmap that follows (bit i: next+i has
// arrived), and the count of duplicates.
const spaceAckHeader = 12

func putSpaceAck(b []byte, next, limit uint32, words int, duplicates uint16) {
	binary.LittleEndian.PutUint32(b[0:], next)
	binary.LittleEndian.PutUint32(b[4:], limit)
	binary.LittleEndian.PutUint16(b[8:], uint16(words))
	binary.LittleEndian.PutUint16(b[10:], duplicates)
}

// ackFrameSize is the length of an ack that travels with other frames: both spaces, without bitmaps.
const ackFrameSize = ackFrameHeader + numSpaces*spaceAckHeader

// parseDuplicates returns the count of duplicates in a space's ack.
func parseDuplicates(space []byte) uint16 { return binary.LittleEndian.Uint16(space[10:]) }

// parseSpaceAck returns the parts of one space's ack, and the bytes behind it.
func parseSpaceAck(b []byte) (next, limit uint32, bitmap, rest []byte, ok bool) {
	if len(b) < spaceAckHeader {
		return 0, 0, nil, nil, false
	}
	n := 8 * int(binary.LittleEndian.Uint16(b[8:]))
	if len(b) < spaceAckHeader+n {
		return 0, 0, nil, nil, false
	}
	next, limit = binary.LittleEndian.Uint32(b[0:]), binary.LittleEndian.Uint32(b[4:])
	return next, limit, b[spaceAckHeader : spaceAckHeader+n], b[spaceAckHeader+n:], true
}

func putSignal(b []byte, seq uint32, p []byte) int {
	b[0], b[1] = frameSignal, 0
	binary.LittleEndian.PutUint16(b[2:], uint16(len(p)))
	binary.LittleEndian.PutUint32(b[4:], seq)
	return signalHeader + copy(b[signalHeader:], p)
}

// putResponse writes a completion or a refusal.
func putResponse(b []byte, it sentFrame) int {
	b[0], b[1], b[2], b[3] = it.kind, uint8(it.chunk), 0, 0
	binary.LittleEndian.PutUint32(b[4:], it.id)
	return doneSize
}

func putScatterHeader(b []byte, tx uint32, pieces int) {
	b[0], b[1] = frameScatter, 0
	binary.LittleEndian.PutUint16(b[2:], uint16(pieces))
	binary.LittleEndian.PutUint32(b[4:], tx)
}

func putPiece(b []byte, p *Piece) int {
	binary.LittleEndian.PutUint32(b[0:], p.Ref.Window)
	binary.LittleEndian.PutUint32(b[4:], p.Ref.Gen)
	binary.LittleEndian.PutUint64(b[8:], p.Imm)
	binary.LittleEndian.PutUint16(b[16:], uint16(len(p.Data)))
	binary.LittleEndian.PutUint16(b[18:], 0)
	binary.LittleEndian.PutUint32(b[20:], p.Offset)
	return pieceHeader + copy(b[pieceHeader:], p.Data)
}

// parsePiece reads the piece at b[0:]; its Data lies in b. It returns the piece's length, or 0 if the piece is cut off.
func parsePiece(b []byte, p *Piece) int {
	if len(b) < pieceHeader {
		return 0
	}
	n := pieceHeader + int(binary.LittleEndian.Uint16(b[16:]))
	if n > len(b) {
		return 0
	}
	p.Ref = refAt(b)
	p.Imm = binary.LittleEndian.Uint64(b[8:])
	p.Offset = binary.LittleEndian.Uint32(b[20:])
	p.Data = b[pieceHeader:n]
	return n
}

// FirstTarget returns the first window that a datagram writes to; ok is false if it writes to none, or does not parse.
func FirstTarget(d []byte) (r shmem.Ref, ok bool) {
	if h, err := parseHeader(d); err != nil || h.kind != spaceRequests {
		return r, false
	}
	off := headerSize
	if off < len(d) && d[off] == frameAck {
		off += ackFrameSize
	}
	var p Piece
	switch b := d[min(off, len(d)):]; {
	case len(b) >= writeHeaderSize && b[0] == frameWrite:
		return refAt(b[8:]), true
	case len(b) >= scatterHeader && b[0] == frameScatter && parsePiece(b[scatterHeader:], &p) > 0:
		return p.Ref, true
	}
	return r, false
}

// scatterSize is the length of the scatter frame at b[0:], or 0 if it is cut off or has no pieces.
func scatterSize(b []byte) int {
	if len(b) < scatterHeader {
		return 0
	}
	n := scatterHeader
	pieces := int(binary.LittleEndian.Uint16(b[2:]))
	var p Piece
	for range pieces {
		m := parsePiece(b[n:], &p)
		if m == 0 {
			return 0
		}
		n += m
	}
	if pieces == 0 {
		return 0
	}
	return n
}

// fragmentFrame is a fragment of a datagram.
type fragmentFrame struct {
	space        uint8
	index, count int
	datagramSize int // bytes of the whole datagram
	data         []byte
}

// fragmentSize is the number of bytes in each fragment but the last.
func fragmentSize(total, count int) int { return (total + count - 1) / count }

func putFragmentHeader(b []byte, space uint8, index, count, total int) {
	b[0], b[1], b[2], b[3] = space, uint8(index), uint8(count), 0
	binary.LittleEndian.PutUint16(b[4:], uint16(total))
	b[6], b[7] = 0, 0
}

// parseFragment reads a fragment of a datagram of at most most bytes. It drops padding behind the fragment.
func parseFragment(d []byte, most int) (f fragmentFrame, why string) {
	if len(d) <= fragmentHeader {
		return f, "a fragment is cut off"
	}
	b := d[headerSize:]
	f.space, f.index, f.count = b[0], int(b[1]), int(b[2])
	f.datagramSize = int(binary.LittleEndian.Uint16(b[4:]))
	if f.space >= numSpaces || f.count < 1 || f.count > maxFragments || f.index >= f.count ||
		f.datagramSize < headerSize || f.datagramSize > most {
		return f, "a fragment whose datagram cannot exist"
	}
	at := f.index * fragmentSize(f.datagramSize, f.count)
	n := min(fragmentSize(f.datagramSize, f.count), f.datagramSize-at)
	if n <= 0 || fragmentHeader+n > len(d) {
		return f, "a fragment is cut off"
	}
	f.data = d[fragmentHeader : fragmentHeader+n]
	return f, ""
}

// A VersionError says that a peer has another version of the link protocol.
type VersionError struct{ Got uint8 }

func (e *VersionError) Error() string {
	return fmt.Sprintf("peer speaks link protocol version %d, this node speaks %d: run the same release on every node",
		e.Got, Version)
}
