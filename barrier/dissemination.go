package barrier

import "math/bits"

// maxRounds is the number of rounds for maxRanks.
const maxRounds = 16

// dissemination is the algorithm without a tree and without a release. In round k rank r signals r+2^k and is signalled
// by r−2^k, modulo n. The signal of round k from rank p says that p and the 2^k−1 ranks behind it have entered. A rank
// sends it once it has entered and has the signals of all rounds below k; after the signal of the last round every rank
// has entered, and it leaves.
//
// With 2^k < n the steps of two rounds differ modulo n, so sender and receiver identify the round, and messages need
// not name it.
//
// The bits of two epochs are all the state. Claim: a signal is for the receiver's present epoch, or for the next one if
// the receiver is inside, or a copy of one that was counted.
//   - A rank signals in epoch e+1 only after it left e, so after every rank entered
//     e, the receiver too. So the receiver is inside e, or past it: at e+1.
//   - It signals in e+2 only after every rank entered e+1, so after the receiver
//     left e: it can never be two epochs ahead.
//   - The receiver leaves e only with one signal of e from each of its senders, and
//     each sends one per epoch: a later signal for e is a copy.
//
// As in the tree this holds for any order of delivery.
type dissemination struct {
	// Immutable.
	n, rank    int
	roundCount int // ⌈log₂n⌉

	// Owned by the core.
	round    int         // number of rounds whose signals were taken, in order
	arrivals [2]arrivals // of the present and the next epoch; even epochs first
}

// arrivals holds the signals of an epoch, one place for each round.
type arrivals struct {
	roundBits uint32 // bit k: the signal of round k has arrived
	sets      [maxRounds]entrySet
}

func newDissemination(n, rank int) *dissemination {
	return &dissemination{n: n, rank: rank, roundCount: bits.Len(uint(n - 1))}
}

// target returns the rank that this one signals in a round.
func (d *dissemination) target(round int) int { return (d.rank + 1<<round) % d.n }

// roundOf returns the round in which one rank signals another, or false if it never does.
func (d *dissemination) roundOf(from, to int) (int, bool) {
	step := to - from
	if step < 0 {
		step += d.n
	}
	return bits.TrailingZeros(uint(step)), step != 0 && step&(step-1) == 0
}

func (d *dissemination) adjacent(a, b int) bool {
	_, there := d.roundOf(a, b)
	_, back := d.roundOf(b, a)
	return there || back
}

func (d *dissemination) maxMessages() int { return d.roundCount }

func (d *dissemination) beginEpoch(c *Core) {
	d.round = 0
	d.arrivalsOf(c, c.epoch+c.epochStride).roundBits = 0
}

// arrivalsOf returns the signals of the core's present epoch, or of its next one.
func (d *dissemination) arrivalsOf(c *Core, epoch uint64) *arrivals {
	return &d.arrivals[epoch/c.epochStride&1]
}

func (d *dissemination) enter(c *Core, a *Actions) {
	if d.roundCount == 0 {
		c.leaveEpoch(c.lastStraggler, a)
		return
	}
	d.sendSignal(c, a)
	d.advance(c, a)
}

// sendSignal sends the signal of the present round.
func (d *dissemination) sendSignal(c *Core, a *Actions) {
	c.send(kindArrive, d.target(d.round), c.entries.lag(), a)
}

func (d *dissemination) senderIndex(m Message) (round int, wrong string) {
	if m.Kind == kindRelease {
		return 0, "a dissemination has no releases"
	}
	round, ok := d.roundOf(int(m.From), d.rank)
	if !ok {
		return 0, "the sender never signals this rank, which signals the sender"
	}
	return round, ""
}

func (d *dissemination) accept(c *Core, m Message, round int, now int64, a *Actions) error {
	if m.Epoch > c.epoch && (m.Epoch != c.epoch+c.epochStride || !c.epochEntered) {
		return c.refuse(m, errImpossibleEpoch, "its sender cannot have left the epoch before")
	}
	h := d.arrivalsOf(c, m.Epoch)
	if h.roundBits&(1<<round) != 0 {
		c.counters.Duplicate++
		return nil
	}
	h.roundBits |= 1 << round
	h.sets[round] = m.Lag.entrySet(now)
	if m.Epoch > c.epoch || !c.epochEntered {
		c.counters.Early++
		return nil
	}
	d.advance(c, a)
	return nil
}

// advance goes from round to round as long as their signals are there. It merges sets in the order of rounds, not of
// arrival: so the signal of a round speaks for exactly the ranks that its receiver expects.
func (d *dissemination) advance(c *Core, a *Actions) {
	h := d.arrivalsOf(c, c.epoch)
	for h.roundBits&(1<<d.round) != 0 {
		c.entries.merge(h.sets[d.round])
		d.round++
		if d.round == d.roundCount {
			c.leaveEpoch(c.entries.lag().straggler(), a)
			return
		}
		d.sendSignal(c, a)
	}
}

// waitsFor is the rank whose signal the present round awaits.
func (d *dissemination) waitsFor() []int { return []int{(d.rank - 1<<d.round + d.n) % d.n} }

// A query goes from a rank to the one it waits for, back by 2^k in round k. Each step is of a lower round than the one
// before: a rank that has not sent its signal of round k waits in a round below k. So the steps are the bits of a
// number, the path: the query's origin is its receiver's rank plus the path, and the lowest bit is the last step. A
// reply goes back over the same ranks, lowest bit first; its path is the distance from its receiver to the origin. The
// origin alone is not enough: modulo N two paths can lead to it, one of them through a dead rank.

// dropLastStep removes the last step from a path.
func dropLastStep(path uint16) uint16 { return path & (path - 1) }

func (d *dissemination) extendPath(path uint16) uint16 { return path | 1<<d.round }

func (d *dissemination) hasSent(m Message) bool { return bits.TrailingZeros16(m.Path) <= d.round }

func (d *dissemination) mayLieBehind(int, int) bool { return true } // the reply's path decides

// leadsToOrigin reports whether a path leads from this rank to the origin of a message.
func (d *dissemination) leadsToOrigin(m Message) bool {
	return int(m.Path)>>d.roundCount == 0 && (d.rank+int(m.Path))%d.n == int(m.Origin)
}

func (d *dissemination) validQuery(m Message) bool {
	last := bits.TrailingZeros16(m.Path)
	return last < d.roundCount && d.target(last) == int(m.From) && d.leadsToOrigin(m)
}

func (d *dissemination) replyRoute(m Message) (next int, ok bool) {
	round, ok := d.roundOf(int(m.From), d.rank)
	if m.Path == 0 {
		return 0, ok && int(m.Origin) == d.rank
	}
	step := bits.TrailingZeros16(m.Path)
	return d.target(step), ok && round < step && int(m.Origin) != d.rank && d.leadsToOrigin(m)
}
