package frames

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ringlet/event"
	"ringlet/internal/connlimit"
	"ringlet/readoutunit/source/live"
)

const (
	// helloMost is how long a front-end may take for its hello. A connection that says nothing is closed after it.
	helloMost = 5 * time.Second
	// lingerMost is how long a connection stays open behind a refusal, so that the front-end can read it, and how long
	// the last acknowledgement may take when a feed is closed.
	lingerMost = time.Second
)

// carrier is a connection to a front-end.
type carrier interface {
	io.ReadWriteCloser
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	CloseWrite() error
}

// session is one connection, owned by one goroutine.
type session struct {
	feed *feed
	c    carrier
	who  string // name of the front-end, and where it is

	place *connlimit.Place // nil: a program, which has no need of one

	said    []byte // its hello
	version uint8  // of the format that the front-end speaks; immutable once it is attached
	state   state  // the end of the run is this session's while it is attached, and is told to the feed after each read
	from    uint64
	waiting map[uint64]struct{} // events at from and above that were there when the front-end attached
	typ     event.BankType
	got     uint64 // fragments
	anew    uint64 // fragments below from, since they were told last
	below   givens // the same, for the front-end

	// guarded by feed.mu
	news   givens // given up and not told to the front-end
	parted bool   // another front-end may be told what is safe, and this one no more than safe
	safe   uint64

	ack   chan struct{} // something is safe; one token
	ask   chan struct{} // what is safe is to be told again; one token
	waits atomic.Bool   // there is no room
	leave func()        // ends the session where there is no room; may be called again
	going chan struct{} // closed by leave
	left  chan struct{} // closed when another front-end may attach
}

// newSession is a session that nobody has said hello in.
func newSession(f *feed, c carrier, where string) *session {
	s := &session{
		feed:    f,
		c:       c,
		who:     cut(where),
		version: first,
		ack:     make(chan struct{}, 1),
		ask:     make(chan struct{}, 1),
		going:   make(chan struct{}),
		left:    make(chan struct{}),
	}
	s.leave = sync.OnceFunc(func() { close(s.going) })
	return s
}

// serve does all that a front-end's connection asks for, and closes it. It returns how many fragments came, and why it
// ended: nil is the front-end's or the feed's own doing.
func (f *feed) serve(c carrier, where string, place *connlimit.Place) (uint64, error) {
	s := newSession(f, c, where)
	s.place = place
	defer func() { _ = c.Close() }()
	unblock := context.AfterFunc(f.ctx, func() {
		_ = c.SetWriteDeadline(time.Now().Add(lingerMost))
		_ = c.SetReadDeadline(time.Unix(1, 0))
	})
	defer unblock()
	h, err := s.hello()
	if h.Version == version {
		s.version = version
	}
	if err != nil {
		if f.ctx.Err() == nil && !errors.Is(err, io.EOF) { // who asks whether the port is open is no front-end
			s.refuse(answer{Code: badFormat, Sentence: err.Error()})
			return 0, err
		}
		return 0, nil
	}
	if h.Name != "" {
		s.who = cut(fmt.Sprintf("%q at %s", h.Name, where))
	}
	if refusal := s.authentic(h); refusal != nil {
		s.refuse(*refusal)
		return 0, errors.New(refusal.Sentence)
	}
	if !place.SetYielding(false) {
		return 0, nil // it had to make room, and that was told
	}
	if refusal := s.takeOver(h); refusal != nil {
		s.refuse(*refusal)
		return 0, errors.New(refusal.Sentence)
	}
	acked := make(chan struct{})
	over := make(chan struct{})
	go func() {
		defer close(acked)
		s.acknowledge(over)
	}()
	err = s.receive()
	s.detach(err)
	close(over)
	_ = c.SetWriteDeadline(time.Now().Add(lingerMost)) // a front-end that reads no answers may hold the last one up
	<-acked
	if f.ctx.Err() != nil {
		s.part()
		return s.got, nil
	}
	var broken *formatError
	if errors.As(err, &broken) {
		s.refuse(answer{Code: badFormat, Sentence: err.Error()})
		return s.got, err
	}
	return s.got, nil
}

// hello reads the front-end's hello and not a byte more: a program may write frames right behind it.
func (s *session) hello() (hello, error) {
	if err := s.c.SetReadDeadline(time.Now().Add(helloMost)); err != nil {
		return hello{}, err
	}
	if s.feed.ctx.Err() != nil {
		return hello{}, io.EOF
	}
	var b [helloSize + maxOptions]byte
	n, most := 0, helloSize
	for {
		k, err := s.c.Read(b[n:most])
		n += k
		h, _, broken := parseHello(b[:n])
		if broken == nil || !errors.Is(broken, errShort) {
			s.said = bytes.Clone(b[:n])
			return h, broken
		}
		if n == helloSize {
			behind, _ := behindHello(b[:]) // else it is broken
			most = helloSize + behind
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			return h, fmt.Errorf("no hello came within %v: a front-end says hello as soon as it is connected", helloMost)
		case n == 0:
			return h, io.EOF
		default:
			return h, fmt.Errorf("the connection ended within a hello: %w", err)
		}
	}
}

// attach makes the front-end the one that is attached, and answers its hello; else it returns the refusal, and the
// session of the one that is attached if that is why.
func (s *session) attach(h hello) (refusal *answer, before *session) {
	f := s.feed
	f.mu.Lock()
	numbers := f.store.numbers() // the consumer tells what it has taken before it frees it, so none is in neither
	a := f.state.admit(h, &f.set, f.state.resume(numbers))
	if a.Code != accepted {
		if a.Code == busy {
			before = f.holder
		}
		f.mu.Unlock()
		return &a, before
	}
	f.state.attached, f.last, f.holder = s.who, s.who, s
	s.state = f.state
	if s.version > first {
		s.news = slices.Clone(f.state.given)
	}
	if f.state.safe > 0 || len(s.news) > 0 || f.state.ended {
		wake(s.ack)
	}
	f.mu.Unlock()
	f.stats.attached.Add(1)
	s.from, s.typ = a.A, event.BankType(h.Type)
	if h.Type == noType {
		s.typ = event.TestDet
	}
	s.waiting = waiting(numbers, s.from)
	f.tell(slog.LevelInfo, "a front-end is attached", "frontend", s.who, "next", s.from)
	f.warn()
	// A connection that has just said hello has room for an answer; if it is broken, receive says so.
	_, _ = s.c.Write(appendAnswer(nil, s.version, a))
	if err := s.c.SetReadDeadline(time.Time{}); err == nil && f.ctx.Err() != nil {
		_ = s.c.SetReadDeadline(time.Unix(1, 0))
	}
	return nil, nil
}

// waiting are those of the numbers that a front-end which resumes at from may send again.
func waiting(numbers []uint64, from uint64) map[uint64]struct{} {
	var out map[uint64]struct{}
	for _, e := range numbers {
		if e >= from {
			if out == nil {
				out = map[uint64]struct{}{}
			}
			out[e] = struct{}{}
		}
	}
	return out
}

// detach lets another front-end attach.
func (s *session) detach(why error) {
	f := s.feed
	f.store.forget()
	f.mu.Lock()
	f.state.attached, f.holder = "", nil
	s.parted, s.safe = true, f.state.acknowledges(s.version)
	ended, taken := f.state.ended, f.state.taken
	f.mu.Unlock()
	close(s.left)
	if errors.Is(why, io.EOF) {
		why = errors.New("its connection is closed, and it has not said that its run is over")
	}
	switch {
	case f.ctx.Err() != nil:
	case ended:
		f.tell(slog.LevelInfo, "a front-end is gone, behind the end of its run", "frontend", s.who)
	default:
		f.stats.gone.Add(1)
		f.tell(slog.LevelWarn, "a front-end is gone", "frontend", s.who, "next", taken, "why", why)
	}
}

// refuse tells the front-end why its connection is closed, and counts it.
func (s *session) refuse(a answer) {
	f := s.feed
	if !s.place.SetYielding(true) {
		return // it had to make room, and that was told
	}
	f.refused(s.who, a.Sentence)
	f.tell(slog.LevelWarn, "a front-end is refused", "frontend", s.who, "why", a.Sentence)
	if f.ctx.Err() != nil {
		return
	}
	_ = s.c.SetWriteDeadline(time.Now().Add(lingerMost))
	if _, err := s.c.Write(appendAnswer(nil, s.version, a)); err == nil {
		s.part()
	}
}

// part waits until the front-end has read the last answer and closes, for a while: a connection that is closed with
// bytes unread resets, and takes the answer along.
func (s *session) part() {
	_ = s.c.SetReadDeadline(time.Now().Add(lingerMost))
	if err := s.c.CloseWrite(); err == nil {
		_, _ = io.Copy(io.Discard, s.c)
	}
}

// acknowledge sends what the front-end must know, as often as that changes or is asked for, until over; then once more.
func (s *session) acknowledge(over <-chan struct{}) {
	var t told
	buf := make([]byte, 0, answerSize)
	for last := false; !last; {
		asked := false
		select {
		case <-s.ack:
		case <-s.ask:
			asked = true
		case <-over:
			last = true
		}
		buf = s.answers(buf[:0], &t, asked)
		if len(buf) == 0 {
			continue
		}
		if last {
			_ = s.c.SetWriteDeadline(time.Now().Add(lingerMost))
		}
		if _, err := s.c.Write(buf); err != nil {
			return // the other direction ends the session
		}
	}
}

// told is what a session has told its front-end.
type told struct {
	safe uint64
	end  bool
}

// answers appends what there is to tell: what was given up comes before what is safe.
func (s *session) answers(dst []byte, t *told, asked bool) []byte {
	f := s.feed
	f.mu.Lock()
	safe, news := f.state.acknowledges(s.version), s.news
	ended, end := f.state.ended, f.state.end
	if s.news = nil; s.parted {
		safe = s.safe // what is given up from now on is not in news
	}
	f.mu.Unlock()
	for _, x := range news {
		dst = appendAnswer(dst, s.version, x.answer())
	}
	if ended && !t.end && s.version > first {
		t.end = true
		dst = appendAnswer(dst, s.version, answer{Code: endTaken, A: end})
	}
	if safe > t.safe || asked {
		t.safe = max(t.safe, safe)
		dst = appendAnswer(dst, s.version, answer{Code: acknowledged, A: t.safe})
	}
	return dst
}

// receive reads frames into the store until the connection ends. It allocates nothing for a fragment.
func (s *session) receive() error {
	st := s.feed.store
	for {
		short, err := s.parse()
		if err != nil {
			return err
		}
		var space []byte
		if short { // else whole frames stand there, which a read could wait behind for ever
			space = st.space(need(st.window()))
		}
		if len(space) == 0 {
			if err := s.wait(); err != nil {
				return err
			}
			continue
		}
		n, err := s.c.Read(space[:min(len(space), readMost)])
		st.received(n)
		if n == 0 && err != nil { // all before it are parsed
			return err
		}
	}
}

// wait waits until the consumer has freed something.
func (s *session) wait() error {
	s.waits.Store(true)
	defer s.waits.Store(false)
	select {
	case <-s.feed.store.freed:
		return nil
	case <-s.going:
		return errReplaced
	case <-s.feed.ctx.Done():
		return s.feed.ctx.Err()
	}
}

// parse queues the frames that are whole, as long as there is room. short: all that are whole are queued.
func (s *session) parse() (short bool, err error) {
	st := s.feed.store
	var fragments, bytes, repeated uint64
	known := uint8(flagsKnown)
	if s.version == first {
		known = flagsFirst
	}
	var fr frame
	for room := st.room(); room > 0; {
		if err = parseFrame(&fr, st.window(), known); err != nil {
			break
		}
		var v verdict
		if v, err = s.state.judge(&fr, s.from, s.waiting); err != nil {
			break
		}
		if v != take {
			if v == discard {
				repeated++
				s.again(&fr)
			}
			st.skip(fr.size())
			continue
		}
		typ := s.typ
		if fr.Flags&flagTyped != 0 {
			typ = event.BankType(fr.Type)
		}
		st.keep(live.Fragment{Event: fr.Event, Type: typ, Data: fr.Data}, fr.size())
		room--
		fragments++
		bytes += uint64(len(fr.Data))
	}
	s.account(fragments, bytes, repeated)
	if errors.Is(err, errShort) {
		return true, nil
	}
	return false, err
}

// again notes that an event came below the one that the front-end was asked for: it numbers anew, and must hear of it.
func (s *session) again(fr *frame) {
	if fr.Event >= s.from {
		return
	}
	if s.anew++; s.version > first {
		s.below.add(given{
			from: fr.Event,
			to:   fr.Event + 1,
			n:    1,
			why:  ranBackwards,
		})
	}
}

// account counts, shows the consumer what was queued, and tells the feed where the run is.
func (s *session) account(fragments, bytes, repeated uint64) {
	f := s.feed
	s.got += fragments + repeated
	f.stats.fragments.Add(fragments)
	f.stats.bytes.Add(bytes)
	f.stats.repeated.Add(repeated)
	f.store.publish()
	f.mu.Lock()
	news := s.state.ended && !f.state.ended
	f.state.ended, f.state.end = s.state.ended, s.state.end
	taken := f.state.taken
	for _, x := range s.below {
		s.news.add(x)
	}
	f.mu.Unlock()
	if news || len(s.below) > 0 {
		wake(s.ack)
	}
	if s.anew > 0 {
		f.tell(slog.LevelWarn, "a front-end sends events below the one that it was asked for: they are thrown away",
			"frontend", s.who, "asked for", s.from, "such", s.anew)
	}
	s.below, s.anew = s.below[:0], 0
	if news && s.state.end < taken {
		f.tell(slog.LevelWarn, "the run is declared over below events that came", "frontend", s.who, "end", s.state.end,
			"came", taken)
	}
	if s.state.ended {
		wake(f.store.filled)
	}
}
