package lineserver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"ringlet/event/slowdata"
)

const (
	// maxBatch is how many lines are dealt with together.
	maxBatch = 256
	// maxRate is how many lines a second one sender may send in the long run; beyond it, the server reads no faster.
	maxRate = 1000
	// answerTimeout is how long a sender may take to read answers before its connection ends.
	answerTimeout = 10 * time.Second
)

// sender is the connection of one sender.
type sender struct {
	conn    net.Conn
	lines   *bufio.Reader
	answers *bufio.Writer
	count   uint64 // lines read so far
}

func newSender(c net.Conn) *sender {
	return &sender{conn: c, lines: bufio.NewReaderSize(c, 2*slowdata.MaxLine), answers: bufio.NewWriter(c)}
}

// batch is lines that are dealt with together.
type batch struct {
	values  []slowdata.Value
	numbers []uint64 // of the line of each value
	refused []string // answers to lines that are no values
	last    bool     // the connection has ended
}

// serve deals with lines until the connection ends or ctx does.
func (s *sender) serve(
	ctx context.Context, keep func(context.Context, []slowdata.Value) []error, pause func(time.Duration),
) {
	for ctx.Err() == nil {
		from := s.count
		b := s.read()
		if s.count == from {
			return // the connection has ended
		}
		begun := time.Now()
		var errs []error
		if len(b.values) > 0 {
			errs = keep(ctx, b.values)
		}
		if ctx.Err() != nil || s.answer(&b, errs) != nil || b.last {
			return
		}
		pause(time.Duration(s.count-from)*time.Second/maxRate - time.Since(begun))
	}
}

// read waits for a line, and reads those that have come with it.
func (s *sender) read() (b batch) {
	for n := 0; n == 0 || n < maxBatch && s.hasLine(); n++ {
		line, err := s.lines.ReadSlice('\n')
		tooLong := len(line) > slowdata.MaxLine+1
		for errors.Is(err, bufio.ErrBufferFull) {
			tooLong = true
			_, err = s.lines.ReadSlice('\n')
		}
		if err != nil {
			if b.last = true; len(line) > 0 || tooLong {
				s.count++
				b.refuse(s.count, errors.New("the connection ended within this line"))
			}
			return b
		}
		s.count++
		b.add(s.count, string(bytes.TrimSuffix(line, []byte{'\n'})), tooLong)
	}
	return b
}

// hasLine says that a whole line has been read already.
func (s *sender) hasLine() bool {
	there, _ := s.lines.Peek(s.lines.Buffered()) // cannot fail
	return bytes.IndexByte(there, '\n') >= 0
}

// add adds a line. An empty one, and a comment, is no value and no error.
func (b *batch) add(number uint64, line string, tooLong bool) {
	if tooLong { // of line there is a part
		b.refuse(number, fmt.Errorf("the line has more than %d bytes", slowdata.MaxLine))
		return
	}
	if text := strings.TrimSpace(line); text == "" || text[0] == '#' {
		return
	}
	v, err := slowdata.Parse(line, time.Now())
	if err != nil {
		b.refuse(number, err)
		return
	}
	b.values, b.numbers = append(b.values, v), append(b.numbers, number)
}

// refuse adds the answer to a line that is not kept.
func (b *batch) refuse(number uint64, why error) {
	b.refused = append(b.refused, fmt.Sprintf("unkept %d %s\n", number, strings.ReplaceAll(why.Error(), "\n", "; ")))
}

// answer answers the lines: first those that are not kept, then how many are dealt with.
func (s *sender) answer(b *batch, errs []error) error {
	for i, err := range errs {
		if err != nil {
			b.refuse(b.numbers[i], err)
		}
	}
	for _, line := range b.refused {
		_, _ = s.answers.WriteString(line) // Flush has the error
	}
	fmt.Fprintf(s.answers, "done %d\n", s.count)
	if err := s.conn.SetWriteDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	return s.answers.Flush()
}
