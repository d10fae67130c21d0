package frontend

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"
)

// SlowSender sends slow data: values with a name and a time, which stand beside the events of a run
// (docs/format/slowdata.md). It connects when a value is sent, and again where the connection breaks. One goroutine
// uses it. Its fields may be set before the first value.
type SlowSender struct {
	// Address of --slow-data of ringlet control or ringlet run: HOST:PORT or unix:PATH.
	Address string

	conn    net.Conn // nil: there is none
	answers *bufio.Reader
	sent    uint64 // lines on this connection
}

// An UnkeptError says why a value is in no file; to send it again does not help.
type UnkeptError struct{ Why string }

func (e *UnkeptError) Error() string { return e.Why }

// slowRetryInterval is the time between two attempts to connect.
const slowRetryInterval = 100 * time.Millisecond

// SendNumber sends a number that was so at a time, and returns when it is on the disk. The error is an *UnkeptError, or
// says why it is not known whether the value is kept when ctx ends: then it can be sent again, with the same time.
func (s *SlowSender) SendNumber(ctx context.Context, name string, value float64, at time.Time) error {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return &UnkeptError{fmt.Sprintf("%v is no finite number: send a word for what the sensor says", value)}
	}
	return s.send(ctx, name, strconv.FormatFloat(value, 'g', -1, 64), at)
}

// SendText is SendNumber for a text.
func (s *SlowSender) SendText(ctx context.Context, name, value string, at time.Time) error {
	text, _ := json.Marshal(value) // cannot fail
	return s.send(ctx, name, string(text), at)
}

// Close closes the connection. The next value makes a new one.
func (s *SlowSender) Close() {
	if s.conn != nil {
		_ = s.conn.Close() // all that was sent is answered, or not known to be kept
	}
	s.conn = nil
}

func (s *SlowSender) send(ctx context.Context, name, value string, at time.Time) error {
	if len(strings.Fields(name)) != 1 || strings.TrimSpace(name) != name || name[0] == '#' {
		return &UnkeptError{fmt.Sprintf("the name %q is empty, has blanks, or begins with #", name)}
	}
	line := fmt.Sprintf("%s %s %d.%06d\n", name, value, at.Unix(), at.Nanosecond()/1000)
	for {
		err := s.try(ctx, line)
		var unkept *UnkeptError
		if err == nil || errors.As(err, &unkept) {
			return err
		}
		s.Close()
		select {
		case <-time.After(slowRetryInterval):
		case <-ctx.Done():
			return fmt.Errorf("%s has not answered: %w", s.Address, errors.Join(ctx.Err(), err))
		}
	}
}

// try sends a line over the connection, and reads its answer.
func (s *SlowSender) try(ctx context.Context, line string) error {
	if s.conn == nil {
		network, at := "tcp", s.Address
		if path, ok := strings.CutPrefix(at, "unix:"); ok {
			network, at = "unix", path
		}
		var d net.Dialer
		c, err := d.DialContext(ctx, network, at)
		if err != nil {
			return err
		}
		s.conn, s.answers, s.sent = c, bufio.NewReader(c), 0
	}
	conn := s.conn
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := conn.Write([]byte(line)); err != nil {
		return err
	}
	s.sent++
	var why error
	for {
		answer, err := s.answers.ReadString('\n')
		if err != nil {
			return err
		}
		word, rest, _ := strings.Cut(strings.TrimSpace(answer), " ")
		number, text, _ := strings.Cut(rest, " ")
		n, _ := strconv.ParseUint(number, 10, 64) // 0 is the number of no line
		switch {
		case word == "unkept" && n == s.sent:
			why = &UnkeptError{text}
		case word == "done" && n >= s.sent:
			return why
		}
	}
}
