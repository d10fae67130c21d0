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
	"ringlet/source/live"
)

const (
	// helloTimeout is how long a front-end may take for its hello. Then its connection is closed.
	helloTimeout = 5 * time.Second
	// lingerTimeout is how long a connection stays open after a refusal, so that the front-end can read it, and how long
	// the last acknowledgement may take when a feed is closed.
	lingerTimeout = time.Second
)

// frontendConn is a connection to a front-end.
type frontendConn interface {
	io.ReadWriteCloser
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	CloseWrite() error
}

// session is one connection, owned by one goroutine.
type session struct {
	feed     *feed
	conn     frontendConn
	frontend string // name and place of the front-end

	admission *connlimit.Place // nil: a program of exec:, which needs none

	helloBytes []byte // the front-end's hello
	version    uint8  // of the format, as the front-end speaks it; immutable once it is attached
	follows    bool   // the run; immutable once it is attached
	// The attached session owns the end of the run in state, and reports it to the feed after each read.
	state            runState
	resumeFrom       uint64
	storedEvents     map[uint64]struct{} // events from resumeFrom on whose fragments were there on attaching
	bankType         event.BankType
	received         uint64        // fragments
	belowResumeCount uint64        // fragments below resumeFrom since the last report of them
	belowRanges      givenUpRanges // the same as ranges, to be told to the front-end
	busy             bool          // the front-end says so; owned by the goroutine that reads

	// guarded by feed.mu
	newGivenUp   givenUpRanges // given up, and not told to the front-end yet
	newCommands  []answer      // of the run, which the front-end follows, and not told to it yet
	detached     bool          // this front-end is told no more than detachedSafe
	detachedSafe uint64

	ackDue     chan struct{} // capacity 1: holds a mark if the front-end is to be told what is safe
	ackRepeat  chan struct{} // capacity 1: holds a mark if the newest acknowledgement is to be sent again
	storeFull  atomic.Bool   // receive waits for room in the store
	evict      func()        // ends a session that waits for room; may be called again
	evicted    chan struct{} // closed by evict
	detachDone chan struct{} // closed when another front-end may attach
}

// newSession returns a session without a hello.
func newSession(f *feed, c frontendConn, where string) *session {
	s := &session{
		feed:       f,
		conn:       c,
		frontend:   truncateSentence(where),
		version:    version1,
		ackDue:     make(chan struct{}, 1),
		ackRepeat:  make(chan struct{}, 1),
		evicted:    make(chan struct{}),
		detachDone: make(chan struct{}),
	}
	s.evict = sync.OnceFunc(func() { close(s.evicted) })
	return s
}

// serve serves a front-end's connection to its end, and closes it. It returns how many fragments came, and why the
// session ended; nil, if the front-end or the feed ended it.
func (f *feed) serve(c frontendConn, where string, place *connlimit.Place) (uint64, error) {
	s := newSession(f, c, where)
	s.admission = place
	defer func() { _ = c.Close() }()
	unblock := context.AfterFunc(f.ctx, func() {
		_ = c.SetWriteDeadline(time.Now().Add(lingerTimeout))
		_ = c.SetReadDeadline(time.Unix(1, 0))
	})
	defer unblock()
	h, err := s.readHello()
	if h.Version == currentVersion {
		s.version = currentVersion
	}
	if err != nil {
		if f.ctx.Err() == nil && !errors.Is(err, io.EOF) { // a connection without a byte only probes the port
			s.refuse(answer{Code: codeBadFormat, Sentence: err.Error()})
			return 0, err
		}
		return 0, nil
	}
	if h.Name != "" {
		s.frontend = truncateSentence(fmt.Sprintf("%q at %s", h.Name, where))
	}
	if refusal := s.verifyProof(h); refusal != nil {
		s.refuse(*refusal)
		return 0, errors.New(refusal.Sentence)
	}
	if !place.SetYielding(false) {
		return 0, nil // its place went to a new connection, and the log says so
	}
	if refusal := s.takeOver(h); refusal != nil {
		s.refuse(*refusal)
		return 0, errors.New(refusal.Sentence)
	}
	acked := make(chan struct{})
	over := make(chan struct{})
	go func() {
		defer close(acked)
		s.runAcks(over)
	}()
	err = s.receive()
	s.detach(err)
	close(over)
	_ = c.SetWriteDeadline(time.Now().Add(lingerTimeout)) // a front-end that reads no answers could delay the last one
	<-acked
	if f.ctx.Err() != nil {
		s.closeGracefully()
		return s.received, nil
	}
	var broken *formatError
	if errors.As(err, &broken) {
		s.refuse(answer{Code: codeBadFormat, Sentence: err.Error()})
		return s.received, err
	}
	return s.received, nil
}

// readHello reads the front-end's hello and not a byte more: a program may write frames right after it.
func (s *session) readHello() (hello, error) {
	if err := s.conn.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
		return hello{}, err
	}
	if s.feed.ctx.Err() != nil {
		return hello{}, io.EOF
	}
	var b [helloSize + maxOptions]byte
	n, most := 0, helloSize
	for {
		k, err := s.conn.Read(b[n:most])
		n += k
		h, _, broken := parseHello(b[:n])
		if broken == nil || !errors.Is(broken, errMoreBytesNeeded) {
			s.helloBytes = bytes.Clone(b[:n])
			return h, broken
		}
		if n == helloSize {
			behind, _ := helloTailSize(b[:]) // the error is in the hello, and parseHello reports it
			most = helloSize + behind
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			return h, fmt.Errorf("no hello came within %v: a front-end says hello as soon as it is connected", helloTimeout)
		case n == 0:
			return h, io.EOF
		default:
			return h, fmt.Errorf("the connection ended within a hello: %w", err)
		}
	}
}

// attach attaches the front-end to the feed, and answers its hello. Otherwise it returns the refusal, and the session
// of the attached front-end if the refusal is that the input is busy.
func (s *session) attach(h hello) (refusal *answer, before *session) {
	f := s.feed
	f.mu.Lock()
	var numbers []uint64
	if f.set.WrapBits == 0 { // the consumer reports fragments as taken before it frees them, so each is counted
		numbers = f.store.eventNumbers()
	}
	a := f.state.answerHello(h, &f.set, f.state.resumeFrom(numbers))
	if a.Code != codeAccepted {
		if a.Code == codeBusy {
			before = f.session
		}
		f.mu.Unlock()
		return &a, before
	}
	f.state.attachedFrontend, f.lastFrontend, f.session = s.frontend, s.frontend, s
	f.sourceName = ""
	if err := live.CheckSourceName(h.SourceName); err == nil {
		f.sourceName = h.SourceName
	} else if h.SourceName != "" {
		f.set.Log.Warn("the name that a front-end gives its source is not used", "err", err)
	}
	s.state = f.state
	if s.follows = h.Follows; s.follows {
		s.newCommands = append(s.newCommands, f.describeSource()...)
		wake(s.ackDue)
	}
	follows := s.follows || f.control.isFollowed()
	f.stepLifeLocked(live.LifeInput{Event: live.FrontendAttached, Follows: follows})
	if s.version > version1 {
		s.newGivenUp = slices.Clone(f.state.givenUp)
	}
	if f.state.safeBelow > 0 || len(s.newGivenUp) > 0 || f.state.ended {
		wake(s.ackDue)
	}
	f.mu.Unlock()
	f.stats.attached.Add(1)
	s.bankType = event.BankType(h.Type)
	if f.set.WrapBits == 0 { // else the numbers of frames cannot be compared with the one that was asked for
		s.resumeFrom = a.A
	}
	if h.Type == noType {
		s.bankType = event.TestDet
	}
	s.storedEvents = eventsFrom(numbers, s.resumeFrom)
	f.logEvent(slog.LevelInfo, "a front-end is attached", "frontend", s.frontend, "next", a.A)
	f.warnOldVersion()
	// A connection whose hello has just come has room for an answer; if it is broken, receive says so.
	_, _ = s.conn.Write(appendAnswer(nil, s.version, a))
	if err := s.conn.SetReadDeadline(time.Time{}); err == nil && f.ctx.Err() != nil {
		_ = s.conn.SetReadDeadline(time.Unix(1, 0))
	}
	return nil, nil
}

// eventsFrom returns the events of numbers that a front-end which resumes at from may send again.
func eventsFrom(numbers []uint64, from uint64) map[uint64]struct{} {
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
	f.store.discardUnparsed()
	s.setBusy(false)
	f.mu.Lock()
	f.stepLifeLocked(live.LifeInput{Event: live.FrontendGone})
	f.state.attachedFrontend, f.session = "", nil
	s.detached, s.detachedSafe = true, f.state.ackFor(s.version)
	ended, acceptedBelow := f.state.ended, f.state.acceptedBelow
	f.mu.Unlock()
	close(s.detachDone)
	if errors.Is(why, io.EOF) {
		why = errors.New("its connection is closed, and it has not said that its run is over")
	}
	switch {
	case f.ctx.Err() != nil:
	case ended:
		f.logEvent(slog.LevelInfo, "a front-end is gone, after the end of its run", "frontend", s.frontend)
	default:
		f.stats.gone.Add(1)
		f.logEvent(slog.LevelWarn, "a front-end is gone", "frontend", s.frontend, "next", acceptedBelow, "why", why)
	}
}

// refuse tells the front-end why its connection is closed, and counts the refusal.
func (s *session) refuse(a answer) {
	f := s.feed
	if !s.admission.SetYielding(true) {
		return // its place went to a new connection, and the log says so
	}
	f.countRefusal(s.frontend, a.Sentence)
	f.logEvent(slog.LevelWarn, "a front-end is refused", "frontend", s.frontend, "why", a.Sentence)
	if f.ctx.Err() != nil {
		return
	}
	_ = s.conn.SetWriteDeadline(time.Now().Add(lingerTimeout))
	if _, err := s.conn.Write(appendAnswer(nil, s.version, a)); err == nil {
		s.closeGracefully()
	}
}

// closeGracefully waits for at most lingerTimeout until the front-end has read the last answer and closes: a
// connection that is closed with unread bytes is reset, and the answer in it is lost.
func (s *session) closeGracefully() {
	_ = s.conn.SetReadDeadline(time.Now().Add(lingerTimeout))
	if err := s.conn.CloseWrite(); err == nil {
		_, _ = io.Copy(io.Discard, s.conn)
	}
}

// runAcks tells the front-end what is safe and what was given up, whenever that changes or is asked for, until over is
// closed; then it does so a last time.
func (s *session) runAcks(over <-chan struct{}) {
	var t ackedState
	buf := make([]byte, 0, answerSize)
	for last := false; !last; {
		repeat := false
		select {
		case <-s.ackDue:
		case <-s.ackRepeat:
			repeat = true
		case <-over:
			last = true
		}
		buf = s.appendAnswers(buf[:0], &t, repeat)
		if len(buf) == 0 {
			continue
		}
		if last {
			_ = s.conn.SetWriteDeadline(time.Now().Add(lingerTimeout))
		}
		if _, err := s.conn.Write(buf); err != nil {
			return // receive notices, too, and ends the session
		}
	}
}

// ackedState is what a session has told its front-end.
type ackedState struct {
	safeBelow uint64
	endAcked  bool
	saidBusy  bool // the front-end knows whether the readout unit is busy
	busy      live.BusyCauses
}

// appendAnswers appends the answers that are due. Given-up fragments come before the acknowledgement that covers them.
func (s *session) appendAnswers(dst []byte, t *ackedState, repeat bool) []byte {
	f := s.feed
	f.mu.Lock()
	safe, news := f.state.ackFor(s.version), s.newGivenUp
	ended, end := f.state.ended, f.state.endEvent
	commands, busy := s.newCommands, f.busy
	s.newCommands = nil
	if s.newGivenUp = nil; s.detached {
		safe = s.detachedSafe // fragments given up from now on are not in news
	}
	f.mu.Unlock()
	for _, a := range commands {
		dst = appendAnswer(dst, s.version, a)
	}
	if s.follows && (!t.saidBusy || t.busy != busy) {
		t.saidBusy, t.busy = true, busy
		dst = appendAnswer(dst, s.version, answer{Code: codeUnitBusy, A: uint64(busy), B: f.set.Run})
	}
	for _, x := range news {
		dst = appendAnswer(dst, s.version, x.answer())
	}
	if ended && !t.endAcked && s.version > version1 {
		t.endAcked = true
		dst = appendAnswer(dst, s.version, answer{Code: codeEndReceived, A: end})
	}
	if safe > t.safeBelow || repeat {
		t.safeBelow = max(t.safeBelow, safe)
		dst = appendAnswer(dst, s.version, answer{Code: codeAcknowledged, A: t.safeBelow})
	}
	return dst
}

// receive reads frames into the store until the connection ends. It allocates nothing for a fragment.
func (s *session) receive() error {
	st := s.feed.store
	for {
		short, err := s.queueFrames()
		if err != nil {
			return err
		}
		var space []byte
		if short { // otherwise complete frames wait there, and no read may delay them
			space = st.readSpace(frameBytesNeeded(st.unparsedBytes(), s.feed.set.MaxFragment))
		}
		if len(space) == 0 {
			if err := s.waitForSpace(); err != nil {
				return err
			}
			continue
		}
		n, err := s.conn.Read(space[:min(len(space), maxReadBytes)])
		st.commitRead(n)
		if n == 0 && err != nil { // all bytes before are parsed
			return err
		}
	}
}

// waitForSpace waits until the consumer has freed memory.
func (s *session) waitForSpace() error {
	s.storeFull.Store(true)
	defer s.storeFull.Store(false)
	select {
	case <-s.feed.store.memoryFreed:
		return nil
	case <-s.evicted:
		return errReplaced
	case <-s.feed.ctx.Done():
		return s.feed.ctx.Err()
	}
}

// queueFrames queues complete frames while the store has entries for them. short: no complete frame is left.
func (s *session) queueFrames() (short bool, err error) {
	st := s.feed.store
	var fragments, bytes, repeated uint64
	known := uint8(flagsKnown)
	if s.version == version1 {
		known = flagsVersion1
	}
	if s.follows {
		known |= flagMessage
	}
	var fr frame
	for free := st.freeEntries(); free > 0; {
		if err = parseFrame(&fr, st.unparsedBytes(), known, s.feed.set.MaxFragment); err != nil {
			break
		}
		if fr.Flags&flagMessage != 0 {
			if err = s.takeMessage(&fr); err != nil {
				break
			}
			st.skip(fr.size())
			continue
		}
		var v frameVerdict
		if v, err = s.state.judgeFrame(&fr, s.resumeFrom, s.storedEvents); err != nil {
			break
		}
		if v != frameHandOut {
			if v == frameDiscard {
				repeated++
				s.noteBelowResume(&fr)
			}
			st.skip(fr.size())
			continue
		}
		typ := s.bankType
		if fr.Flags&flagTyped != 0 {
			typ = event.BankType(fr.Type)
		}
		st.enqueue(live.Fragment{Event: fr.Event, Type: typ, Data: fr.Data, Words: fr.Words}, fr.size())
		free--
		fragments++
		bytes += uint64(len(fr.Data))
	}
	s.publishFrames(fragments, bytes, repeated)
	if errors.Is(err, errMoreBytesNeeded) {
		return true, nil
	}
	return false, err
}

// publishFrames counts the queued fragments, publishes them to the consumer, and tells the feed if the run has ended.
func (s *session) publishFrames(fragments, bytes, repeated uint64) {
	f := s.feed
	s.received += fragments + repeated
	f.stats.fragments.Add(fragments)
	f.stats.bytes.Add(bytes)
	f.stats.repeated.Add(repeated)
	f.store.publish()
	f.mu.Lock()
	news := s.state.ended && !f.state.ended
	if news {
		f.stepLifeLocked(live.LifeInput{Event: live.FrontendOver})
	}
	f.state.ended, f.state.endEvent = s.state.ended, s.state.endEvent
	acceptedBelow := f.state.acceptedBelow
	for _, x := range s.belowRanges {
		s.newGivenUp.add(x)
	}
	f.mu.Unlock()
	if news {
		s.setBusy(false)
	}
	if news || len(s.belowRanges) > 0 {
		wake(s.ackDue)
	}
	if s.belowResumeCount > 0 {
		f.logEvent(slog.LevelWarn, "a front-end sends events below the one that it was asked for: they are thrown away",
			"frontend", s.frontend, "asked for", s.resumeFrom, "such", s.belowResumeCount)
	}
	s.belowRanges, s.belowResumeCount = s.belowRanges[:0], 0
	if news && !s.state.wraps && s.state.endEvent < acceptedBelow {
		f.logEvent(slog.LevelWarn, "the run is declared over below events that came", "frontend", s.frontend, "end",
			s.state.endEvent,
			"came", acceptedBelow)
	}
	if s.state.ended {
		wake(f.store.fragmentsQueued)
	}
}
