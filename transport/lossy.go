package transport

import (
	"math/rand/v2"
	"sync/atomic"
)

// lossyConn throws away a share of the datagrams that it receives, once they are known to be authentic, to show that
// repair works on a real network.
type lossyConn struct {
	directConn
	Receiver // of what is left

	// owned by the receiver
	dropShare     float64
	rng           *rand.Rand
	reserveCalled bool // Reserve was called for the datagram in hand, so its fate is known
	dropCurrent   bool

	dropped atomic.Uint64
}

// newLossyConn makes a connection lose a share of what it receives.
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

// Reserve has what is to be lost opened aside.
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
