package link

import (
	"fmt"
	"testing"
)

// Fewer is a tenth where tests shall be short.
func Fewer(n int) int {
	if testing.Short() {
		return max(1, n/10)
	}
	return n
}

// StartLanes makes both directions between a and b begin with datagram number seq, so that a test sees the numbers
// wrap.
func StartLanes(seq uint32, cores ...*Core) {
	for _, c := range cores {
		for l := range lanes {
			s, r := &c.send[l], &c.recv[l]
			s.limit = seq + (s.limit - s.next)
			s.next, s.low = seq, seq
			r.next, r.high, r.distinct = seq, seq, seq
		}
	}
}

// InFlight is how many datagrams of each lane are outstanding, and how many may be.
func (c *Core) InFlight() (live, credit [lanes]int) {
	for l := range lanes {
		live[l], credit[l] = c.send[l].live, int(c.recv[l].credit)
	}
	return live, credit
}

// Audit counts everything that the core counts along the way again, the slow way.
func (c *Core) Audit() error {
	if err := c.auditTransactions(); err != nil {
		return err
	}
	for l := range lanes {
		s, r := &c.send[l], &c.recv[l]
		live, waiting := 0, 0
		for i := range s.ring {
			if s.ring[i].live {
				live++
				if s.ring[i].queued {
					waiting++
				}
				if seq := s.ring[i].seq; int32(seq-s.low) < 0 || int32(seq-s.next) >= 0 {
					return fmt.Errorf("lane %d: datagram %d is outstanding outside [%d,%d)", l, seq, s.low, s.next)
				}
			}
		}
		if live != s.live || live > int(r.credit) {
			return fmt.Errorf("lane %d: %d datagrams outstanding, %d counted, credit %d", l, live, s.live, r.credit)
		}
		if waiting != s.waiting {
			return fmt.Errorf("lane %d: %d datagrams wait to be sent again, %d counted", l, waiting, s.waiting)
		}
		if int32(s.next-s.limit) > 0 {
			return fmt.Errorf("lane %d: number %d is beyond the credit %d", l, s.next, s.limit)
		}
		if r.high-r.next > uint32(len(r.bits)*64) || int32(r.high-r.limit()) > 0 {
			return fmt.Errorf("lane %d: bitmap holds [%d,%d), credit %d", l, r.next, r.high, r.limit())
		}
	}
	return nil
}

func (c *Core) auditTransactions() error {
	var free [maxTx]bool
	for _, i := range c.freeTx {
		if free[i] || c.tx[i].live {
			return fmt.Errorf("transaction %d is free twice, or free and used", i)
		}
		free[i] = true
	}
	used := 0
	for i := range c.tx {
		if c.tx[i].live {
			used++
			if o := &c.ops[c.tx[i].op%maxOps]; o.done || o.open == 0 {
				return fmt.Errorf("transaction %d belongs to a request that is over", i)
			}
		}
	}
	if used+len(c.freeTx) != maxTx {
		return fmt.Errorf("%d transaction ids used + %d free, not %d", used, len(c.freeTx), maxTx)
	}
	return nil
}

// What the tests of the package name beside what it exports.
func (c *Core) Idle() bool { return c.idle() }
