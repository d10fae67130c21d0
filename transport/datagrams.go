package transport

// The engine of a link over datagrams. Pipeline:
//
//	any caller  1 write, signal    (parallel)    queued in the core under mu
//	driver      2 NextGather, Put  (sequential)  under mu: sealed straight from the writer's memory into the batch
//	            3 Flush            (sequential)  outside mu: one system call
//	receiver    4 Aim, Land        (sequential)  under mu, for a read's packets: opened straight into their place
//	            5 Handler          (sequential)  events, outside mu
//	            6 Dry              (sequential)  nothing more is at hand: the echo falls due
//
// Whoever has made something due drives, if nobody does already: a caller its own write, the receiver answers,
// echoes and what new credit allows. So a write travels without waking another goroutine. The pump drives when time
// has passed, when processors are at hand to seal on one and open on another, and always where sending may wait for
// room.
//
// Nothing here allocates per datagram.

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"

	"ringlet/transport/link"
)

// sharesProcessors says that this process has too few processors to seal and open side by side.
func sharesProcessors() bool { return runtime.GOMAXPROCS(0) <= 2 }

// turnBursts bounds what a goroutine sends for one link before it goes on with its own: 1 MiB, a link's credit. The
// reader of a socket has other links to serve, and a caller its own work; what is left then is the pump's.
const turnBursts = 16

type datagrams struct {
	// immutable after newDatagrams
	*peer
	conn   directConn
	pumped bool          // only the pump sends, but for echoes
	inline bool          // the receiver sends as well
	trace  func(Stage)   // nil: nobody follows writes
	wake   chan struct{} // the pump has something to look at

	atLeast time.Duration // how long it may be stuck; see stuckAfter

	core  *link.Core   // guarded by mu
	until int64        // guarded by mu: when the pump will wake by itself, ns; 0 while it is awake or about to be
	frame []byte       // owned by the driver, under mu
	echo  []byte       // owned by the receiver; nil where nothing is pumped
	now   int64        // of the read in hand
	bad   error        // of the read in hand
	spare []link.Event // owned by who holds telling: exchanged with the core's

	sending sync.Mutex // held by the driver
	telling sync.Mutex // held while the handler is told
}

// newDatagrams makes the engine of a peer. pumped says that sending may wait.
func newDatagrams(p *peer, conn directConn, core *link.Core, pumped bool) *datagrams {
	l := &datagrams{
		peer:   p,
		conn:   conn,
		core:   core,
		pumped: pumped,
		inline: sharesProcessors(),
		wake:   make(chan struct{}, 1),
		frame:  make([]byte, conn.MaxDatagram()),
	}
	if pumped {
		l.echo = make([]byte, conn.MaxDatagram())
	}
	return l
}

func (l *datagrams) start() {
	l.conn.Start(l)
	l.wg.Go(l.pump)
	l.wg.Go(l.watch)
}

// stop waits until the handler has been told what was in hand.
func (l *datagrams) stop() {
	l.telling.Lock()
	defer l.telling.Unlock() // who gets it now finds the link over
}

func (l *datagrams) stats() link.Stats { return l.core.Stats() }

// write queues a remote write, waiting for room in the request queue.
func (l *datagrams) write(w link.Write, wait bool) error {
	return l.queue(func() bool { return l.core.Write(w) }, wait)
}

func (l *datagrams) writeMany(pieces []link.Piece, cookie uint64, wait bool) error {
	return l.queue(func() bool { return l.core.WriteMany(pieces, cookie) }, wait)
}

func (l *datagrams) move(cookie uint64, to func(piece int) []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err == nil && l.core.Move(cookie, to)
}

func (l *datagrams) fence(cookie uint64) error {
	return l.queue(func() bool { return l.core.Fence(cookie) }, true)
}

func (l *datagrams) signal(b []byte) error {
	l.mu.Lock()
	err := l.err
	if err == nil && !l.core.Signal(b) {
		err = fmt.Errorf("signal to %s is %d bytes long, more than %d", l.name, len(b), link.MaxSignal)
	}
	l.mu.Unlock()
	l.drive()
	return err
}

func (l *datagrams) queue(try func() bool, wait bool) error {
	l.mu.Lock()
	for l.err == nil && !try() {
		if !wait {
			l.mu.Unlock()
			return &l.full
		}
		l.room.Wait()
	}
	err := l.err
	l.mu.Unlock()
	if l.trace != nil {
		l.trace(StageQueued)
	}
	l.drive()
	return err
}

// nudge makes the pump look.
func (l *datagrams) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// drive sends what is due, unless somebody else is at it and will see it.
func (l *datagrams) drive() {
	if l.pumped || l.turn() {
		l.nudge()
	}
}

// turn sends up to turnBursts batches of what is due. It reports whether more is due, or something is to be told, that
// nobody is at.
func (l *datagrams) turn() (more bool) {
	for budget := turnBursts; l.sending.TryLock(); {
		full, err := true, error(nil)
		for ; full && budget > 0 && err == nil; budget-- {
			full, err = l.burst()
		}
		l.sending.Unlock()
		if err != nil {
			l.fail(err)
			return false
		}
		// What was queued after the last look, by somebody who found the lock taken, would be nobody's.
		l.mu.Lock()
		due, untold := !l.over() && l.core.Due(), !l.over() && l.core.Untold()
		l.mu.Unlock()
		if !due || budget <= 0 {
			return due || untold
		}
	}
	return false
}

// burst seals and sends one batch. It reports whether there may be more to send.
func (l *datagrams) burst() (full bool, err error) {
	l.mu.Lock()
	if l.over() { // what was to be sent may be the writer's again
		l.mu.Unlock()
		return false, nil
	}
	now := monotonic()
	l.core.Tick(now)
	sent := false
	for !full && err == nil {
		n, body := l.core.NextGather(now, l.frame)
		if n == 0 {
			break
		}
		sent = true
		if l.trace != nil {
			l.trace(StageCut)
		}
		full, err = l.conn.Put(l.frame, n, body)
	}
	if sent && l.trace != nil {
		l.trace(StageSealed)
	}
	wake := l.wakePump()
	l.mu.Unlock()
	if wake {
		l.nudge()
	}
	if sent && err == nil {
		err = l.conn.Flush()
		if l.trace != nil {
			l.trace(StageSent)
		}
	}
	return full, err
}

// Begin readies the core for the packets of one read.
func (l *datagrams) Begin() bool {
	if l.trace != nil {
		l.trace(StageReceived)
	}
	l.telling.Lock()
	l.mu.Lock()
	if l.over() {
		l.mu.Unlock()
		l.telling.Unlock()
		return false
	}
	l.now, l.bad = monotonic(), nil
	return true
}

// Aim asks the core where a body goes.
func (l *datagrams) Aim(head []byte, n int) []byte { return l.core.Aim(head, n) }

// Land tells the core that it is there.
func (l *datagrams) Land() {
	if l.trace != nil {
		l.trace(StageOpened)
	}
	l.core.Land(l.now)
}

// Miss tells the core that it is not.
func (l *datagrams) Miss() { l.core.Miss() }

// Receive gives the core a datagram.
func (l *datagrams) Receive(d []byte) {
	if l.trace != nil {
		l.trace(StageOpened)
	}
	if err := l.core.Receive(l.now, d); err != nil {
		l.bad = err
	}
}

// End tells the handler what has happened, and sends what has fallen due.
func (l *datagrams) End() {
	echo := 0
	if l.pumped { // all that was at hand has been read; the pump may be waiting for room, and the echo must not
		l.core.EndBatch()
		echo = l.core.NextEcho(l.echo)
	}
	due, wake := l.core.Due(), l.pumped && l.wakePump()
	l.room.Broadcast()
	events := l.core.Events(l.spare)
	l.mu.Unlock()
	if l.trace != nil {
		l.trace(StagePlaced)
	}
	if echo > 0 {
		_ = l.conn.Send(l.echo[:echo]) // a broken connection is found by the next Recv
	}
	switch { // first, since the peer waits for its answer
	case due && l.inline:
		l.drive()
	case due || wake:
		l.nudge()
	}
	l.tell(events, l.bad)
	l.telling.Unlock()
}

// Dry makes the echo of what has come fall due.
func (l *datagrams) Dry() {
	l.mu.Lock()
	l.core.EndBatch()
	due := !l.over() && l.core.Due()
	wake := l.wakePump()
	l.mu.Unlock()
	if wake {
		l.nudge()
	}
	if due {
		l.drive()
	}
}

// tell gives the handler what a batch has brought.
func (l *datagrams) tell(events []link.Event, bad error) {
	if bad != nil {
		l.handler.Malformed(l.rank, bad)
	}
	l.dispatch(events)
	l.spare = events
}

// tellUntold tells the handler what has happened outside of the receiver.
func (l *datagrams) tellUntold() {
	l.telling.Lock()
	defer l.telling.Unlock()
	l.mu.Lock()
	if l.over() || !l.core.Untold() {
		l.mu.Unlock()
		return
	}
	events := l.core.Events(l.spare)
	l.room.Broadcast()
	l.mu.Unlock()
	l.tell(events, nil)
}

// traceEvent tells that the handler is about to be told.
func (l *datagrams) traceEvent(k link.Kind) {
	switch k {
	case link.Placed, link.PlacedMany:
		l.trace(StageSeen)
	case link.Completed:
		l.trace(StageAnswered)
	}
}

func (l *datagrams) dispatch(events []link.Event) {
	for i := range events {
		ev := &events[i]
		if l.trace != nil {
			l.traceEvent(ev.Kind)
		}
		switch ev.Kind {
		case link.Placed:
			l.handler.Placed(l.rank, Placement{
				Ref:    ev.Ref,
				Offset: ev.Offset,
				Length: ev.Length,
				Imm:    ev.Imm,
			})
		case link.PlacedMany:
			l.handler.PlacedMany(l.rank, ev.Many)
		case link.Signalled:
			l.handler.Signal(l.rank, ev.Data)
		case link.Completed:
			var err error
			if ev.Reason != 0 {
				err = &link.RefusedError{Peer: l.name, Reason: ev.Reason}
			}
			l.handler.Completed(l.rank, ev.Cookie, err)
		case link.Fenced:
			l.handler.Completed(l.rank, ev.Cookie, nil)
		case link.Refused:
			l.handler.Refused(l.rank, Placement{
				Ref:    ev.Ref,
				Offset: ev.Offset,
				Length: ev.Length,
				Imm:    ev.Imm,
			},
				&link.RefusedError{Peer: thisNode, Reason: ev.Reason})
		}
	}
}

// pump sends what nobody else does, and repairs by time.
func (l *datagrams) pump() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		l.mu.Lock()
		l.until = 0
		l.mu.Unlock()
		for l.turn() {
			l.tellUntold()
		}
		if deadline := l.rest(); deadline != 0 {
			timer.Reset(time.Duration(deadline - monotonic()))
		} else {
			timer.Reset(time.Hour)
		}
		select {
		case <-l.wake:
		case <-timer.C:
		case <-l.down:
			return
		}
	}
}

// rest notes that the pump sleeps from now on, and returns until when: the deadline may move back meanwhile, and is
// then computed anew. 0: until it is woken.
func (l *datagrams) rest() (deadline int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	deadline = l.core.Deadline()
	if l.until = deadline; deadline == 0 {
		l.until = math.MaxInt64
	}
	return deadline
}

// wakeSlack is how much later than its deadline the pump may wake: a wake-up costs more than so much patience.
const wakeSlack = int64(100 * time.Microsecond)

// wakePump reports whether the pump must be woken, since it sleeps beyond the next deadline. mu is held.
func (l *datagrams) wakePump() bool {
	d := l.core.Deadline()
	if d == 0 || l.until == 0 || d+wakeSlack >= l.until {
		return false
	}
	l.until = 0
	return true
}
