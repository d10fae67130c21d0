package link

import (
	"fmt"

	"ringlet/shmem"
)

// What bounds what, in one place. Config.Check holds what follows from the sizes of a carrier; TestLimits holds the
// constants against each other, and TestEveryCarrierAndMTU in package quic what each carrier asks for.
//
//	credit ≤ ring / 2         a number that is being repaired holds up none of the credit sent behind it
//	ack ≤ MinDatagram         the bitmaps of both spaces, maxSeqWindow and DefaultSeqWindow bits, in the smallest
//	                          datagram
//	signal ≤ MinDatagram      so that each fits whatever a path may still carry
//	fragments ≤ maxFragments  a full datagram in datagrams of the base size; the receiver notes them in one word
//	answers waiting ≤ maxTransactions   an id is used again only after its answer has arrived
//
// Transactions are bounded by their ids, maxTransactions, and by nothing else: of small writes a datagram holds
// several, and a datagram that has arrived may wait for its answer. Whoever finds no free id waits for an answer, and
// Due says so.

// Limits of one link.
const (
	maxOps            = 1024 // remote writes and fences queued (NIC-crossbar §3.1.3)
	maxTransactions   = 1024 // transactions outstanding: what the ten bits of an id on the wire can tell apart
	maxChunks         = 1024 // chunks of one transaction; longer writes become several
	maxUnackedSignals = 256  // signals sent and not acked
	maxFragments      = 64   // fragments of a datagram that the path does not carry whole
)

// Defaults. quic-go drops received datagrams beyond 128 waiting: 100 requests, 16 responses and a few acks stay
// below. 104 gave 1.1 × the throughput of 88 between two processes on 2 cores (medians of 5 in one run, 2026-11-21); 64
// gave 0.8 ×.
const (
	DefaultCredit    = 100
	ResponseCredit   = 16
	DefaultSeqWindow = 512
	minSeqWindow     = 64
	maxSeqWindow     = 4096
	maxCredit        = maxSeqWindow / 2
)

// DefaultAckEvery suits a credit of 100: six acks per credit keep the sender going when one is lost.
const DefaultAckEvery = 16

// maxDatagramSize is the largest datagram: the lengths in it are of 16 bits.
const maxDatagramSize = 1<<16 - 1

// Config of a link. Both ends must agree on View, MaxDatagram and Credit; the hello sees to that.
type Config struct {
	View              uint16     // datagrams of another view are dropped and counted
	MaxDatagram       int        // bytes a carrier takes at once; at least MinDatagram
	BaseDatagram      int        // bytes that every path carries, see path.go. Zero means that the carrier sees to that
	Credit            int        // request datagrams in flight. Zero means DefaultCredit
	SeqWindow         int        // power of two > Credit: how far repair may lag behind. Zero means DefaultSeqWindow
	PadDatagrams      bool       // fill up datagrams while more wait behind, so that equal sizes leave in one system call
	CongestionControl bool       // bound requests in flight by what the network bears, too; for carriers that do not
	PiggybackAcks     bool       // acks travel with answers and small requests, and those of answers alone may wait
	AckEvery          int        // datagrams received per ack, at most. Zero means DefaultAckEvery
	Peer              shmem.Peer // the other end, as the export table knows it
	Table             placer
}

func (c Config) withDefaults() Config {
	if c.Credit == 0 {
		c.Credit = DefaultCredit
	}
	if c.SeqWindow == 0 {
		c.SeqWindow = DefaultSeqWindow
	}
	if c.AckEvery == 0 {
		c.AckEvery = DefaultAckEvery
	}
	if c.BaseDatagram == 0 {
		c.BaseDatagram = c.MaxDatagram
	}
	return c
}

// Check says why a link cannot work with these sizes, or nil.
func (c Config) Check() error {
	c = c.withDefaults()
	switch {
	case c.MaxDatagram < MinDatagram || c.MaxDatagram > maxDatagramSize:
		return fmt.Errorf("datagrams of %d bytes cannot work: a link needs %d to %d",
			c.MaxDatagram, MinDatagram, maxDatagramSize)
	case c.BaseDatagram < MinDatagram || c.BaseDatagram > c.MaxDatagram:
		return fmt.Errorf("a base of %d bytes cannot work: it lies between %d and the full datagram, %d",
			c.BaseDatagram, MinDatagram, c.MaxDatagram)
	case fragmentCount(c.MaxDatagram, c.BaseDatagram) > maxFragments:
		return fmt.Errorf("a datagram of %d bytes has %d fragments of %d bytes, more than %d",
			c.MaxDatagram, fragmentCount(c.MaxDatagram, c.BaseDatagram), c.BaseDatagram, maxFragments)
	case c.SeqWindow < minSeqWindow || c.SeqWindow > maxSeqWindow || c.SeqWindow&(c.SeqWindow-1) != 0:
		return fmt.Errorf("a ring of %d datagrams cannot work: it is a power of two, %d to %d",
			c.SeqWindow, minSeqWindow, maxSeqWindow)
	case c.Credit < 1 || c.Credit >= c.SeqWindow:
		return fmt.Errorf("a credit of %d datagrams cannot work with a ring of %d, which must be larger",
			c.Credit, c.SeqWindow)
	}
	return nil
}

// SeqWindowFor is the ring that suits a credit of at most maxCredit datagrams: twice as much, so that repair of a whole
// credit holds up nothing.
func SeqWindowFor(credit int) int {
	ring := minSeqWindow
	for ring < 2*credit {
		ring *= 2
	}
	return ring
}
