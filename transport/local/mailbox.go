package local

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"ringlet/shmem"
)

// The layout of a mailbox, drawn in docs/format/local.md. Words that different processes write lie on different cache
// lines.
const (
	mailboxMagic   = "RNGLDOOR"
	mailboxVersion = 1

	offVersion  = 0x08
	offCapacity = 0x10
	offData     = 0x18
	offNonce    = 0x20
	offHead     = 0x40 // written by the sender: bytes published, ever
	offTail     = 0x80 // written by the receiver: bytes read, ever
	offArrival  = 0xC0 // bell: the receiver sleeps until something arrives
	offFreed    = 0x100
	offClosed   = 0x140 // written by the receiver: not 0 once it has closed its end

	mailboxHeader = shmem.PageSize
)

// Ring sizes, bytes. 256 KiB hold 8192 placements: more than the builder units of a node have windows open, and a
// fraction of a second-level cache, so that what is read was not yet thrown out of it.
const (
	defaultRing = 256 << 10
	minRing     = 8 << 10 // several of the longest records
	maxRing     = 1 << 30
)

type nonce [16]byte

// corruptError is something in a mailbox that cannot be: the process that writes there has gone wrong. The link is of
// no use then.
func corruptError(mailbox, what string, v uint64) error {
	return fmt.Errorf("mailbox %s: the %s cannot be %#x", mailbox, what, v)
}

// mailbox is one end of a ring between two processes.
type mailbox struct {
	seg         *shmem.Segment // nil in the link of a node to itself
	name        string
	data        []byte // the ring
	head, tail  *atomic.Uint64
	ownerClosed *atomic.Uint64 // not 0: its owner has left, and takes back what it exports
	arrivalBell notifier
	freedBell   notifier
	nonce       nonce
}

// createMailbox makes a mailbox for this process to receive by.
func createMailbox(name, dir string, size int) (*mailbox, error) {
	seg, err := shmem.Create(name, mailboxHeader+size, shmem.WithDir(dir))
	if err != nil {
		return nil, err
	}
	mem := seg.Bytes()
	le := binary.LittleEndian
	_, _ = rand.Read(mem[offNonce : offNonce+16]) // it cannot fail
	le.PutUint32(mem[offVersion:], mailboxVersion)
	le.PutUint64(mem[offCapacity:], uint64(size))
	le.PutUint64(mem[offData:], mailboxHeader)
	copy(mem, mailboxMagic)
	return mailboxOfSegment(seg), nil
}

// openMailbox maps a mailbox that a peer made, to send by. It must hold the given nonce.
func openMailbox(name, dir string, want nonce) (*mailbox, error) {
	seg, err := shmem.Open(name, shmem.WithDir(dir))
	if err != nil {
		return nil, err
	}
	if err := checkMailbox(name, seg.Bytes()); err != nil {
		_ = seg.Close()
		return nil, err
	}
	d := mailboxOfSegment(seg)
	if d.nonce != want {
		_ = seg.Close()
		return nil, shmem.ErrOtherTable
	}
	return d, nil
}

func checkMailbox(name string, mem []byte) error {
	if len(mem) < mailboxHeader+minRing {
		return corruptError(name, "size", uint64(len(mem)))
	}
	le := binary.LittleEndian
	size := uint64(len(mem) - mailboxHeader)
	switch {
	case string(mem[:len(mailboxMagic)]) != mailboxMagic:
		return corruptError(name, "magic", le.Uint64(mem))
	case le.Uint32(mem[offVersion:]) != mailboxVersion:
		return corruptError(name, "version", uint64(le.Uint32(mem[offVersion:])))
	case le.Uint64(mem[offCapacity:]) != size || size > maxRing || size&(size-1) != 0:
		return corruptError(name, "capacity", le.Uint64(mem[offCapacity:]))
	case le.Uint64(mem[offData:]) != mailboxHeader:
		return corruptError(name, "data offset", le.Uint64(mem[offData:]))
	}
	return nil
}

func mailboxOfSegment(seg *shmem.Segment) *mailbox {
	mem := seg.Bytes()
	d := mailboxInMemory(mem, seg.Name(), shmem.BellAt(mem, offArrival), shmem.BellAt(mem, offFreed))
	d.seg, d.nonce = seg, nonce(mem[offNonce:offNonce+16])
	return d
}

func mailboxInMemory(mem []byte, name string, arrivalBell, freedBell notifier) *mailbox {
	return &mailbox{
		name:        name,
		data:        mem[mailboxHeader:],
		head:        shmem.Word64(mem, offHead),
		tail:        shmem.Word64(mem, offTail),
		ownerClosed: shmem.Word64(mem, offClosed),
		arrivalBell: arrivalBell,
		freedBell:   freedBell,
	}
}

// close gives the memory back.
func (d *mailbox) close() error {
	if d.seg == nil {
		return nil
	}
	return d.seg.Close()
}
