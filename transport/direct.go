package transport

// One link's shell where the carrier seals and opens by itself (DirectConn). Pipeline:
//
//	any caller  1 Write, Signal    (parallel)    queued in the core under mu
//	driver      2 NextGather, Put  (sequential)  under mu: sealed straight from the writer's memory into the batch
//	            3 Flush            (sequential)  outside mu: one system call
//	receiver    4 Aim, Land        (sequential)  under mu, for a read's packets: opened straight into the exported segment
//	            5 Handler          (sequential)  events, outside mu
//	            6 Dry              (sequential)  nothing more is at hand: the echo falls due
//
// Whoever has made something due drives, if nobody does already: a caller its own write, the receiver answers, echoes and what new credit
// allows. So a write travels without waking another goroutine. The pump drives when time has passed, and when processors are at
// hand to seal on one and open on another.

import (
	"context"
	"runtime"

	"ringlet/transport/link"
)

// sharesProcessors says that this process has too few processors to seal and open side by side.
func sharesProcessors() bool { return runtime.GOMAXPROCS(0) <= 2 }

// turnBursts bounds what a goroutine sends for one link before it goes on with its own: 1 MiB, a link's credit. The
// reader of a socket has other links to serve, and a caller its own work; what is left then is the pump's.
const turnBursts = 16

// drive sends what is due, unless somebody else is at it and will see it.
func (p *peer) drive() {
	if p.turn() {
		p.nudge()
	}
}

// turn sends up to turnBursts batches of what is due. It reports whether more is due, or something is to be told, that
// nobody is at.
func (p *peer) turn() (more bool) {
	for left := turnBursts; p.sending.TryLock(); {
		full, err := true, error(nil)
		for ; full && left > 0 && err == nil; left-- {
			full, err = p.burst()
		}
		p.sending.Unlock()
		if err != nil {
			p.fail(err)
			return false
		}
		// What was queued after the last look, by somebody who found the lock taken, would be nobody's.
		p.mu.Lock()
		due, untold := !p.over() && p.core.Due(), !p.over() && p.core.Untold()
		p.mu.Unlock()
		if !due || left <= 0 {
			return due || untold
		}
	}
	return false
}

// over reports whether the link has ended, which whoever ended it has told. The caller holds mu.
func (p *peer) over() bool { return p.err != nil }

// burst seals and sends one batch. It reports whether there may be more to send.
func (p *peer) burst() (full bool, err error) {
	p.mu.Lock()
	if p.over() {
		p.mu.Unlock()
		return false, nil
	}
	now := monotonic()
	p.core.Tick(now)
	sent := false
	for !full && err == nil {
		n, body := p.core.NextGather(now, p.frame)
		if n == 0 {
			break
		}
		sent = true
		full, err = p.direct.Put(p.frame, n, body)
	}
	wake := p.wakePump()
	p.mu.Unlock()
	if wake {
		p.nudge()
	}
	if sent && err == nil {
		err = p.direct.Flush()
	}
	return full, err
}

// Begin readies the core for the packets of one read.
func (p *peer) Begin() bool {
	p.telling.Lock()
	p.mu.Lock()
	if p.over() {
		p.mu.Unlock()
		p.telling.Unlock()
		return false
	}
	p.now, p.bad = monotonic(), nil
	return true
}

// Aim asks the core where a body goes.
func (p *peer) Aim(head []byte, n int) []byte { return p.core.Aim(head, n) }

// Land tells the core that it is there.
func (p *peer) Land() { p.core.Land(p.now) }

// Miss tells the core that it is not.
func (p *peer) Miss() { p.core.Miss() }

// Receive gives the core a datagram.
func (p *peer) Receive(d []byte) {
	if err := p.core.Receive(p.now, d); err != nil {
		p.bad = err
	}
}

// End tells the handler what has happened, and sends what has fallen due.
func (p *peer) End() {
	due := p.core.Due()
	p.room.Broadcast()
	events := p.core.Events(p.spare)
	p.mu.Unlock()
	if due {
		p.driveOrNudge() // first, since the peer waits for its answer
	}
	p.tell(events, p.bad)
	p.telling.Unlock()
}

// tell gives the handler what a batch has brought.
func (p *peer) tell(events []link.Event, bad error) {
	if bad != nil {
		p.handler.Malformed(p.rank, bad)
	}
	p.dispatch(events)
	p.spare = events
}

// Dry makes the echo of what has come fall due.
func (p *peer) Dry() {
	p.mu.Lock()
	p.core.EndBatch()
	due := !p.over() && p.core.Due()
	wake := p.wakePump()
	p.mu.Unlock()
	if wake {
		p.nudge()
	}
	if due {
		p.drive()
	}
}

// driveOrNudge sends what has fallen due, here or in the pump.
func (p *peer) driveOrNudge() {
	if p.inline {
		p.drive()
		return
	}
	p.nudge()
}

// tend is the pump of a direct link: it repairs by time.
func (p *peer) tend() {
	defer p.wg.Done()
	timer := newSleeper()
	defer timer.stop()
	for {
		p.mu.Lock()
		p.until = 0
		p.mu.Unlock()
		for p.turn() {
			p.tellUntold()
		}
		p.mu.Lock()
		deadline := p.rest()
		p.mu.Unlock()
		if !timer.sleep(deadline, p.wake, p.down) {
			return
		}
	}
}

// attend waits for the end of a direct link's connection.
func (p *peer) attend() {
	defer p.wg.Done()
	_, err := p.conn.Recv(nil)
	if err == nil {
		err = context.Canceled // a connection ends with a reason
	}
	p.fail(err)
	p.telling.Lock()
	defer p.telling.Unlock()
	p.tellDown()
}
