package quic

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A record is a datagram on a stream: its length, 4 bytes, little-endian, then its bytes.
const recordHeader = 4

// errRecordLength says that a record has an impossible length. The records behind it on the stream are unreadable.
var errRecordLength = errors.New("a record of the stream has an impossible length")

// putRecord writes a record into buf, which must be long enough, and returns its length with the header.
func putRecord(buf, d []byte) int {
	binary.LittleEndian.PutUint32(buf, uint32(len(d)))
	return recordHeader + copy(buf[recordHeader:], d)
}

// readRecord reads the next record into buf, which must have space for the longest one. The error is io.EOF if the
// stream ends between two records. Long records bypass the reader's buffer.
func readRecord(r *bufio.Reader, buf []byte) (int, error) {
	head, err := r.Peek(recordHeader)
	if err != nil {
		if errors.Is(err, io.EOF) && len(head) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return 0, err
	}
	length := binary.LittleEndian.Uint32(head)
	if length == 0 || uint64(length) > uint64(len(buf)) {
		return 0, fmt.Errorf("%w: %d bytes, not 1 to %d", errRecordLength, length, len(buf))
	}
	if _, err := r.Discard(recordHeader); err != nil {
		return 0, err
	}
	if _, err := io.ReadFull(r, buf[:length]); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, err
	}
	return int(length), nil
}
