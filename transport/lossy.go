package transport

import (
	"math/rand/v2"
	"sync/atomic"
)

// lossy throws away a share of the datagrams that it receives, once they are known to be authentic, to show that
// repair works on a real network.
type lossy struct {
	directConn
	Receiver // of what is left

	// owned by the receiver
	share float64
	rng   *rand.Rand
	aimed bool // the datagram in hand has been aimed, so its fate is known
	lose  bool

	dropped atomic.Uint64
}

// newLossy makes a connection lose a share of what it receives.
func newLossy(c directConn, share float64, seed uint64) *lossy {
	return &lossy{directConn: c, share: share, rng: rand.New(rand.NewPCG(seed, 0x6c6f7373))}
}

func (l *lossy) Start(r Receiver) {
	l.Receiver = r
	l.directConn.Start(l)
}

func (l *lossy) draw() {
	if l.lose = l.rng.Float64() < l.share; l.lose {
		l.dropped.Add(1)
	}
}

// Aim has what is to be lost opened aside.
func (l *lossy) Aim(head []byte, n int) []byte {
	l.draw()
	l.aimed = true
	if l.lose {
		return nil
	}
	return l.Receiver.Aim(head, n)
}

func (l *lossy) Land() {
	l.aimed = false
	l.Receiver.Land()
}

func (l *lossy) Miss() {
	l.aimed = false
	l.Receiver.Miss()
}

func (l *lossy) Receive(d []byte) {
	if !l.aimed {
		l.draw()
	}
	l.aimed = false
	if !l.lose {
		l.Receiver.Receive(d)
	}
}
