package frontend

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	defaultKeep  = 64 << 20 // bytes; 50 ms at 10 Gbit/s
	maxWriteSize = 1 << 18  // bytes of one write
	frameHeader  = 20
	maxFragment  = 1 << 30 // bytes; the readout unit says how many it takes
	// narrowFragment is the largest fragment, in bytes, of an input that declares none
	narrowFragment = 1<<16 - 1

	firstReconnectPause = 20 * time.Millisecond // before a stream connects again; it doubles
	maxReconnectPause   = time.Second
)

// How long Close waits if its context has no deadline: while the readout unit tells nothing new; while there is no
// readout unit (the next run's, or one that is started again); while there is none and all is safe. And how long Leave
// waits.
const (
	closeTimeout      = 5 * time.Minute
	closeAloneTimeout = time.Minute
	closeSafeTimeout  = 5 * time.Second
	leaveTimeout      = 5 * time.Second
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// StreamSettings are the settings of a stream. The zero value suits most front-ends.
type StreamSettings struct {
	Source uint16 // id of the source; 0: the input's
	Type   uint8  // type of the fragments' banks; 0: 51 (TestDet)
	Run    uint64 // number of the run; 0: any
	Name   string // of the front-end, for logs and for operators, at most 64 bytes of UTF-8
	Label  string // how people call the source, unless the input has a name for it (?name=): letters, digits, _ and -
	// SecretFile is a file with the secret that an input tcp: with ?secret=FILE asks for; "": the file that the
	// environment variable RINGLET_SECRET_FILE names, or none.
	SecretFile string
	Keep       int  // bytes that are kept until they are safe, with 20 for each fragment; 0: 64 MiB
	Unchecked  bool // no checksum is sent
	Follow     bool // the run: the front-end hears commands by NextCommand, and must answer each
}

// Stream sends fragments to a readout unit (docs/format/frames.md). It keeps fragments that are not safe; when the
// connection breaks, it connects again and sends them again. One goroutine calls Send, Close and Leave; any may call
// the other methods.
type Stream struct {
	// immutable after Dial
	network, address string
	turn             int // which of the addresses is next; of the goroutine that connects
	settings         StreamSettings
	secret           []byte        // nil: none
	aloneTimeout     time.Duration // of Close
	safeTimeout      time.Duration
	stop             context.CancelFunc
	stopped          chan struct{} // closed when all goroutines have ended

	header [frameHeader + maxWords]byte // buffer of the goroutine that sends

	toSend    chan struct{} // capacity 1: holds a mark if there are frames to send
	changed   chan struct{} // capacity 1: a mark makes await and put look at the changed state
	commanded chan struct{} // capacity 1: holds a mark if commands wait for NextCommand
	freed     chan struct{} // capacity 1: a mark makes WaitFree look at the state

	mu                 sync.Mutex // guards the rest
	buffer             sendBuffer
	acked              uint64 // all fragments of events below have their outcome
	resumeEvent        uint64 // the readout unit had all events below when the stream was last connected
	firstSent          uint64 // first event that was sent; valid if lastSentPlusOne is not 0
	lastSentPlusOne    uint64 // one above the last event that was sent
	closing            bool   // the last frame that is kept is the run's end
	leaving            bool   // Leave waits until all is sent
	delivered          bool   // all was sent, and the readout unit has read it
	endConfirmed       bool   // the readout unit has taken the end of the run, at endEvent
	endEvent           uint64
	runNumber          uint64 // of the run that the stream was last connected in; 0: not known
	maxFragmentSize    uint32 // bytes of the largest fragment that the readout unit takes
	attached           bool
	detachedSince      time.Time // time of the last break, while it is not attached
	lastProgress       time.Time // time of the readout unit's last news
	following          following
	givenUp            givenUps // in this run
	givenUpInOtherRuns givenUps // in other runs
	err                error    // why the stream has failed; nil: it has not
}

// StreamError is why a readout unit refuses a front-end, or this front-end a readout unit.
type StreamError struct {
	Code     uint8 // as in docs/format/frames.md
	Sentence string
}

func (e *StreamError) Error() string {
	if e.Code == codeProve { // this front-end refuses
		return e.Sentence
	}
	return "the readout unit refuses this front-end: " + e.Sentence
}

// errGone ends the stream of a program (exec:) whose readout unit has ended.
var errGone = errors.New("the readout unit that runs this program is gone")

// Dial connects to a readout unit, tcp:host:port or unix:path. It tries again until the readout unit accepts, or ctx is
// done; of a list, tcp:host1:port,host2:port, it takes the next address each time, since a readout unit may move to
// another host. A permanent refusal is a *StreamError. The address exec: is for a program that a readout unit runs: the
// stream takes its standard output and input, and ends when the readout unit does.
func Dial(ctx context.Context, address string, settings StreamSettings) (*Stream, error) {
	network, at, _ := strings.Cut(address, ":")
	if address != "exec:" && network != "tcp" && network != "unix" || address != "exec:" &&
		slices.Contains(addressList(network, at), "") {
		return nil, fmt.Errorf("a stream cannot go to %q: give tcp:host:port, unix:path, or exec: alone", address)
	}
	for of, text := range map[string]string{"front-end": settings.Name, "source": settings.Label} {
		if len(text) > 64 || !utf8.ValidString(text) {
			return nil, fmt.Errorf("the name of a %s has %d bytes: 64 of UTF-8 are the most", of, len(text))
		}
	}
	if settings.Keep == 0 {
		settings.Keep = defaultKeep
	}
	if least := frameHeader + maxWords + narrowFragment; settings.Keep < least {
		return nil, fmt.Errorf("a stream cannot keep %d bytes only: %d is one fragment", settings.Keep, least)
	}
	s := &Stream{
		network:         network,
		address:         at,
		settings:        settings,
		maxFragmentSize: narrowFragment,

		aloneTimeout: closeAloneTimeout,
		safeTimeout:  closeSafeTimeout,

		stopped:   make(chan struct{}),
		toSend:    make(chan struct{}, 1),
		changed:   make(chan struct{}, 1),
		commanded: make(chan struct{}, 1),
		freed:     make(chan struct{}, 1),
		buffer:    sendBuffer{mem: make([]byte, settings.Keep)},
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

// addressList are the addresses that a stream tries in turn. A path of a socket may have commas.
func addressList(network, address string) []string {
	if network == "unix" {
		return []string{address}
	}
	return strings.Split(address, ",")
}

// Next is the event number after the last event that Ringlet had when the stream was last connected. A front-end that
// is started again within a run begins there.
func (s *Stream) Next() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resumeEvent
}

// Acked is the event number below which each fragment has its outcome: it is safe, or GivenUp lists it.
func (s *Stream) Acked() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acked
}

// Send sends a fragment, or keeps it until there is a connection. It copies the data. A fragment has at most 65,535
// bytes, or as many as ?max= behind the address of the input says, and no more than Keep has room for. Send waits while
// fragments that are not safe fill the memory. Event numbers must grow, and begin at Next or above.
func (s *Stream) Send(ctx context.Context, event uint64, data []byte) error {
	return s.SendWith(ctx, event, Words{}, data)
}

// SendWith sends a fragment as Send does, with a trigger number and a time stamp.
func (s *Stream) SendWith(ctx context.Context, event uint64, words Words, data []byte) error {
	s.mu.Lock()
	last, next, largest := s.lastSentPlusOne, s.resumeEvent, s.maxFragmentSize
	s.mu.Unlock()
	switch {
	case len(data) > int(largest):
		return fmt.Errorf("the fragment of event %d has %d bytes, and %d are the most: put ?max= behind the address of the "+
			"input, and keep three times as much", event, len(data), largest)
	case event == math.MaxUint64:
		return errors.New("the event number 2^64-1 is reserved: numbers are from 0 to 2^64-2")
	case event < last:
		return fmt.Errorf("event %d comes behind event %d: event numbers must grow", event, last-1)
	case event < next:
		return fmt.Errorf("event %d is not sent: Ringlet has taken the events below %d of this run already. Begin at Next, "+
			"or begin a new run to number anew", event, next)
	}
	return s.put(ctx, event, 0, words, data)
}

// put queues a frame as soon as there is room.
func (s *Stream) put(ctx context.Context, event uint64, flags uint8, words Words, data []byte) error {
	for {
		if queued, err := s.queue(event, flags, words, data); queued || err != nil {
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
func (s *Stream) queue(event uint64, flags uint8, words Words, data []byte) (bool, error) {
	if s.settings.Unchecked {
		flags |= 1
	}
	h := s.header[:frameHeader]
	binary.LittleEndian.PutUint64(h, event)
	binary.LittleEndian.PutUint32(h[8:], uint32(len(data)))
	h[12] = flags | words.flags()
	binary.LittleEndian.PutUint16(h[14:], 0x5246)
	h = words.appendTo(h)
	if !s.settings.Unchecked {
		sum := crc32.Checksum(h[:16], castagnoli)
		sum = crc32.Update(crc32.Update(sum, castagnoli, h[frameHeader:]), castagnoli, data)
		binary.LittleEndian.PutUint32(h[16:], sum)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return false, s.err
	}
	if !s.buffer.add(event, h, data) {
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

// signal wakes the goroutine that waits for c, or the next one that will wait.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// fail ends the stream with err, which Send and Close return.
func (s *Stream) fail(err error) {
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	signal(s.changed)
	signal(s.commanded)
	signal(s.freed)
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

// connect tries until the readout unit accepts, or refuses for good.
func (s *Stream) connect(ctx context.Context) (conn, error) {
	var why error // of the last attempt that ctx has not ended
	for pause := firstReconnectPause; ; pause = min(2*pause, maxReconnectPause) {
		c, err := s.handshake(ctx)
		if err == nil {
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), why)
		}
		why = err
		s.turn++
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

// write sends bytes of the buffer.
func (s *Stream) write(c conn, piece []byte) error {
	n, err := c.Write(piece)
	s.mu.Lock()
	s.buffer.sent += uint64(n)
	s.buffer.release(s.acked)
	s.mu.Unlock()
	signal(s.changed)
	return err
}

// runConnection sends frames, while another goroutine reads answers, until the connection breaks.
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
		err := s.sendReplies(c)
		s.mu.Lock()
		piece, leaving := s.nextPiece(), s.leaving
		s.mu.Unlock()
		if err == nil && len(piece) == 0 && leaving {
			if err = c.CloseWrite(); err == nil {
				<-broken // the readout unit has read all, or is gone
			}
			return
		}
		if err == nil && len(piece) == 0 {
			select {
			case <-s.toSend:
				continue
			case <-broken:
				return
			}
		}
		if err == nil {
			err = s.write(c, piece)
		}
		if err != nil {
			// The readout unit's last answer may say why: let the other goroutine read it.
			_ = c.SetReadDeadline(time.Now().Add(maxReconnectPause))
			<-broken
			return
		}
	}
}
