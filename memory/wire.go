package memory

import (
	"encoding/binary"
	"fmt"

	"ringlet/shmem"
	"ringlet/transport/link"
)

// Requests and answers are signals of the link, which arrive once and in order. docs/format/memory.md draws them.

// MessageVersion is the version of memory's messages; others are refused.
const MessageVersion = 2

const (
	wireMagic  = 'M'
	wireHeader = 48
	// maxBody is the most bytes of a signal beside the header.
	maxBody = link.MaxSignal - wireHeader
	// maxLoad is the most bytes in an answer. Longer reads are written into the reader's memory.
	maxLoad  = 960
	runBytes = 20
	maxRuns  = maxBody / runBytes
	maxName  = 200
)

type kind uint8

// Kinds of message, as numbers in messages.
const (
	kindFind    kind = iota + 1 // body: name → a: size, b: epoch, body: runs
	kindLeave                   // a: epoch; no answer
	kindLoad                    // ref, off, n → body
	kindRead                    // ref, off, n; a: window, b: generation to write to → bytes under its id, or a refusal
	kindAdd                     // ref, off; a: what to add → a: the word before
	kindSwap                    // ref, off; a: the new word → a: the word before
	kindCompare                 // ref, off; a: the word expected, b: the new word → a: the word before
	kindNotify                  // ref, off → a: how many notices the page has had
	kindWait                    // ref, off; a: notices known → a: how many it has had, when that is more
	kindCancel                  // a: id of a wait → no answer of its own; the wait is answered as cancelled
	kindRevoked                 // b: epoch; no answer: the owner has withdrawn the export
	kindAnswer                  // id, status

	numKinds
)

var kindNames = [numKinds]string{"", "find", "leave", "load", "read", "add", "swap", "compare", "notify", "wait",
	"cancel",
	"revoked", "answer"}

func (k kind) String() string {
	if k > 0 && k < numKinds {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// message is a request or an answer. Its body lies in the signal that it was read from.
type message struct {
	kind   kind
	status Cause
	length uint32
	id     uint64
	ref    shmem.Ref
	off    uint64 // in the window
	a, b   uint64
	body   []byte
}

// append appends the message to b.
func (m *message) append(b []byte) []byte {
	le := binary.LittleEndian
	b = append(b, wireMagic, byte(m.kind), byte(m.status), MessageVersion)
	b = le.AppendUint32(b, m.length)
	b = le.AppendUint64(b, m.id)
	b = le.AppendUint32(b, m.ref.Window)
	b = le.AppendUint32(b, m.ref.Gen)
	b = le.AppendUint64(b, m.off)
	b = le.AppendUint64(b, m.a)
	b = le.AppendUint64(b, m.b)
	return append(b, m.body...)
}

// parse reads a message. It checks everything that needs no tables.
func parse(b []byte) (m message, err error) {
	if len(b) < wireHeader || b[0] != wireMagic {
		return m, fmt.Errorf("a signal of %d bytes is no message of remote memory", len(b))
	}
	if b[3] != MessageVersion {
		return m, fmt.Errorf("a message of memory has version %d, this node speaks %d", b[3], MessageVersion)
	}
	le := binary.LittleEndian
	m = message{
		kind:   kind(b[1]),
		status: Cause(b[2]),
		length: le.Uint32(b[4:]),
		id:     le.Uint64(b[8:]),
		ref:    shmem.Ref{Window: le.Uint32(b[16:]), Gen: le.Uint32(b[20:])},
		off:    le.Uint64(b[24:]),
		a:      le.Uint64(b[32:]),
		b:      le.Uint64(b[40:]),
		body:   b[wireHeader:],
	}
	switch {
	case m.kind == 0 || m.kind >= numKinds:
		return m, fmt.Errorf("a message of memory has the unknown kind %d", b[1])
	case len(m.body) > maxBody:
		return m, fmt.Errorf("a message of memory has a body of %d bytes, more than %d", len(m.body), maxBody)
	case m.kind == kindFind && (len(m.body) == 0 || len(m.body) > maxName):
		return m, fmt.Errorf("the peer asks for a name of %d bytes, and names have 1 to %d", len(m.body), maxName)
	case m.kind != kindFind && m.kind != kindAnswer && len(m.body) != 0:
		return m, fmt.Errorf("a message of kind %v has a body of %d bytes, and may have none", m.kind, len(m.body))
	case m.kind == kindLoad && (m.length == 0 || m.length > maxLoad):
		return m, fmt.Errorf("the peer asks for a load of %d bytes, and a load has 1 to %d", m.length, maxLoad)
	case m.kind == kindRead && (m.length == 0 || m.length > maxReadPiece):
		return m, fmt.Errorf("the peer asks for a read of %d bytes, and a read has 1 to %d", m.length, maxReadPiece)
	case m.off >= 1<<32:
		return m, fmt.Errorf("a message of kind %v has the offset %d, past every window", m.kind, m.off)
	}
	return m, nil
}

// appendRuns appends an importer's table to b.
func appendRuns(b []byte, runs []pageRun) []byte {
	le := binary.LittleEndian
	for _, r := range runs {
		b = le.AppendUint32(b, uint32(r.first))
		b = le.AppendUint32(b, uint32(r.count))
		b = append(b, byte(r.allow), byte(r.attributes), 0, 0)
		b = le.AppendUint32(b, r.ref.Window)
		b = le.AppendUint32(b, r.ref.Gen)
	}
	return b
}

// parseRuns reads the table of a segment with that many pages: rows in order that do not overlap.
func parseRuns(b []byte, pages int) ([]pageRun, error) {
	if len(b)%runBytes != 0 {
		return nil, fmt.Errorf("the table of pages has %d bytes, and a row has %d", len(b), runBytes)
	}
	le := binary.LittleEndian
	var runs []pageRun
	end := 0
	for ; len(b) > 0; b = b[runBytes:] {
		r := pageRun{
			first:      int(le.Uint32(b)),
			count:      int(le.Uint32(b[4:])),
			allow:      Allow(b[8]),
			attributes: Attributes(b[9]),
			ref:        shmem.Ref{Window: le.Uint32(b[12:]), Gen: le.Uint32(b[16:])},
		}
		if r.first < end || r.count < 1 || r.count > maxRunPages || r.first > pages-r.count ||
			r.allow&^AllowAll != 0 || r.attributes&^attributesAll != 0 {
			return nil, fmt.Errorf("row %d of the table of pages is impossible: %d pages from page %d on, of %d",
				len(runs), r.count, r.first, pages)
		}
		end = r.first + r.count
		runs = append(runs, r)
	}
	return runs, nil
}
