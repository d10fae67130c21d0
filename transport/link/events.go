package link

import (
	"fmt"

	"ringlet/shmem"
)

// Kind of an Event.
type Kind uint8

// What can happen on a link.
const (
	Completed  Kind = iota + 1 // a write of this end has its outcome: Cookie, Reason
	Fenced                     // every write before the fence has its outcome: Cookie
	Placed                     // bytes of the peer are in place: Ref, Offset, Length, Imm
	Signalled                  // a signal of the peer: Data
	Refused                    // a write of the peer was refused by the export table: Ref, Offset, Length, Reason
	PlacedMany                 // pieces of the peer are in place: Many
)

// A Placement is a run of bytes that a peer has written, or tried to.
type Placement struct {
	Ref    shmem.Ref
	Offset uint32 // from the window's start, bytes
	Length uint32
	Imm    uint64 // what the writer told with it
}

// An Event is something the owner of a Core must know.
type Event struct {
	Kind   Kind
	Reason Reason
	Ref    shmem.Ref
	Offset uint32
	Length uint32
	Cookie uint64
	Imm    uint64
	Data   []byte
	Many   []Placement
}

// Reason says why a write was not placed. Zero means it was.
type Reason uint8

// ReasonExpired is a dmove that was not sent before its time of death. Every other reason is a violation found by the peer's
// export table, as shmem numbers them.
const ReasonExpired Reason = 255

// A RefusedError is the outcome of a remote write that was not placed.
type RefusedError struct {
	Peer   string
	Reason Reason
}

func (e *RefusedError) Error() string {
	if e.Reason == ReasonExpired {
		return fmt.Sprintf("remote write to %s died before it was sent: its time of death had passed", e.Peer)
	}
	return fmt.Sprintf("remote write refused by %s: %s", e.Peer, shmem.Violation(e.Reason))
}

// Stats counts everything a link did; each reason for not doing something has its own counter.
type Stats struct {
	DatagramsSent, DatagramsReceived uint64 // numbered datagrams and echoes
	DatagramsResent                  uint64
	DatagramsDuplicate               uint64 // arrived again; took no effect
	DatagramsBeyond                  uint64 // numbered past the credit; dropped
	DatagramsStale                   uint64 // of another view; dropped
	DatagramsMalformed               uint64
	EchoesSent, EchoesReceived       uint64
	ChunksSent                       uint64 // transmissions, re-sent ones included
	ChunksResent                     uint64
	ChunksPlaced, ChunksDuplicate    uint64
	ChunksLate                       uint64 // of a transaction that is over
	ChunksRefused                    uint64 // of a write the table does not allow
	ChunksDead                       uint64 // dmove chunks lost or past their time of death
	BytesSent, BytesPlaced           uint64
	WritesCompleted, WritesRefused   uint64
	WritesExpired                    uint64
	SignalsSent, SignalsReceived     uint64
	SignalsDuplicate                 uint64
	Probes, Timeouts                 uint64
	PartsSent, PartsReceived         uint64 // of datagrams too long for the path; counted as datagrams, too
	PathShrunk, PathGrown            uint64 // full datagrams were found to vanish, and to arrive again
	TxFree, TxUsed                   uint64
}

// Add sums two sets of counters, over the links of a node.
func (s *Stats) Add(o *Stats) {
	for _, p := range [...][2]*uint64{
		{&s.DatagramsSent, &o.DatagramsSent}, {&s.DatagramsReceived, &o.DatagramsReceived},
		{&s.DatagramsResent, &o.DatagramsResent}, {&s.DatagramsDuplicate, &o.DatagramsDuplicate},
		{&s.DatagramsBeyond, &o.DatagramsBeyond}, {&s.DatagramsStale, &o.DatagramsStale},
		{&s.DatagramsMalformed, &o.DatagramsMalformed}, {&s.EchoesSent, &o.EchoesSent},
		{&s.EchoesReceived, &o.EchoesReceived}, {&s.ChunksSent, &o.ChunksSent}, {&s.ChunksResent, &o.ChunksResent},
		{&s.ChunksPlaced, &o.ChunksPlaced}, {&s.ChunksDuplicate, &o.ChunksDuplicate}, {&s.ChunksLate, &o.ChunksLate},
		{&s.ChunksRefused, &o.ChunksRefused}, {&s.ChunksDead, &o.ChunksDead}, {&s.BytesSent, &o.BytesSent},
		{&s.BytesPlaced, &o.BytesPlaced}, {&s.WritesCompleted, &o.WritesCompleted}, {&s.WritesRefused, &o.WritesRefused},
		{&s.WritesExpired, &o.WritesExpired}, {&s.SignalsSent, &o.SignalsSent}, {&s.SignalsReceived, &o.SignalsReceived},
		{&s.SignalsDuplicate, &o.SignalsDuplicate}, {&s.Probes, &o.Probes}, {&s.Timeouts, &o.Timeouts},
		{&s.PartsSent, &o.PartsSent}, {&s.PartsReceived, &o.PartsReceived},
		{&s.PathShrunk, &o.PathShrunk}, {&s.PathGrown, &o.PathGrown},
		{&s.TxFree, &o.TxFree}, {&s.TxUsed, &o.TxUsed},
	} {
		*p[0] += *p[1]
	}
}
