package transport

import (
	"math/rand/v2"
	"sync/atomic"
)

// lossyConn drops a share of the authentic datagrams that arrive, to show on a real network that the link repairs
// losses.
type lossyConn struct {
	directConn
	Receiver // gets the datagrams that are not dropped

	// owned by the receiver
	dropShare     float64
	rng           *rand.Rand
	reserveCalled bool // Reserve has already decided whether to drop the current datagram
	dropCurrent   bool

	dropped atomic.Uint64
}

// newLossyConn wraps a connection, and drops a share of what arrives.
func newLossyConn(c directConn, share float64, seed uint64) *lossyConn {
	return &lossyConn{directConn: c, dropShare: share, rng: rand.New(rand.NewPCG(seed, 0x6c6f7373))}
}

func (l *lossyConn) Start(r Receiver) {
	l.Receiver = r
	l.directConn.Start(l)
}

func (l *lossyConn) drawLoss() {
	if l.dropCurrent = l.rng.Float64() < l.dropShare; l.dropCurrent {
		l.dropped.Add(1)
	}
}

// Reserve returns nil for a datagram that is to be dropped, so that its bytes reach no window.
func (l *lossyConn) Reserve(head []byte, n int) []byte {
	l.drawLoss()
	l.reserveCalled = true
	if l.dropCurrent {
		return nil
	}
	return l.Receiver.Reserve(head, n)
}

func (l *lossyConn) Commit() {
	l.reserveCalled = false
	l.Receiver.Commit()
}

func (l *lossyConn) Abort() {
	l.reserveCalled = false
	l.Receiver.Abort()
}

func (l *lossyConn) Receive(d []byte) {
	if !l.reserveCalled {
		l.drawLoss()
	}
	l.reserveCalled = false
	if !l.dropCurrent {
		l.Receiver.Receive(d)
	}
}
