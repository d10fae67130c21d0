package local

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"ringlet/shmem"
)

// The layout of a door, drawn in docs/format/local.md. Words that different processes write lie on different cache
// lines.
const (
	doorMagic   = "RNGLDOOR"
	doorVersion = 1

	offVersion  = 0x08
	offCapacity = 0x10
	offData     = 0x18
	offNonce    = 0x20
	offHead     = 0x40 // written by the sender: bytes published, ever
	offTail     = 0x80 // written by the receiver: bytes read, ever
	offArrival  = 0xC0 // bell: the receiver sleeps until something arrives
	offRoom     = 0x100
	offLeft     = 0x140 // written by the receiver: not 0 once it has closed its end

	doorHeader = shmem.PageSize
)

// Ring sizes, bytes. 256 KiB hold 8192 placements: more than the builder units of a node have windows open, and a
// fraction of a second-level cache, so that what is read was not yet thrown out of it.
const (
	defaultRing = 256 << 10
	minRing     = 8 << 10 // several of the longest records
	maxRing     = 1 << 30
)

type nonce [16]byte

// corrupt is something in a door that cannot be: the process that writes there has gone wrong. The link is of no use
// then.
func corrupt(door, what string, v uint64) error {
	return fmt.Errorf("door %s: the %s cannot be %#x", door, what, v)
}

// door is one end of a ring between two processes.
type door struct {
	seg        *shmem.Segment // nil in the link of a node to itself
	name       string
	data       []byte // the ring
	head, tail *atomic.Uint64
	left       *atomic.Uint64 // not 0: its owner has left, and takes back what it exports
	arrival    sleeper
	room       sleeper
	nonce      nonce
}

// newDoor makes a door for this process to receive by.
func newDoor(name, dir string, size int) (*door, error) {
	seg, err := shmem.Create(name, doorHeader+size, shmem.WithDir(dir))
	if err != nil {
		return nil, err
	}
	mem := seg.Bytes()
	le := binary.LittleEndian
	_, _ = rand.Read(mem[offNonce : offNonce+16]) // it cannot fail
	le.PutUint32(mem[offVersion:], doorVersion)
	le.PutUint64(mem[offCapacity:], uint64(size))
	le.PutUint64(mem[offData:], doorHeader)
	copy(mem, doorMagic)
	return doorOf(seg), nil
}

// openDoor maps a door that a peer made, to send by. It must hold the given nonce.
func openDoor(name, dir string, want nonce) (*door, error) {
	seg, err := shmem.Open(name, shmem.WithDir(dir))
	if err != nil {
		return nil, err
	}
	if err := checkDoor(name, seg.Bytes()); err != nil {
		_ = seg.Close()
		return nil, err
	}
	d := doorOf(seg)
	if d.nonce != want {
		_ = seg.Close()
		return nil, shmem.ErrNotHere
	}
	return d, nil
}

func checkDoor(name string, mem []byte) error {
	if len(mem) < doorHeader+minRing {
		return corrupt(name, "size", uint64(len(mem)))
	}
	le := binary.LittleEndian
	size := uint64(len(mem) - doorHeader)
	switch {
	case string(mem[:len(doorMagic)]) != doorMagic:
		return corrupt(name, "magic", le.Uint64(mem))
	case le.Uint32(mem[offVersion:]) != doorVersion:
		return corrupt(name, "version", uint64(le.Uint32(mem[offVersion:])))
	case le.Uint64(mem[offCapacity:]) != size || size > maxRing || size&(size-1) != 0:
		return corrupt(name, "capacity", le.Uint64(mem[offCapacity:]))
	case le.Uint64(mem[offData:]) != doorHeader:
		return corrupt(name, "data offset", le.Uint64(mem[offData:]))
	}
	return nil
}

func doorOf(seg *shmem.Segment) *door {
	mem := seg.Bytes()
	d := doorIn(mem, seg.Name(), shmem.BellAt(mem, offArrival), shmem.BellAt(mem, offRoom))
	d.seg, d.nonce = seg, nonce(mem[offNonce:offNonce+16])
	return d
}

func doorIn(mem []byte, name string, arrival, room sleeper) *door {
	return &door{
		name:    name,
		data:    mem[doorHeader:],
		head:    shmem.Word64(mem, offHead),
		tail:    shmem.Word64(mem, offTail),
		left:    shmem.Word64(mem, offLeft),
		arrival: arrival,
		room:    room,
	}
}

// close gives the memory back.
func (d *door) close() error {
	if d.seg == nil {
		return nil
	}
	return d.seg.Close()
}
