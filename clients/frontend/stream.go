package frontend

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	defaultKeep  = 64 << 20 // bytes; at 10 Gbit/s those of 50 ms
	maxWriteSize = 1 << 18  // bytes that are written at once
	frameHeader  = 20
	maxFragment  = 1<<16 - 1

	firstReconnectPause = 20 * time.Millisecond // before a stream connects again; it doubles
	maxReconnectPause   = time.Second
)

// How long Close waits if its context does not say: while there is nothing new, and while there is no readout unit, for
// the next run or for one that comes again; less, if all is safe. And how long Leave waits.
const (
	closeTimeout      = 5 * time.Minute
	closeAloneTimeout = time.Minute
	closeSafeTimeout  = 5 * time.Second
	leaveTimeout      = 5 * time.Second
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// StreamSettings are what a stream is opened with. The zero value is right for most.
type StreamSettings struct {
	Source uint16 // id of the source; 0: whichever the input has
	Type   uint8  // type of the fragments' banks; 0: 51 (TestDet)
	Run    uint64 // number of the run; 0: any
	Name   string // of the front-end, for logs and for who operates, at most 64 bytes of UTF-8
	// SecretFile is a file with the secret that an input tcp: asks for, as its ?secret=FILE; "": that of the environment
	// variable RINGLET_SECRET_FILE, or none.
	SecretFile string
	Keep       int  // bytes that are kept until they are safe, with 20 for each fragment; 0: 64 MiB
	Unchecked  bool // no checksum is sent
}

// Stream sends fragments to a readout unit, by the format of docs/format/frames.md. It keeps what is not safe, connects
// again when the connection breaks, and sends it again. One goroutine calls Send and Close; any may call the others.
type Stream struct {
	// immutable after Dial
	network, address string
	settings         StreamSettings
	secret           []byte        // nil: none
	aloneTimeout     time.Duration // of Close
	safeTimeout      time.Duration
	stop             context.CancelFunc
	stopped          chan struct{} // closed when all goroutines have ended

	header [frameHeader]byte // Send's

	toSend  chan struct{} // there is something to send; one token
	changed chan struct{} // something is safe, or the stream has failed; one token

	mu                 sync.Mutex // guards the rest
	buffer             sendBuffer
	acked              uint64 // all fragments of events below have their outcome
	resumeEvent        uint64 // all events below were there when the stream was last connected
	firstSent          uint64 // event that was sent; valid if there is a last one
	lastSentPlusOne    uint64 // one above the last event that was sent
	closing            bool   // the last frame that is kept is the end
	leaving            bool   // Leave waits until all is sent
	delivered          bool   // all was sent, and the readout unit has read it
	endConfirmed       bool   // the readout unit has taken the end that it was told of
	endEvent           uint64
	runNumber          uint64 // of the run that the stream was last connected in; 0: not known
	maxFragmentSize    uint32 // bytes of a fragment that the readout unit takes
	attached           bool
	detachedSince      time.Time // since when it is not attached
	lastProgress       time.Time // when the readout unit has told something new
	givenUp            givenUps  // in this run
	givenUpInOtherRuns givenUps  // in others
	err                error     // the stream has failed
}

// StreamError is why a readout unit refuses a front-end.
type StreamError struct {
	Code     uint8 // as in docs/format/frames.md
	Sentence string
}

func (e *StreamError) Error() string {
	if e.Code == codeProve { // it is this end that refuses
		return e.Sentence
	}
	return "the readout unit refuses this front-end: " + e.Sentence
}

// errGone says that a program has lost the readout unit that runs it.
var errGone = errors.New("the readout unit that runs this program is gone")

// Dial connects to a readout unit, tcp:host:port or unix:path. It tries again until the readout unit is there, or ctx
// is over. A refusal that does not pass is a *StreamError. The address exec: is for a program that a readout unit runs:
// the stream takes its standard output and input, and ends when the readout unit does.
func Dial(ctx context.Context, address string, settings StreamSettings) (*Stream, error) {
	network, at, _ := strings.Cut(address, ":")
	if address != "exec:" && (network != "tcp" && network != "unix" || at == "") {
		return nil, fmt.Errorf("a stream cannot go to %q: give tcp:host:port, unix:path, or exec: alone", address)
	}
	if len(settings.Name) > 64 || !utf8.ValidString(settings.Name) {
		return nil, fmt.Errorf("the name of a front-end has %d bytes: 64 of UTF-8 are the most", len(settings.Name))
	}
	if settings.Keep == 0 {
		settings.Keep = defaultKeep
	}
	if least := frameHeader + maxFragment; settings.Keep < least {
		return nil, fmt.Errorf("a stream cannot keep %d bytes only: %d is one fragment", settings.Keep, least)
	}
	s := &Stream{
		network:         network,
		address:         at,
		settings:        settings,
		maxFragmentSize: maxFragment,

		aloneTimeout: closeAloneTimeout,
		safeTimeout:  closeSafeTimeout,

		stopped: make(chan struct{}),
		toSend:  make(chan struct{}, 1),
		changed: make(chan struct{}, 1),
		buffer:  sendBuffer{mem: make([]byte, settings.Keep)},
	}
	if err := s.readSecret(); err != nil {
		return nil, err
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
	return s.resumeEvent
}

// Acked is the event number below which each fragment has its outcome: it is safe, or GivenUp tells of it.
func (s *Stream) Acked() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acked
}

// Send sends a fragment of at most 65,535 bytes, or keeps it until there is a connection. It copies the data. It waits
// while all memory has fragments that are not safe. Event numbers must grow, and begin at Next or above.
func (s *Stream) Send(ctx context.Context, event uint64, data []byte) error {
	s.mu.Lock()
	last, next, largest := s.lastSentPlusOne, s.resumeEvent, s.maxFragmentSize
	s.mu.Unlock()
	switch {
	case len(data) > int(largest):
		return fmt.Errorf("the fragment of event %d has %d bytes: %d are the most", event, len(data), largest)
	case event == math.MaxUint64:
		return errors.New("an event's number is from 0 to 2^64-2")
	case event < last:
		return fmt.Errorf("event %d comes behind event %d: event numbers must grow", event, last-1)
	case event < next:
		return fmt.Errorf("event %d is not sent: Ringlet has taken the events below %d of this run already. Begin at Next, "+
			"or begin a new run to number anew", event, next)
	}
	return s.put(ctx, event, 0, data)
}

// put queues a frame when there is room.
func (s *Stream) put(ctx context.Context, event uint64, flags uint8, data []byte) error {
	for {
		if queued, err := s.queue(event, flags, data); queued || err != nil {
			return err
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: event %d was not sent, since nothing that was sent is safe yet", ctx.Err(), event)
		}
	}
}

// queue queues a frame; false if there is no room.
func (s *Stream) queue(event uint64, flags uint8, data []byte) (bool, error) {
	if s.settings.Unchecked {
		flags |= 1
	}
	h := &s.header
	binary.LittleEndian.PutUint64(h[:], event)
	binary.LittleEndian.PutUint32(h[8:], uint32(len(data)))
	h[12] = flags
	binary.LittleEndian.PutUint16(h[14:], 0x5246)
	if !s.settings.Unchecked {
		sum := crc32.Update(crc32.Checksum(h[:16], castagnoli), castagnoli, data)
		binary.LittleEndian.PutUint32(h[16:], sum)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return false, s.err
	}
	if !s.buffer.add(event, h[:], data) {
		return false, nil
	}
	if s.closing = flags&2 != 0; !s.closing {
		if s.lastSentPlusOne == 0 {
			s.firstSent = event
		}
		s.lastSentPlusOne = event + 1
	}
	signal(s.toSend)
	return true, nil
}

// signal leaves one for whoever waits, or will.
func signal(c chan struct{}) {
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
	signal(s.changed)
}

// run sends until the stream is closed or fails.
func (s *Stream) run(ctx context.Context, c conn) {
	defer close(s.stopped)
	for {
		s.runConnection(ctx, c)
		s.mu.Lock()
		over := s.err != nil || s.delivered
		s.mu.Unlock()
		if ctx.Err() != nil || over {
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
	for pause := firstReconnectPause; ; pause = min(2*pause, maxReconnectPause) {
		c, err := s.handshake(ctx)
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

// runConnection sends what is there, and takes acknowledgements, until the connection breaks.
func (s *Stream) runConnection(ctx context.Context, c conn) {
	broken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	defer s.onDetached()
	go func() {
		defer close(broken)
		defer func() { _ = c.Close() }()
		s.readAnswers(c)
	}()
	for {
		s.mu.Lock()
		piece, leaving := s.buffer.unsent(), s.leaving
		s.mu.Unlock()
		if len(piece) == 0 && leaving {
			if err := c.CloseWrite(); err == nil {
				<-broken // it has read all, or is gone
			}
			return
		}
		if len(piece) == 0 {
			select {
			case <-s.toSend:
				continue
			case <-broken:
				return
			}
		}
		n, err := c.Write(piece)
		s.mu.Lock()
		s.buffer.sent += uint64(n)
		s.buffer.release(s.acked)
		s.mu.Unlock()
		signal(s.changed)
		if err != nil {
			// What the readout unit said last may be why: the other goroutine reads it to the end.
			_ = c.SetReadDeadline(time.Now().Add(maxReconnectPause))
			<-broken
			return
		}
	}
}
