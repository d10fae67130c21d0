package quic

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A record is a datagram on a stream: its length, 4 bytes, little-endian, then as many bytes.
const recordHeader = 4

// errRecordLength is of a length that no record of the stream can have. What follows on the stream cannot be told apart
// any more.
var errRecordLength = errors.New("a record of the stream has an impossible length")

// putRecord puts a record into buf, which has room for it, and returns its length with the header.
func putRecord(buf, d []byte) int {
	binary.LittleEndian.PutUint32(buf, uint32(len(d)))
	return recordHeader + copy(buf[recordHeader:], d)
}

// readRecord reads the next record into buf, whose length is the most that it may have. The error is io.EOF between two
// records. What does not fit the reader's own buffer goes straight into buf.
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
		return 0, fmt.Errorf("%w: of %d bytes, where 1 to %d may come", errRecordLength, length, len(buf))
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
