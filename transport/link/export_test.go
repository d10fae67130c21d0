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

// StartSpaces makes both directions between a and b begin with datagram number seq, so that a test sees the numbers
// wrap.
func StartSpaces(seq uint32, cores ...*Core) {
	for _, c := range cores {
		for l := range numSpaces {
			s, r := &c.recovery.send[l], &c.acks.recv[l]
			s.creditLimit = seq + (s.creditLimit - s.nextNumber)
			s.nextNumber, s.oldestLive = seq, seq
			r.firstMissing, r.highestPlusOne, r.distinctReceived = seq, seq, seq
		}
	}
}

// InFlight is how many datagrams of each space are outstanding, and how many may be.
func (c *Core) InFlight() (live, credit [numSpaces]int) {
	for l := range numSpaces {
		live[l], credit[l] = c.recovery.send[l].inFlight, int(c.acks.recv[l].credit)
	}
	return live, credit
}

// Audit counts everything that the core counts along the way again, the slow way.
func (c *Core) Audit() error {
	if err := c.requester.audit(); err != nil {
		return err
	}
	for l := range numSpaces {
		s, r := &c.recovery.send[l], &c.acks.recv[l]
		live, waiting := 0, 0
		for i := range s.records {
			if s.records[i].outstanding {
				live++
				if s.records[i].repairQueued {
					waiting++
				}
				if seq := s.records[i].seq; int32(seq-s.oldestLive) < 0 || int32(seq-s.nextNumber) >= 0 {
					return fmt.Errorf("space %d: datagram %d is outstanding outside [%d,%d)", l, seq, s.oldestLive, s.nextNumber)
				}
			}
		}
		if live != s.inFlight || live > int(r.credit) {
			return fmt.Errorf("space %d: %d datagrams outstanding, %d counted, credit %d", l, live, s.inFlight, r.credit)
		}
		if waiting != s.awaitingRepair {
			return fmt.Errorf("space %d: %d datagrams wait to be sent again, %d counted", l, waiting, s.awaitingRepair)
		}
		if int32(s.nextNumber-s.creditLimit) > 0 {
			return fmt.Errorf("space %d: number %d is beyond the credit %d", l, s.nextNumber, s.creditLimit)
		}
		if r.highestPlusOne-r.firstMissing > uint32(len(r.receivedBits)*64) || int32(r.highestPlusOne-r.creditLimit()) > 0 {
			return fmt.Errorf("space %d: bitmap holds [%d,%d), credit %d", l, r.firstMissing, r.highestPlusOne, r.creditLimit())
		}
	}
	return nil
}

func (q *requester) audit() error {
	var free [maxTransactions]bool
	for _, i := range q.freeTransactions {
		if free[i] || q.outTransactions[i].inUse {
			return fmt.Errorf("transaction %d is free twice, or free and used", i)
		}
		free[i] = true
	}
	used := 0
	for i := range q.outTransactions {
		if q.outTransactions[i].inUse {
			used++
			if o := &q.ops[q.outTransactions[i].op%maxOps]; o.isDone || o.openTransactions == 0 {
				return fmt.Errorf("transaction %d belongs to a request that is over", i)
			}
		}
	}
	if used+len(q.freeTransactions) != maxTransactions {
		return fmt.Errorf("%d transaction ids used + %d free, not %d", used, len(q.freeTransactions), maxTransactions)
	}
	return nil
}

// isIdle reports whether nothing is queued, outstanding or owed.
func (c *Core) isIdle() bool {
	return c.requester.isIdle() && c.signals.isIdle() && c.responder.responses.len() == 0 && c.recovery.inFlight() == 0 &&
		!c.acks.due && !c.acks.owes()
}

func (q *requester) isIdle() bool { return q.opHead == q.opTail }

func (g *signals) isIdle() bool { return g.oldestUnacked == g.nextNumber }

// What the tests of the package name beside what it exports.
func (c *Core) Idle() bool { return c.isIdle() }
