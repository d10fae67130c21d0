package recording

import (
	"bufio"
	"errors"
	"fmt"
	"strconv"

	"ringlet/internal/crc32c"
)

// maxLedgerLine bounds a line, in bytes: a segment of a GiB has at most some millions of MEPs, and a line has a bit
// for each and their attempts.
const maxLedgerLine = 64 << 20

// A lineError says that a line of a ledger is longer than Ringlet writes or reads lines.
type lineError struct {
	Path string
	Line int64 // from 1
	Max  int   // bytes
}

func (e *lineError) Error() string {
	return fmt.Sprintf("%s: line %d is longer than %d bytes, and Ringlet writes none that long: no segment is removed or "+
		"drained until the line is repaired", e.Path, e.Line, e.Max)
}

// readLine reads a line with its end. io.EOF says that no whole line is left.
func (l *Ledger) readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		piece, err := r.ReadSlice('\n')
		if len(line)+len(piece) > l.maxLine {
			return nil, &lineError{Path: l.path(), Line: l.lines + 1, Max: l.maxLine}
		}
		line = append(line, piece...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// sumDigits is how many digits of checksum a line begins with.
const sumDigits = 8

// lineText returns the JSON of a line after checking its checksum.
func lineText(line []byte) ([]byte, error) {
	if len(line) <= sumDigits || line[sumDigits] != ' ' {
		return nil, errors.New("a line has no checksum")
	}
	stored, err := strconv.ParseUint(string(line[:sumDigits]), 16, 32)
	text := line[sumDigits+1:]
	if err != nil || uint32(stored) != crc32c.Sum(text) {
		return nil, errors.New("the checksum of a line is wrong")
	}
	return text, nil
}
