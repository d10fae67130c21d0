package frontend

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"strings"
	"sync"
	"time"
)

const (
	streamKeep  = 64 << 20 // bytes; at 10 Gbit/s those of 50 ms
	streamWrite = 1 << 18  // bytes that are written at once
	frameHeader = 20
	maxFragment = 1<<16 - 1

	answerHeader = 24
	firstPause   = 20 * time.Millisecond // before a stream connects again; it doubles
	mostPause    = time.Second
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// StreamSettings are what a stream is opened with. The zero value is right for most.
type StreamSettings struct {
	Source    uint16 // id of the source; 0: whichever the input has
	Type      uint8  // type of the fragments' banks; 0: 51 (TestDet)
	Run       uint64 // number of the run; 0: any
	Name      string // of the front-end, for logs, at most 64 bytes
	Keep      int    // bytes that are kept until they are safe, with 20 for each fragment; 0: 64 MiB
	Unchecked bool   // no checksum is sent
}

// Stream sends fragments to a readout unit, by the format of docs/format/frames.md. It keeps what is not safe, connects
// again when the connection breaks, and sends it again. One goroutine calls Send and Close; any may call the others.
type Stream struct {
	// immutable after Dial
	network, address string
	set              StreamSettings
	stop             context.CancelFunc
	stopped          chan struct{} // closed when all goroutines have ended

	header [frameHeader]byte // Send's

	more chan struct{} // there is something to send; one token
	room chan struct{} // something is safe, or the stream has failed; one token

	mu    sync.Mutex // guards the rest
	keep  keep
	acked uint64 // all events below are safe
	next  uint64 // all events below were there when the stream was last connected
	last  uint64 // one above the last event that was sent
	err   error  // the stream has failed
}

// StreamError is why a readout unit refuses a front-end.
type StreamError struct {
	Code     uint8 // as in docs/format/frames.md
	Sentence string
}

func (e *StreamError) Error() string { return "the readout unit refuses this front-end: " + e.Sentence }

// errGone says that a program has lost the readout unit that runs it.
var errGone = errors.New("the readout unit that runs this program is gone")

// Dial connects to a readout unit, tcp:host:port or unix:path. It tries again until the readout unit is there, or ctx
// is over. A refusal that does not pass is a *StreamError. The address exec: is for a program that a readout unit runs:
// the stream takes its standard output and input, and ends when the readout unit does.
func Dial(ctx context.Context, address string, set StreamSettings) (*Stream, error) {
	network, at, _ := strings.Cut(address, ":")
	if address != "exec:" && (network != "tcp" && network != "unix" || at == "") {
		return nil, fmt.Errorf("a stream cannot go to %q: give tcp:host:port, unix:path, or exec: alone", address)
	}
	if len(set.Name) > 64 {
		return nil, fmt.Errorf("the name of a front-end has %d bytes: 64 are the most", len(set.Name))
	}
	if set.Keep == 0 {
		set.Keep = streamKeep
	}
	if least := frameHeader + maxFragment; set.Keep < least {
		return nil, fmt.Errorf("a stream cannot keep %d bytes only: %d is one fragment", set.Keep, least)
	}
	s := &Stream{
		network: network,
		address: at,
		set:     set,
		stopped: make(chan struct{}),
		more:    make(chan struct{}, 1),
		room:    make(chan struct{}, 1),
		keep:    keep{mem: make([]byte, set.Keep)},
	}
	c, err := s.connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: no stream to %s", err, address)
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	go s.run(life, c)
	return s, nil
}

// Next is the event number from which on Ringlet has nothing, as it said when the stream was last connected. A
// front-end that comes back in a run without its memory begins there.
func (s *Stream) Next() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

// Acked is the event number below which all is safe.
func (s *Stream) Acked() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acked
}

// Send sends a fragment of at most 65,535 bytes, or keeps it until there is a connection. It copies the data. It waits
// while all memory has fragments that are not safe. Event numbers must grow.
func (s *Stream) Send(ctx context.Context, event uint64, data []byte) error {
	switch {
	case len(data) > maxFragment:
		return fmt.Errorf("the fragment of event %d has %d bytes: %d are the most", event, len(data), maxFragment)
	case event == math.MaxUint64:
		return fmt.Errorf("%d is no event number", event)
	}
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	if event < last {
		return fmt.Errorf("event %d comes behind event %d: event numbers must grow", event, last-1)
	}
	return s.put(ctx, event, 0, data)
}

// put queues a frame when there is room.
func (s *Stream) put(ctx context.Context, event uint64, flags uint8, data []byte) error {
	if s.set.Unchecked {
		flags |= 1
	}
	h := &s.header
	binary.LittleEndian.PutUint64(h[:], event)
	binary.LittleEndian.PutUint32(h[8:], uint32(len(data)))
	h[12] = flags
	binary.LittleEndian.PutUint16(h[14:], 0x5246)
	if !s.set.Unchecked {
		sum := crc32.Update(crc32.Checksum(h[:16], castagnoli), castagnoli, data)
		binary.LittleEndian.PutUint32(h[16:], sum)
	}
	for {
		s.mu.Lock()
		if s.err != nil {
			defer s.mu.Unlock()
			return s.err
		}
		if s.keep.add(event, h[:], data) {
			s.last = event + 1
			s.mu.Unlock()
			token(s.more)
			return nil
		}
		s.mu.Unlock()
		select {
		case <-s.room:
		case <-ctx.Done():
			return fmt.Errorf("%w: event %d was not sent, since nothing that was sent is safe yet", ctx.Err(), event)
		}
	}
}

// Close declares the end of the run behind the last event, and waits until all are safe or ctx is over; then the error
// says from which event on they may be lost. The stream is closed in any case.
func (s *Stream) Close(ctx context.Context) error {
	defer func() {
		s.stop()
		<-s.stopped
	}()
	s.mu.Lock()
	end := max(s.last, s.next)
	s.mu.Unlock()
	if err := s.put(ctx, end, 2, nil); err != nil {
		return err
	}
	for {
		s.mu.Lock()
		acked, err := s.acked, s.err
		s.mu.Unlock()
		if acked >= end {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-s.room:
		case <-ctx.Done():
			return fmt.Errorf("%w: the run ends at event %d, and events from %d on are not known to be safe", ctx.Err(), end,
				acked)
		}
	}
}

// token leaves one for whoever waits, or will.
func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// fail ends the stream.
func (s *Stream) fail(err error) {
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	token(s.room)
}

// run sends until the stream is closed or fails.
func (s *Stream) run(ctx context.Context, c conn) {
	defer close(s.stopped)
	for {
		s.converse(ctx, c)
		s.mu.Lock()
		failed := s.err != nil
		s.mu.Unlock()
		if ctx.Err() != nil || failed {
			return
		}
		err := errGone
		if s.network != "exec" {
			c, err = s.connect(ctx)
		}
		if err != nil {
			s.fail(err)
			return
		}
	}
}

// connect tries until it is accepted.
func (s *Stream) connect(ctx context.Context) (conn, error) {
	var why error // of the last time that ctx did not end
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		c, err := s.greet(ctx)
		if err == nil {
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), why)
		}
		why = err
		var refused *StreamError
		if errors.As(err, &refused) && refused.Code != 5 || s.network == "exec" {
			return nil, err
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, errors.Join(ctx.Err(), why)
		}
	}
}

// greet connects, says hello, and takes what is answered.
func (s *Stream) greet(ctx context.Context) (conn, error) {
	c, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	source, typ := s.set.Source, s.set.Type
	if source == 0 {
		source = 0xffff
	}
	if typ == 0 {
		typ = 255
	}
	h := append([]byte("RLFH"), 1, typ)
	h = binary.LittleEndian.AppendUint16(h, source)
	h = binary.LittleEndian.AppendUint64(h, s.set.Run)
	h = binary.LittleEndian.AppendUint64(h, uint64(len(s.set.Name)))
	code, event := byte(0), uint64(0)
	if _, err = c.Write(append(h, s.set.Name...)); err == nil {
		code, event, err = readAnswer(c, new([answerHeader]byte))
	}
	if err == nil && code != 0 {
		err = fmt.Errorf("the first answer has the code %d", code)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	_ = c.SetDeadline(time.Time{})
	s.mu.Lock()
	s.next = event
	s.keep.resume(event)
	s.mu.Unlock()
	token(s.more)
	return c, nil
}

// readAnswer reads one, with memory for its head. A refusal is a *StreamError.
func readAnswer(r io.Reader, b *[answerHeader]byte) (code byte, event uint64, err error) {
	if _, err = io.ReadFull(r, b[:]); err != nil {
		return 0, 0, err
	}
	if string(b[:5]) != "RLFA\x01" {
		why := fmt.Sprintf("it answers with %q, which is no answer of version 1", b[:5])
		return 0, 0, &StreamError{Code: 2, Sentence: why}
	}
	if b[5] > 1 {
		sentence := make([]byte, min(binary.LittleEndian.Uint16(b[6:]), 512))
		if _, err = io.ReadFull(r, sentence); err != nil {
			return 0, 0, err
		}
		return 0, 0, &StreamError{Code: b[5], Sentence: string(sentence)}
	}
	return b[5], binary.LittleEndian.Uint64(b[8:]), nil
}

// converse sends what is there, and takes acknowledgements, until the connection breaks.
func (s *Stream) converse(ctx context.Context, c conn) {
	broken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	go func() {
		defer close(broken)
		defer func() { _ = c.Close() }()
		var head [answerHeader]byte
		for {
			code, event, err := readAnswer(c, &head)
			var refused *StreamError
			if errors.As(err, &refused) {
				s.fail(err)
			}
			if err != nil || code != 1 {
				return
			}
			s.mu.Lock()
			s.acked = max(s.acked, event)
			s.keep.forget(s.acked)
			s.mu.Unlock()
			token(s.room)
		}
	}()
	for {
		s.mu.Lock()
		piece := s.keep.unsent()
		s.mu.Unlock()
		if len(piece) == 0 {
			select {
			case <-s.more:
				continue
			case <-broken:
				return
			}
		}
		n, err := c.Write(piece)
		s.mu.Lock()
		s.keep.sent += uint64(n)
		s.keep.forget(s.acked)
		s.mu.Unlock()
		token(s.room)
		if err != nil {
			// What the readout unit said last may be why: the other goroutine reads it to the end.
			_ = c.SetReadDeadline(time.Now().Add(mostPause))
			<-broken
			return
		}
	}
}
