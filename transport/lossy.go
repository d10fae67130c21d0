package transport

import (
	"math/rand/v2"
	"sync/atomic"
)

// lossy throws away a share of the datagrams it receives, to show that repair works on a real network.
type lossy struct {
	Conn
	dice
}

// dice decides what is thrown away. It is owned by the receiver.
type dice struct {
	share   float64
	rng     *rand.Rand
	dropped atomic.Uint64
}

func newDice(share float64, seed uint64) dice {
	return dice{share: share, rng: rand.New(rand.NewPCG(seed, 0x6c6f7373))}
}

func (d *dice) drop() bool {
	if d.rng.Float64() >= d.share {
		return false
	}
	d.dropped.Add(1)
	return true
}

// lost is how many datagrams were thrown away.
func (d *dice) lost() uint64 { return d.dropped.Load() }

// newLossy makes a connection lose a share of what it receives.
func newLossy(c Conn, share float64, seed uint64) Conn {
	if d, ok := c.(DirectConn); ok {
		return &lossyDirect{DirectConn: d, dice: newDice(share, seed)}
	}
	return &lossy{Conn: c, dice: newDice(share, seed)}
}

// Recv passes on what is left of a batch; it goes on waiting when nothing is.
func (l *lossy) Recv(batch [][]byte) (int, error) {
	for {
		n, err := l.Conn.Recv(batch)
		if err != nil {
			return 0, err
		}
		kept := 0
		for i := range n {
			if l.drop() {
				continue
			}
			batch[kept], batch[i] = batch[i], batch[kept]
			kept++
		}
		if kept > 0 {
			return kept, nil
		}
	}
}

// lossyDirect does the same to what arrives at a Receiver, once it is known to be authentic.
type lossyDirect struct {
	DirectConn
	dice
}

func (l *lossyDirect) Start(r Receiver) {
	l.DirectConn.Start(&lossyReceiver{Receiver: r, dice: &l.dice})
}

type lossyReceiver struct {
	Receiver
	dice *dice
	lose bool // the datagram in hand
}

// Aim has what is to be lost opened aside.
func (l *lossyReceiver) Aim(head []byte, n int) []byte {
	if l.lose = l.dice.drop(); l.lose {
		return nil
	}
	return l.Receiver.Aim(head, n)
}

func (l *lossyReceiver) Receive(d []byte) {
	if !l.lose {
		l.Receiver.Receive(d)
	}
}
