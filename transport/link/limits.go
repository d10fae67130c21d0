package link

import (
	"fmt"

	"ringlet/shmem"
)

// Limits that depend on each other. Config.Check checks those that depend on a carrier's sizes; TestLimits checks the
// constants, and TestEveryCarrierAndMTU in package quic the sizes of each carrier.
//
//	credit ≤ ring / 2         a number that is being repaired holds up none of the credit sent behind it
//	ack ≤ MinDatagram         the bitmaps of both spaces, maxSeqWindow and DefaultSeqWindow bits, in the smallest
//	                          datagram
//	signal ≤ MinDatagram      so that each fits whatever a path may still carry
//	fragments ≤ maxFragments  a full datagram in datagrams of the base size; the receiver notes them in one word
//	answers waiting ≤ maxTransactions   an id is used again only after its answer has arrived
//
// Only the ids, maxTransactions, bound the number of transactions: a datagram may hold several small writes, and one
// that has arrived may still wait for its answer. Without a free id, cutNext waits for an answer, and NextDue reports
// nothing due.

// Limits of a link.
const (
	maxOps            = 1024 // remote writes and fences queued (NIC-crossbar §3.1.3)
	maxTransactions   = 1024 // transactions outstanding: an id on the wire has ten bits
	maxChunks         = 1024 // chunks of one transaction; a longer write becomes several transactions
	maxUnackedSignals = 256  // signals sent and not acked
	maxFragments      = 64   // fragments of a datagram that is too long for the path
)

// Defaults. quic-go drops received datagrams when 128 are waiting; 100 requests, 16 responses and a few acks are fewer.
// A credit of 104 gave 1.1 × the throughput of 88 between two processes on 2 cores (medians of 5 in one run,
// 2026-11-21); 64 gave 0.8 ×.
const (
	DefaultCredit    = 100
	ResponseCredit   = 16
	DefaultSeqWindow = 512
	minSeqWindow     = 64
	maxSeqWindow     = 4096
	maxCredit        = maxSeqWindow / 2
)

// DefaultAckEvery suits a credit of 100: with six acks per credit, a lost one does not make the sender wait.
const DefaultAckEvery = 16

// maxDatagramSize is the largest datagram, bytes: its length fields have 16 bits.
const maxDatagramSize = 1<<16 - 1

// Config of a link. Both ends must agree on View, MaxDatagram and Credit; the hellos settle them.
type Config struct {
	View              uint16     // datagrams of another view are dropped and counted
	MaxDatagram       int        // bytes of the carrier's largest datagram; at least MinDatagram
	BaseDatagram      int        // bytes that every path carries, see path.go. Zero: the carrier cares for path MTUs
	Credit            int        // request datagrams in flight. Zero means DefaultCredit
	SeqWindow         int        // power of two > Credit, see SeqWindowFor. Zero means DefaultSeqWindow
	PadDatagrams      bool       // fill datagrams up while more wait, so that equal sizes leave in one system call
	CongestionControl bool       // the link bounds requests in flight by a congestion window; not if the carrier does
	PiggybackAcks     bool       // acks travel with answers and small requests, and may be delayed for that
	AckEvery          int        // an ack at the latest after this many datagrams. Zero means DefaultAckEvery
	Peer              shmem.Peer // the other end's name in the export table
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

// Check returns why a link cannot work with these sizes, or nil.
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
		return fmt.Errorf("a sequence window of %d datagrams cannot work: it is a power of two, %d to %d",
			c.SeqWindow, minSeqWindow, maxSeqWindow)
	case c.Credit < 1 || c.Credit >= c.SeqWindow:
		return fmt.Errorf("a credit of %d datagrams cannot work with a sequence window of %d, which must be larger",
			c.Credit, c.SeqWindow)
	}
	return nil
}

// SeqWindowFor is the sequence window for a credit of at most maxCredit datagrams: at least twice the credit, so that
// the repair of a whole credit does not stop the sending of the next.
func SeqWindowFor(credit int) int {
	ring := minSeqWindow
	for ring < 2*credit {
		ring *= 2
	}
	return ring
}
