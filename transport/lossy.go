package transport

import (
	"math/rand/v2"
	"sync/atomic"
)

// lossy throws away a share of the datagrams it receives, to show that repair works on a real network.
type lossy struct {
	Conn
	share   float64
	rng     *rand.Rand
	dropped atomic.Uint64
}

func newLossy(c Conn, share float64, seed uint64) *lossy {
	return &lossy{Conn: c, share: share, rng: rand.New(rand.NewPCG(seed, 0x6c6f7373))}
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
			if l.rng.Float64() < l.share {
				l.dropped.Add(1)
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
