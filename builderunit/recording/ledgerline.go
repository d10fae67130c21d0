package recording

import (
	"bufio"
	"errors"
	"fmt"
	"strconv"

	"ringlet/internal/crc32c"
)

// maxLine bounds a line, in bytes: a segment of a GiB has some millions of MEPs at most, a bit each and their attempts.
const maxLine = 64 << 20

// A lineError says that a line of a ledger is longer than Ringlet writes or reads one.
type lineError struct {
	Path string
	Line int64 // from 1
	Most int   // bytes
}

func (e *lineError) Error() string {
	return fmt.Sprintf("%s: line %d is longer than %d bytes, and Ringlet writes none that long: nothing is removed, and "+
		"nothing drained, until the line is put right", e.Path, e.Line, e.Most)
}

// line reads a line with its end. io.EOF says that there is no whole one.
func (l *Ledger) line(r *bufio.Reader) (line []byte, err error) {
	for {
		piece, err := r.ReadSlice('\n')
		if len(line)+len(piece) > l.maxLine {
			return nil, &lineError{Path: l.path(), Line: l.lines + 1, Most: l.maxLine}
		}
		line = append(line, piece...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// sumDigits is how many digits stand before a line.
const sumDigits = 8

// textOf is the JSON of a line, which its checksum proves.
func textOf(line []byte) ([]byte, error) {
	if len(line) <= sumDigits || line[sumDigits] != ' ' {
		return nil, errors.New("a line has no checksum")
	}
	said, err := strconv.ParseUint(string(line[:sumDigits]), 16, 32)
	text := line[sumDigits+1:]
	if err != nil || uint32(said) != crc32c.Sum(text) {
		return nil, errors.New("the checksum of a line is wrong")
	}
	return text, nil
}
