package link

import (
	"fmt"

	"ringlet/shmem"
)

// What bounds what, in one place. Config.Check holds what follows from the sizes of a carrier; TestLimits holds the
// constants against each other, and TestEveryCarrierAndMTU in package quic what each carrier asks for.
//
//	credit ≤ ring / 2         a number that is being repaired holds up none of the credit sent behind it
//	ack ≤ MinDatagram         the bitmaps of both spaces, maxRing and DefaultRing bits, in the smallest datagram
//	signal ≤ MinDatagram      so that each fits whatever a path may still carry
//	fragments ≤ maxFragments  a full datagram in datagrams of the base size; the receiver notes them in one word
//	answers waiting ≤ maxTx   an id is used again only after its answer has arrived
//
// Transactions are bounded by their ids, maxTx, and by nothing else: of small writes a datagram holds several, and a
// datagram that has arrived may wait for its answer. Whoever finds no free id waits for an answer, and Due says so.

// Limits of one link.
const (
	maxOps       = 1024 // remote writes and fences queued (NIC-crossbar §3.1.3)
	maxTx        = 1024 // transactions outstanding: what the ten bits of an id on the wire can tell apart
	maxChunks    = 1024 // chunks of one transaction; longer writes become several
	sigRing      = 256  // signals sent and not acked
	maxFragments = 64   // fragments of a datagram that the path does not carry whole
)

// Defaults. quic-go drops received datagrams beyond 128 waiting: 100 requests, 16 responses and a few acks stay
// below. 104 gave 1.1 × the throughput of 88 between two processes on 2 cores (medians of 5 in one run, 2026-11-21); 64
// gave 0.8 ×.
const (
	DefaultCredit  = 100
	ResponseCredit = 16
	DefaultRing    = 512
	minRing        = 64
	maxRing        = 4096
	maxCredit      = maxRing / 2
)

// DefaultAckEvery suits a credit of 100: six acks per credit keep the sender going when one is lost.
const DefaultAckEvery = 16

// maxSize is the largest datagram: the lengths in it are of 16 bits.
const maxSize = 1<<16 - 1

// Config of a link. Both ends must agree on View, MaxDatagram and Credit; the hello sees to that.
type Config struct {
	View        uint16     // datagrams of another view are dropped and counted
	MaxDatagram int        // bytes a carrier takes at once; at least MinDatagram
	Base        int        // bytes that every path carries, see path.go. Zero means that the carrier sees to that
	Credit      int        // request datagrams in flight. Zero means DefaultCredit
	Ring        int        // power of two > Credit: how far repair may lag behind. Zero means DefaultRing
	Pad         bool       // fill up datagrams while more wait behind, so that equal sizes leave in one system call
	Congestion  bool       // bound requests in flight by what the network bears, too; for carriers that do not
	Piggyback   bool       // acks travel with answers and small requests, and those of answers alone may wait
	AckEvery    int        // datagrams received per ack, at most. Zero means DefaultAckEvery
	Peer        shmem.Peer // the other end, as the export table knows it
	Table       placer
}

func (c Config) withDefaults() Config {
	if c.Credit == 0 {
		c.Credit = DefaultCredit
	}
	if c.Ring == 0 {
		c.Ring = DefaultRing
	}
	if c.AckEvery == 0 {
		c.AckEvery = DefaultAckEvery
	}
	if c.Base == 0 {
		c.Base = c.MaxDatagram
	}
	return c
}

// Check says why a link cannot work with these sizes, or nil.
func (c Config) Check() error {
	c = c.withDefaults()
	switch {
	case c.MaxDatagram < MinDatagram || c.MaxDatagram > maxSize:
		return fmt.Errorf("datagrams of %d bytes cannot work: a link needs %d to %d",
			c.MaxDatagram, MinDatagram, maxSize)
	case c.Base < MinDatagram || c.Base > c.MaxDatagram:
		return fmt.Errorf("a base of %d bytes cannot work: it lies between %d and the full datagram, %d",
			c.Base, MinDatagram, c.MaxDatagram)
	case fragmentCount(c.MaxDatagram, c.Base) > maxFragments:
		return fmt.Errorf("a datagram of %d bytes has %d fragments of %d bytes, more than %d",
			c.MaxDatagram, fragmentCount(c.MaxDatagram, c.Base), c.Base, maxFragments)
	case c.Ring < minRing || c.Ring > maxRing || c.Ring&(c.Ring-1) != 0:
		return fmt.Errorf("a ring of %d datagrams cannot work: it is a power of two, %d to %d",
			c.Ring, minRing, maxRing)
	case c.Credit < 1 || c.Credit >= c.Ring:
		return fmt.Errorf("a credit of %d datagrams cannot work with a ring of %d, which must be larger",
			c.Credit, c.Ring)
	}
	return nil
}

// RingFor is the ring that suits a credit of at most maxCredit datagrams: twice as much, so that repair of a whole
// credit holds up nothing.
func RingFor(credit int) int {
	ring := minRing
	for ring < 2*credit {
		ring *= 2
	}
	return ring
}
