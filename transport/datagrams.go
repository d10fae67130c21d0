package transport

// The engine of a link over datagrams. Pipeline:
//
//	any caller  1 write, signal    (parallel)    queued in the core under mu
//	driver      2 NextGather, Append  (sequential)  under mu: encrypted straight from the writer's memory into the batch
//	            3 Flush            (sequential)  outside mu: one system call
//	receiver    4 Reserve, Commit  (sequential)  under mu, for a read's packets: decrypted straight into their place
//	            5 Handler          (sequential)  called with the events, outside mu
//	            6 Idle             (sequential)  the socket is empty: the ack falls due
//
// The goroutine that makes something due drives, unless another one already does: a caller sends its own write, the
// receiver sends answers, acks and what new credit allows. So a write leaves without waking another goroutine. The pump
// drives when a timer has expired, when there are processors enough to encrypt on one and decrypt on another, and
// always if sending may wait for the carrier's queue.
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

// hasFewProcessors reports whether this process has too few processors to encrypt and decrypt side by side.
func hasFewProcessors() bool { return runtime.GOMAXPROCS(0) <= 2 }

// maxTurnBatches is how many batches a goroutine sends for one link before it leaves the rest to the pump: 1 MiB, a
// link's credit. The reader of a socket has other links to serve, and a caller its own work.
const maxTurnBatches = 16

type datagramEngine struct {
	// immutable after newDatagramEngine
	*peer
	conn     directConn
	pumpOnly bool          // only the pump sends, except acks
	inline   bool          // the receiver also sends
	trace    func(Stage)   // nil: no trace
	pumpWake chan struct{} // wakes the pump

	stuckTimeout time.Duration // how long the link may be stuck

	core        *link.Core   // guarded by mu
	pumpWakeAt  int64        // guarded by mu: when the pump's timer expires, ns; 0 while the pump is awake or about to be
	sendBuf     []byte       // owned by the driver, under mu
	ackBuf      []byte       // owned by the receiver; nil unless pumpOnly
	readTime    int64        // owned by the receiver: when its present read began
	parseErr    error        // owned by the receiver: of its present read
	spareEvents []link.Event // owned by the holder of notifyMu: swapped with the core's events

	sendMu   sync.Mutex // held by the driver
	notifyMu sync.Mutex // held while the handler is called
}

// newDatagramEngine makes the engine of a peer. pumpOnly says that sending may wait.
func newDatagramEngine(p *peer, conn directConn, core *link.Core, pumpOnly bool) *datagramEngine {
	l := &datagramEngine{
		peer:     p,
		conn:     conn,
		core:     core,
		pumpOnly: pumpOnly,
		inline:   hasFewProcessors(),
		pumpWake: make(chan struct{}, 1),
		sendBuf:  make([]byte, conn.MaxDatagram()),
	}
	if pumpOnly {
		l.ackBuf = make([]byte, conn.MaxDatagram())
	}
	return l
}

func (l *datagramEngine) start() {
	l.conn.Start(l)
	l.wg.Go(l.pump)
	l.wg.Go(l.watch)
}

// stop waits until the handler has returned from the events of the last read.
func (l *datagramEngine) stop() {
	l.notifyMu.Lock()
	defer l.notifyMu.Unlock() // later holders of notifyMu find the link over
}

func (l *datagramEngine) stats() link.Stats { return l.core.Stats() }

// write queues a remote write. It waits while the request queue is full.
func (l *datagramEngine) write(w link.Write, wait bool) error {
	return l.enqueue(func() bool { return l.core.Write(w) }, wait)
}

func (l *datagramEngine) writeMany(pieces []link.Piece, cookie uint64, wait bool) error {
	return l.enqueue(func() bool { return l.core.WriteMany(pieces, cookie) }, wait)
}

func (l *datagramEngine) relocateWrite(cookie uint64, to func(piece int) []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err == nil && l.core.RelocateWrite(cookie, to)
}

func (l *datagramEngine) fence(cookie uint64) error {
	return l.enqueue(func() bool { return l.core.Fence(cookie) }, true)
}

func (l *datagramEngine) signal(b []byte) error {
	l.mu.Lock()
	err := l.err
	if err == nil && !l.core.Signal(b) {
		err = fmt.Errorf("signal to %s is %d bytes long, more than %d", l.name, len(b), link.MaxSignal)
	}
	l.mu.Unlock()
	l.sendDue()
	return err
}

func (l *datagramEngine) enqueue(try func() bool, wait bool) error {
	l.mu.Lock()
	for l.err == nil && !try() {
		if !wait {
			l.mu.Unlock()
			return &l.fullErr
		}
		l.writable.Wait()
	}
	err := l.err
	l.mu.Unlock()
	if l.trace != nil {
		l.trace(StageQueued)
	}
	l.sendDue()
	return err
}

// signalPump wakes the pump.
func (l *datagramEngine) signalPump() {
	select {
	case l.pumpWake <- struct{}{}:
	default:
	}
}

// sendDue sends what is due, unless another goroutine is sending: that one looks again before it stops.
func (l *datagramEngine) sendDue() {
	if l.pumpOnly || l.sendBatches() {
		l.signalPump()
	}
}

// sendBatches sends up to maxTurnBatches batches of what is due. It reports whether more is due, or events wait for the
// handler, that no other goroutine takes care of.
func (l *datagramEngine) sendBatches() (more bool) {
	for budget := maxTurnBatches; l.sendMu.TryLock(); {
		full, err := true, error(nil)
		for ; full && budget > 0 && err == nil; budget-- {
			full, err = l.sendBatch()
		}
		l.sendMu.Unlock()
		if err != nil {
			l.fail(err)
			return false
		}
		// Another goroutine may have queued a write after the last look and found sendMu taken; look again.
		l.mu.Lock()
		due, unreported := !l.isOver() && l.core.NextDue(), !l.isOver() && l.core.HasEvents()
		l.mu.Unlock()
		if !due || budget <= 0 {
			return due || unreported
		}
	}
	return false
}

// sendBatch seals and sends one batch. It reports whether there may be more to send.
func (l *datagramEngine) sendBatch() (full bool, err error) {
	l.mu.Lock()
	if l.isOver() { // after the end a writer may reuse its memory
		l.mu.Unlock()
		return false, nil
	}
	now := monotonicNow()
	l.core.Tick(now)
	sent := false
	for !full && err == nil {
		n, body := l.core.NextGather(now, l.sendBuf)
		if n == 0 {
			break
		}
		sent = true
		if l.trace != nil {
			l.trace(StageDatagramBuilt)
		}
		full, err = l.conn.Append(l.sendBuf, n, body)
	}
	if sent && l.trace != nil {
		l.trace(StageSealed)
	}
	wake := l.mustWakePump()
	l.mu.Unlock()
	if wake {
		l.signalPump()
	}
	if sent && err == nil {
		err = l.conn.Flush()
		if l.trace != nil {
			l.trace(StageSent)
		}
	}
	return full, err
}

// BeginRead prepares the core for the packets of one read.
func (l *datagramEngine) BeginRead() bool {
	if l.trace != nil {
		l.trace(StageReceived)
	}
	l.notifyMu.Lock()
	l.mu.Lock()
	if l.isOver() {
		l.mu.Unlock()
		l.notifyMu.Unlock()
		return false
	}
	l.readTime, l.parseErr = monotonicNow(), nil
	return true
}

// Reserve asks the core where a datagram's body goes.
func (l *datagramEngine) Reserve(head []byte, n int) []byte { return l.core.Reserve(head, n) }

// Commit reports to the core that the reserved body is in place.
func (l *datagramEngine) Commit() {
	if l.trace != nil {
		l.trace(StageOpened)
	}
	l.core.Commit(l.readTime)
}

// Abort reports to the core that the reserved datagram is not authentic.
func (l *datagramEngine) Abort() { l.core.Abort() }

// Receive passes a datagram to the core.
func (l *datagramEngine) Receive(d []byte) {
	if l.trace != nil {
		l.trace(StageOpened)
	}
	if err := l.core.Receive(l.readTime, d); err != nil {
		l.parseErr = err
	}
}

// EndRead sends what has fallen due, and calls the handler with the events.
func (l *datagramEngine) EndRead() {
	ackSize := 0
	if l.pumpOnly { // the socket is empty; the pump may be waiting in a send, and the ack must not wait for it
		l.core.EndBatch()
		ackSize = l.core.NextAck(l.ackBuf)
	}
	due, wake := l.core.NextDue(), l.pumpOnly && l.mustWakePump()
	l.writable.Broadcast()
	events := l.core.Events(l.spareEvents)
	l.mu.Unlock()
	if l.trace != nil {
		l.trace(StagePlaced)
	}
	if ackSize > 0 {
		_ = l.conn.Send(l.ackBuf[:ackSize]) // the next Recv finds a broken connection
	}
	switch { // before the handler, since the peer waits for its answer
	case due && l.inline:
		l.sendDue()
	case due || wake:
		l.signalPump()
	}
	l.notifyHandler(events, l.parseErr)
	l.notifyMu.Unlock()
}

// Idle makes the ack of all that has arrived fall due.
func (l *datagramEngine) Idle() {
	l.mu.Lock()
	l.core.EndBatch()
	due := !l.isOver() && l.core.NextDue()
	wake := l.mustWakePump()
	l.mu.Unlock()
	if wake {
		l.signalPump()
	}
	if due {
		l.sendDue()
	}
}

// notifyHandler calls the handler with the events of a read.
func (l *datagramEngine) notifyHandler(events []link.Event, parseErr error) {
	if parseErr != nil {
		l.handler.Malformed(l.rank, parseErr)
	}
	l.dispatch(events)
	l.spareEvents = events
}

// notifyPending calls the handler with events that arose outside a read.
func (l *datagramEngine) notifyPending() {
	l.notifyMu.Lock()
	defer l.notifyMu.Unlock()
	l.mu.Lock()
	if l.isOver() || !l.core.HasEvents() {
		l.mu.Unlock()
		return
	}
	events := l.core.Events(l.spareEvents)
	l.writable.Broadcast()
	l.mu.Unlock()
	l.notifyHandler(events, nil)
}

// traceEvent reports the stage at which the handler is called with an event.
func (l *datagramEngine) traceEvent(k link.EventKind) {
	switch k {
	case link.EventPlaced, link.EventPlacedMany:
		l.trace(StageReceiverNotified)
	case link.EventCompleted:
		l.trace(StageWriterNotified)
	}
}

func (l *datagramEngine) dispatch(events []link.Event) {
	for i := range events {
		ev := &events[i]
		if l.trace != nil {
			l.traceEvent(ev.Kind)
		}
		switch ev.Kind {
		case link.EventPlaced:
			l.handler.Placed(l.rank, ev.Placement)
		case link.EventPlacedMany:
			l.handler.PlacedMany(l.rank, ev.Placements)
		case link.EventSignal:
			l.handler.Signal(l.rank, ev.Data)
		case link.EventCompleted:
			var err error
			if ev.Reason != 0 {
				err = &link.RefusedError{Peer: l.name, Reason: ev.Reason}
			}
			l.handler.Completed(l.rank, ev.Cookie, err)
		case link.EventFenced:
			l.handler.Completed(l.rank, ev.Cookie, nil)
		case link.EventRefused:
			l.handler.Refused(l.rank, ev.Placement, &link.RefusedError{Peer: thisNode, Reason: ev.Reason})
		}
	}
}

// pump sends what no other goroutine sends, and repairs when timers expire.
func (l *datagramEngine) pump() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		l.mu.Lock()
		l.pumpWakeAt = 0
		l.mu.Unlock()
		for l.sendBatches() {
			l.notifyPending()
		}
		if deadline := l.preparePumpSleep(); deadline != 0 {
			timer.Reset(time.Duration(deadline - monotonicNow()))
		} else {
			timer.Reset(time.Hour)
		}
		select {
		case <-l.pumpWake:
		case <-timer.C:
		case <-l.down:
			return
		}
	}
}

// preparePumpSleep returns the time until which the pump sleeps; 0: until it is woken. It notes that time in
// pumpWakeAt, for mustWakePump to compare with later deadlines.
func (l *datagramEngine) preparePumpSleep() (deadline int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	deadline = l.core.Deadline()
	if l.pumpWakeAt = deadline; deadline == 0 {
		l.pumpWakeAt = math.MaxInt64
	}
	return deadline
}

// wakeTolerance is how much later than its deadline the pump may wake: waking it earlier costs more than the delay.
const wakeTolerance = int64(100 * time.Microsecond)

// mustWakePump reports whether the pump sleeps beyond the next deadline, so the caller must wake it. The caller holds
// mu.
func (l *datagramEngine) mustWakePump() bool {
	d := l.core.Deadline()
	if d == 0 || l.pumpWakeAt == 0 || d+wakeTolerance >= l.pumpWakeAt {
		return false
	}
	l.pumpWakeAt = 0
	return true
}
