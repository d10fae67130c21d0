package link

import (
	"fmt"
	"unsafe"

	"ringlet/shmem"
)

// EventKind says what happened.
type EventKind uint8

// Kinds of events, with the fields of Event that they set.
const (
	EventCompleted EventKind = iota + 1 // a write to the peer has its outcome: Cookie, Reason
	EventFenced                         // every write queued before the fence has its outcome: Cookie
	EventPlaced                         // a write of the peer is in place: Ref, Offset, Length, Imm
	EventSignal                         // a signal of the peer has arrived: Data
	// the export table has refused a write of the peer: Ref, Offset, Length, Reason
	EventRefused
	EventPlacedMany // pieces of the peer are in place: Placements
)

// A Placement is a range of bytes that a peer has written, or tried to.
type Placement struct {
	Ref    shmem.Ref
	Offset uint32 // from the window's start, bytes
	Length uint32
	Imm    uint64 // a number that the writer sends with the write
}

// An Event is a report of the core to its owner.
type Event struct {
	Kind   EventKind
	Reason Reason
	Placement
	Cookie     uint64
	Data       []byte
	Placements []Placement
}

// notices are the events that the owner has not taken yet, and the counters.
type notices struct {
	stats           Stats
	events          []Event
	placements      []Placement // pieces placed since the last call of takeEvents
	sparePlacements []Placement // those of the events taken last, which the caller may still read
}

func (n *notices) emit(e Event) { n.events = append(n.events, e) }

// reportPlacements emits an event for the pieces placed from index first on, or adds them to the last event of that
// kind.
func (n *notices) reportPlacements(first int) {
	if first == len(n.placements) {
		return
	}
	if l := len(n.events); l > 0 && n.events[l-1].Kind == EventPlacedMany {
		e := &n.events[l-1]
		e.Placements = n.placements[first-len(e.Placements):]
		return
	}
	n.emit(Event{Kind: EventPlacedMany, Placements: n.placements[first:]})
}

// takeEvents returns all events, and uses spare for the next ones.
func (n *notices) takeEvents(spare []Event) []Event {
	e := n.events
	n.events = spare[:0]
	n.placements, n.sparePlacements = n.sparePlacements[:0], n.placements
	return e
}

// Handler is called with the events of a link.
type Handler interface {
	// Placed reports that a remote write into this node's memory is complete.
	Placed(peer int, p Placement)
	// PlacedMany reports the same of pieces of a WriteMany.
	PlacedMany(peer int, ps []Placement)
	// Signal passes on a peer's message.
	Signal(peer int, payload []byte)
	// Completed reports the outcome of one of this node's writes or fences; err is nil or a *RefusedError.
	Completed(peer int, cookie uint64, err error)
	// Refused reports that the export table has refused a peer's write.
	Refused(peer int, p Placement, err error)
}

// Reason says why a write was not placed. Zero: it was placed.
type Reason uint8

// ReasonExpired means: the dmove was not sent before its deadline. All other reasons are violations found by the peer's
// export table, with shmem's numbers.
const ReasonExpired Reason = 255

// A RefusedError is the outcome of a remote write that was not placed.
type RefusedError struct {
	Peer   string
	Reason Reason
}

func (e *RefusedError) Error() string {
	if e.Reason == ReasonExpired {
		return fmt.Sprintf("remote write to %s expired before it was sent: its deadline had passed", e.Peer)
	}
	return fmt.Sprintf("remote write refused by %s: %s", e.Peer, shmem.Violation(e.Reason))
}

// Stats counts what a link did; each reason for not doing something has its own counter.
type Stats struct {
	DatagramsSent             uint64 `help:"numbered datagrams and acks sent"`
	DatagramsReceived         uint64 `help:"numbered datagrams and acks received"`
	DatagramsResent           uint64 `help:"datagrams sent again"`
	DatagramsDuplicate        uint64 `help:"datagrams that arrived again; no effect"`
	DatagramsBeyondCredit     uint64 `count:"datagrams_beyond" help:"datagrams numbered past the credit given; dropped"`
	DatagramsStale            uint64 `help:"datagrams of another view; dropped"`
	DatagramsMalformed        uint64 `help:"datagrams not understood; dropped"`
	AcksSent                  uint64 `count:"echoes_sent" help:"acks sent"`
	AcksReceived              uint64 `count:"echoes_received" help:"acks that came"`
	ChunksSent                uint64 `help:"chunks sent, re-sent ones included"`
	ChunksResent              uint64 `help:"chunks sent again"`
	ChunksPlaced              uint64 `help:"chunks that arrived and were put into memory"`
	ChunksDuplicate           uint64 `help:"chunks that arrived again"`
	ChunksLate                uint64 `help:"chunks of writes that are over"`
	ChunksRefused             uint64 `help:"chunks of writes that the export table does not allow"`
	ChunksExpired             uint64 `count:"chunks_dead" help:"chunks of dmoves that were lost, or not sent before their deadline"`
	BytesSent                 uint64 `unit:"bytes" help:"bytes of writes sent, re-sent ones included"`
	BytesPlaced               uint64 `unit:"bytes" help:"bytes of writes put into memory"`
	WritesCompleted           uint64 `help:"writes of this node that are whole at the peer"`
	WritesRefused             uint64 `help:"writes of this node that the peer refused"`
	WritesExpired             uint64 `help:"dmoves of this node that expired before they were sent whole"`
	SignalsSent               uint64 `help:"short messages sent: sizes, grants, barrier"`
	SignalsReceived           uint64 `help:"short messages that came"`
	SignalsDuplicate          uint64 `help:"signals that arrived again; no effect"`
	Probes                    uint64 `help:"times nothing was heard for too long and the newest datagram was sent again"`
	Timeouts                  uint64 `help:"times that a probe did not help, and more was sent again"`
	DatagramFragmentsSent     uint64 `count:"parts_sent" help:"pieces sent of datagrams too long for the path; each counts as a datagram"`
	DatagramFragmentsReceived uint64 `count:"parts_received" help:"pieces received of datagrams too long for the path"`
	PathMTUShrunk             uint64 `count:"path_shrunk" help:"times that full packets were found to vanish while small ones passed: an MTU changed"`
	PathMTUGrown              uint64 `count:"path_grown" help:"times that full packets were found to pass again"`
	StallsQueue               uint64 `help:"times that a write found the queue of requests full, and waited"`
	StallsTransactions        uint64 `count:"stalls_tx" help:"times that requests waited since as many writes were under way as a link can have"`
	StallsCredit              uint64 `help:"times that requests waited since the peer had given no more credit, or could note no more datagrams as come"`
	StallsCongestion          uint64 `help:"times that requests waited since the path had lost more than it should"`
	TransactionsFree          uint64 `count:"tx_free" kind:"level" help:"writes that could be under way beside those that are"`
	TransactionsUsed          uint64 `count:"tx_used" kind:"level" help:"writes without an answer; 0 after a run"`
}

// Add sums two sets of counters, over the links of a node. It allocates nothing: a sampler calls it a thousand times a
// second.
func (s *Stats) Add(o *Stats) {
	sum, more := (*[statsWords]uint64)(unsafe.Pointer(s)), (*[statsWords]uint64)(unsafe.Pointer(o))
	for i := range sum {
		sum[i] += more[i]
	}
}

// Word returns the i-th counter, in the order of the fields.
func (s *Stats) Word(i int) uint64 { return (*[statsWords]uint64)(unsafe.Pointer(s))[i] }

// statsWords is the number of counters, all of one type: TestStatsAreWords.
const statsWords = unsafe.Sizeof(Stats{}) / unsafe.Sizeof(uint64(0))
