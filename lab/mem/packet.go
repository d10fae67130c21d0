package mem

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"ringlet/memory"
	"ringlet/shmem"
	"ringlet/transport"
	"ringlet/transport/link"
)

// Packet describes a packet of a guest that breaks rules on purpose: the owner may refuse it.
type Packet struct {
	// Kind is one of packetKinds: a kind of message; write, a remote write; bytes, Data as a message; datagram, Data as a
	// datagram from a socket without a link.
	Kind       string
	Segment    string
	Window     *uint32 // nil: the window in which an importer is granted the first pages of Segment
	Generation *uint32 // nil: that of this window
	Offset     uint64  // in the window
	Count      uint32  // bytes that a load asks for
	A, B       uint64
	Data       []byte
}

// Kinds of packet besides the kinds of message.
const (
	packetWrite    = "write"
	packetBytes    = "bytes"
	packetDatagram = "datagram"
)

// messageKinds are the kinds of message (docs/format/memory.md).
var messageKinds = map[string]byte{
	"find": 1, "leave": 2, "load": 3, "read": 4, "add": 5, "swap": 6, "compare": 7, "notify": 8, "wait": 9, "cancel": 10,
	"revoked": 11, "answer": 12,
}

// packetKinds are the values of Packet.Kind.
func packetKinds() []string {
	return append(slices.Sorted(maps.Keys(messageKinds)), packetBytes, packetDatagram, packetWrite)
}

// Layout of a message (docs/format/memory.md).
const (
	messageHeadSize = 48
	rowSize         = 20
	kindFind        = 1
	kindAnswer      = 12
)

// rawGuest is a guest that uses the links of its place directly, so that package memory does not check its packets.
type rawGuest struct {
	*place
	next      uint64 // id of the next request
	answers   chan []byte
	completed chan error
}

func (h *rawGuest) Placed(int, transport.Placement)         {}
func (h *rawGuest) PlacedMany(int, []transport.Placement)   {}
func (h *rawGuest) Refused(int, transport.Placement, error) {}
func (h *rawGuest) Malformed(int, error)                    {}
func (h *rawGuest) LinkDown(int, error)                     {}
func (h *rawGuest) Completed(_ int, _ uint64, err error)    { h.completed <- err }

// Signal keeps an answer for awaitAnswer. If the queue is full, the owner has sent answers to no request: they are
// dropped.
func (h *rawGuest) Signal(_ int, b []byte) {
	select {
	case h.answers <- append([]byte(nil), b...):
	default:
	}
}

// answerTimeout bounds the wait for an answer.
const answerTimeout = 2 * time.Second

// enterRaw takes a free place as a raw guest, and connects to the owner.
func enterRaw(ctx context.Context, dir string) (*rawGuest, error) {
	h := &rawGuest{answers: make(chan []byte, 16), completed: make(chan error, 16)}
	p, err := claimPlace(dir, func(p *place, cfg transport.Config) error {
		cfg.Handler = h
		p.ends = transport.New(cfg)
		p.closers = append(p.closers, p.ends.Close)
		return nil
	})
	if err != nil {
		return nil, err
	}
	h.place = p
	return h, p.connectOwner(ctx, dir, p.ends.Reconnect)
}

// message builds a message, and returns it with its id.
func (h *rawGuest) message(kind byte, p *Packet, ref shmem.Ref) (b []byte, id uint64) {
	h.next++
	le := binary.LittleEndian
	b = le.AppendUint32([]byte{'M', kind, 0, memory.MessageVersion}, p.Count)
	for _, v := range [...]uint64{h.next, uint64(ref.Window) | uint64(ref.Gen)<<32, p.Offset, p.A, p.B} {
		b = le.AppendUint64(b, v)
	}
	return append(b, p.Data...), h.next
}

// errNoAnswer: the owner has not answered a request within answerTimeout.
var errNoAnswer = errors.New("no answer")

// awaitAnswer waits for the answer to a request, and returns its status and its body.
func (h *rawGuest) awaitAnswer(ctx context.Context, id uint64) (status memory.Cause, body []byte, err error) {
	bounded, cancel := context.WithTimeoutCause(ctx, answerTimeout, errNoAnswer)
	defer cancel()
	for {
		select {
		case b := <-h.answers:
			if len(b) >= messageHeadSize && b[1] == kindAnswer && binary.LittleEndian.Uint64(b[8:]) == id {
				return memory.Cause(b[2]), b[messageHeadSize:], nil
			}
		case <-bounded.Done():
			return 0, nil, context.Cause(bounded)
		}
	}
}

// importSegment imports a segment, and returns the window of its first open pages.
func (h *rawGuest) importSegment(ctx context.Context, name string) (ref shmem.Ref, err error) {
	b, id := h.message(kindFind, &Packet{Data: []byte(name)}, ref)
	if err := h.ends.Signal(ownerRank, b); err != nil {
		return ref, err
	}
	status, rows, err := h.awaitAnswer(ctx, id)
	switch {
	case err != nil:
		return ref, fmt.Errorf("importing %q: %w", name, err)
	case status != 0:
		return ref, fmt.Errorf("importing %q: %w", name, status)
	case len(rows) < rowSize:
		return ref, fmt.Errorf("no page of %q is open to %s", name, rankName(h.rank))
	}
	le := binary.LittleEndian
	return shmem.Ref{Window: le.Uint32(rows[12:]), Gen: le.Uint32(rows[16:])}, nil
}

// Send sends a packet as a guest, and prints its outcome and which of the owner's counters has counted it.
func (p *Packet) Send(ctx context.Context, dir string, to io.Writer) (err error) {
	if _, ok := messageKinds[p.Kind]; !ok && !slices.Contains(packetKinds(), p.Kind) {
		return fmt.Errorf("there are no packets of kind %q: there are %s", p.Kind, strings.Join(packetKinds(), ", "))
	}
	g, err := Enter(ctx, dir, io.Discard) // reads the counters, over its own link
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	h, err := enterRaw(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	ref, err := h.importSegment(ctx, p.Segment)
	if err != nil {
		return err
	}
	if p.Window != nil {
		ref.Window = *p.Window
	}
	if p.Generation != nil {
		ref.Gen = *p.Generation
	}
	return g.withImport(ctx, countersName, func(counters *memory.Import) error {
		usual, err := g.countGrowth(ctx, counters, func() error { return h.awaitOwner(ctx) })
		if err != nil {
			return err
		}
		var became string
		moved, err := g.countGrowth(ctx, counters, func() error {
			if became, err = p.send(ctx, h, ref); err != nil {
				return err
			}
			return h.awaitOwner(ctx)
		})
		if err != nil {
			return err
		}
		return p.printOutcome(to, h, ref, became, usual, moved)
	})
}

// awaitOwner sends a request and waits for its answer: then the owner has processed all earlier signals of this guest.
// If a packet made by hand had a larger request number, the owner drops this request as repeated; then awaitOwner waits
// for answerTimeout.
func (h *rawGuest) awaitOwner(ctx context.Context) error {
	_, err := h.importSegment(ctx, countersName)
	if errors.Is(err, errNoAnswer) {
		return nil
	}
	return err
}

// countGrowth calls do, and returns by how much each of the owner's counters grew meanwhile.
func (g *Guest) countGrowth(ctx context.Context, im *memory.Import, do func() error) (map[string]uint64, error) {
	before, err := g.readCounters(ctx, im)
	if err != nil {
		return nil, err
	}
	if err := do(); err != nil {
		return nil, err
	}
	after, err := g.readCounters(ctx, im)
	for name, n := range before {
		after[name] -= n
	}
	return after, err
}

// readCounters reads the owner's counters as of a time after the call: it waits for the second new text, since the
// owner may have begun the first one before. There is always a new text, since the owner counts each read.
func (g *Guest) readCounters(ctx context.Context, im *memory.Import) (map[string]uint64, error) {
	_, first, err := readBoard(ctx, im)
	for err == nil {
		var text string
		var times uint64
		if text, times, err = readBoard(ctx, im); err == nil && times >= first+2 {
			return parseCounters(text)
		}
		select {
		case <-time.After(boardInterval / 4):
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	return nil, err
}

// send sends the packet, and returns its outcome as a sentence.
func (p *Packet) send(ctx context.Context, h *rawGuest, ref shmem.Ref) (became string, err error) {
	switch p.Kind {
	case packetDatagram:
		return "A datagram gets no answer", p.sendDatagram(ctx, h.group.Address)
	case packetBytes:
		return "The owner answers valid messages only", h.ends.Signal(ownerRank, p.Data)
	case packetWrite:
		if p.Offset+uint64(len(p.Data)) > 1<<32 {
			return "", fmt.Errorf("a write at offset %d reaches past every window", p.Offset)
		}
		err := h.ends.Write(ownerRank, link.Write{Ref: ref, Offset: uint32(p.Offset), Data: p.Data})
		if err != nil {
			return "", err
		}
		select {
		case err = <-h.completed:
			if err != nil {
				return "Refused: " + err.Error(), nil //nolint:nilerr // the refusal is the result
			}
			return "Done: the bytes are in place", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	b, id := h.message(messageKinds[p.Kind], p, ref)
	if err := h.ends.Signal(ownerRank, b); err != nil {
		return "", err
	}
	status, _, err := h.awaitAnswer(ctx, id)
	switch {
	case errors.Is(err, errNoAnswer):
		return fmt.Sprintf("The owner did not answer within %v", answerTimeout), nil
	case err != nil:
		return "", err
	case status != 0:
		return "Refused: " + status.Error(), nil
	}
	return "Done: the owner answered", nil
}

// sendDatagram sends a datagram to the owner's address, from a socket that belongs to no link.
func (p *Packet) sendDatagram(ctx context.Context, address string) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "udp", address)
	if err != nil {
		return err
	}
	_, err = c.Write(p.Data)
	return errors.Join(err, c.Close())
}

// relevantCounters are parts of the names of counters that show the outcome of a packet.
var relevantCounters = []string{"memory.", "refused", "malformed", "stale", "placed", "socket.quic_"}

// printOutcome prints the packet, its outcome, and the counters that moved but do not move without a packet (usual).
func (p *Packet) printOutcome(to io.Writer, h *rawGuest, ref shmem.Ref, became string, usual,
	moved map[string]uint64) error {
	what := fmt.Sprintf("%s of %d bytes", p.Kind, len(p.Data))
	if p.Kind != packetBytes && p.Kind != packetDatagram {
		what += fmt.Sprintf(" for window %d:%08x, offset %d", ref.Window, ref.Gen, p.Offset)
	}
	var by []string
	for _, name := range slices.Sorted(maps.Keys(moved)) {
		says := slices.ContainsFunc(relevantCounters, func(substring string) bool {
			return strings.Contains(name,
				substring)
		})
		if n := moved[name]; says && n > 0 && usual[name] == 0 {
			by = append(by, fmt.Sprintf("  %s +%d: %s", name, n, helpOf(name)))
		}
	}
	counted := "No counter of the owner has counted it, except those that grow in any case."
	if len(by) > 0 {
		counted = "The owner has counted it:\n" + strings.Join(by, "\n")
	}
	_, err := fmt.Fprintf(to, "%s sent %s, by %s. %s. %s\n", rankName(h.rank), what, h.group.Carrier, became, counted)
	return err
}
