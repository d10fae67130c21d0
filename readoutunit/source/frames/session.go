package frames

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"ringlet/event"
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

	state state // next and end are this session's while it is attached, and are told to the feed after each read
	from  uint64
	typ   event.BankType
	got   uint64 // fragments

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
		feed:  f,
		c:     c,
		who:   where,
		ack:   make(chan struct{}, 1),
		ask:   make(chan struct{}, 1),
		going: make(chan struct{}),
		left:  make(chan struct{}),
	}
	s.leave = sync.OnceFunc(func() { close(s.going) })
	return s
}

// serve does all that a front-end's connection asks for, and closes it. It returns how many fragments came, and why it
// ended: nil is the front-end's or the feed's own doing.
func (f *feed) serve(c carrier, where string) (uint64, error) {
	s := newSession(f, c, where)
	defer func() { _ = c.Close() }()
	unblock := context.AfterFunc(f.ctx, func() {
		_ = c.SetWriteDeadline(time.Now().Add(lingerMost))
		_ = c.SetReadDeadline(time.Unix(1, 0))
	})
	defer unblock()
	h, err := s.hello()
	if err != nil {
		if f.ctx.Err() == nil && !errors.Is(err, io.EOF) { // who asks whether the port is open is no front-end
			s.refuse(answer{Code: badFormat, Sentence: err.Error()})
			return 0, err
		}
		return 0, nil
	}
	if h.Name != "" {
		s.who = fmt.Sprintf("%q at %s", h.Name, where)
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
	<-acked
	if f.ctx.Err() != nil {
		s.part()
		return s.got, nil
	}
	var broken *formatError
	if errors.As(err, &broken) {
		s.refuse(answer{Code: badFormat, Event: s.state.resume(), Sentence: err.Error()})
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
	var b [helloSize + maxName]byte
	n, most := 0, helloSize
	for {
		k, err := s.c.Read(b[n:most])
		n += k
		h, _, broken := parseHello(b[:n])
		if broken == nil || !errors.Is(broken, errShort) {
			return h, broken
		}
		if n == helloSize {
			most = helloSize + int(b[16])
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			return hello{}, fmt.Errorf("no hello came within %v: a front-end says hello as soon as it is connected", helloMost)
		case n == 0:
			return hello{}, io.EOF
		default:
			return hello{}, fmt.Errorf("the connection ended within a hello: %w", err)
		}
	}
}

// attach makes the front-end the one that is attached, and answers its hello; else it returns the refusal, and the
// session of the one that is attached if that is why.
func (s *session) attach(h hello) (refusal *answer, before *session) {
	f := s.feed
	f.mu.Lock()
	a := f.state.admit(h, &f.set)
	if a.Code != accepted {
		if a.Code == busy {
			before = f.holder
		}
		f.mu.Unlock()
		return &a, before
	}
	f.state.attached, f.holder = s.who, s
	s.state = f.state
	if f.state.safe > 0 {
		wake(s.ack)
	}
	f.mu.Unlock()
	f.stats.attached.Add(1)
	s.from, s.typ = a.Event, event.BankType(h.Type)
	if h.Type == noType {
		s.typ = event.TestDet
	}
	f.tell(slog.LevelInfo, "a front-end is attached", "frontend", s.who, "next", s.from)
	// A connection that has just said hello has room for an answer; if it is broken, receive says so.
	_, _ = s.c.Write(appendAnswer(nil, a))
	if err := s.c.SetReadDeadline(time.Time{}); err == nil && f.ctx.Err() != nil {
		_ = s.c.SetReadDeadline(time.Unix(1, 0))
	}
	return nil, nil
}

// detach lets another front-end attach.
func (s *session) detach(why error) {
	f := s.feed
	f.store.forget()
	f.mu.Lock()
	f.state.attached, f.holder = "", nil
	ended := f.state.ended
	f.mu.Unlock()
	close(s.left)
	switch {
	case f.ctx.Err() != nil:
	case ended:
		f.tell(slog.LevelInfo, "a front-end is gone, behind the end of its run", "frontend", s.who)
	default:
		f.stats.gone.Add(1)
		f.tell(slog.LevelWarn, "a front-end is gone", "frontend", s.who, "next", s.state.next, "err", why)
	}
}

// refuse tells the front-end why its connection is closed, and counts it.
func (s *session) refuse(a answer) {
	f := s.feed
	f.stats.refused.Add(1)
	f.tell(slog.LevelWarn, "a front-end is refused", "frontend", s.who, "why", a.Sentence)
	if f.ctx.Err() != nil {
		return
	}
	_ = s.c.SetWriteDeadline(time.Now().Add(lingerMost))
	if _, err := s.c.Write(appendAnswer(nil, a)); err == nil {
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

// acknowledge sends what is safe, as often as it changes or is asked for, until over; then once more.
func (s *session) acknowledge(over <-chan struct{}) {
	var sent uint64
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
		s.feed.mu.Lock()
		safe := s.feed.state.safe
		s.feed.mu.Unlock()
		if safe <= sent && !asked {
			continue
		}
		if last {
			_ = s.c.SetWriteDeadline(time.Now().Add(lingerMost))
		}
		if _, err := s.c.Write(appendAnswer(buf, answer{Code: acknowledged, Event: safe})); err != nil {
			return // the other direction ends the session
		}
		sent = safe
	}
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
	var fr frame
	for room := st.room(); room > 0; {
		if err = parseFrame(&fr, st.window()); err != nil {
			break
		}
		var v verdict
		if v, err = s.state.judge(&fr, s.from); err != nil {
			break
		}
		if v != take {
			if v == discard {
				repeated++
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

// account counts, shows the consumer what was queued, and tells the feed where the run is.
func (s *session) account(fragments, bytes, repeated uint64) {
	f := s.feed
	s.got += fragments + repeated
	f.stats.fragments.Add(fragments)
	f.stats.bytes.Add(bytes)
	f.stats.repeated.Add(repeated)
	f.store.publish()
	f.mu.Lock()
	f.state.next, f.state.ended, f.state.end = s.state.next, s.state.ended, s.state.end
	f.mu.Unlock()
	if s.state.ended {
		wake(f.store.filled)
	}
}
