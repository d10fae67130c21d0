package gateway

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"ringlet/shmem"
)

// The layout of a gateway, as docs/format/door.md lists it.
const (
	magic   = "RNGLMEMD"
	version = 1

	// ringDescriptors is the size of the ring, and the most transactions of a client under way.
	ringDescriptors = 1024
	// descriptorSize is the size of a descriptor, bytes.
	descriptorSize = 64
	completionSize = 16

	ringAt  = shmem.PageSize
	wordsAt = ringAt + ringDescriptors*descriptorSize
	dataAt  = wordsAt + ringDescriptors*completionSize

	// minData is the smallest data area, bytes.
	minData = 8 << 10
	// maxData is the largest data area, bytes.
	maxData = 1 << 30

	maxSegments = 64 // how many segments a client may have imported at a time
	maxWaits    = 16 // how many waits for notices may be under way
	maxLength   = 4096
	maxList     = 64
	maxName     = 255
	numContexts = 16

	clientByte  = 0 // the client locks this byte as long as it lives
	gatewayByte = 1 // the gateway's process locks this byte

	segmentPrefix = "ringlet-door-"
)

// Offsets of the header's words.
const (
	clientStateAt  = 0x040
	clientPIDAt    = 0x048
	attachedAt     = 0x050
	startedAt      = 0x080
	wakeAt         = 0x0C0
	gatewayStateAt = 0x100
	gatewayPIDAt   = 0x108
	workAt         = 0x140
	completedAt    = 0x180
)

// States of a client.
const (
	clientAttached = 1
	clientDetached = 2
)

// States of a gateway.
const (
	gatewayOpen    = 1
	gatewayClosed  = 2
	gatewayRefused = 3 // the client's count of descriptors is impossible
)

// makeHeader writes the header of a new gateway into zeroed memory.
func makeHeader(mem []byte, pid int) {
	copy(mem, magic)
	for i, v := range []uint64{version, ringDescriptors, ringAt, wordsAt, dataAt, uint64(len(mem) - dataAt), maxSegments} {
		binary.LittleEndian.PutUint64(mem[8+8*i:], v)
	}
	shmem.Word64(mem, gatewayPIDAt).Store(uint64(pid))
	shmem.Word64(mem, gatewayStateAt).Store(gatewayOpen)
}

// sharedMemory is the parts of a gateway's memory. Any process of this user may write to all of it at any time.
type sharedMemory struct {
	bytes, data                          []byte
	clientState, clientPID, attached     *atomic.Uint64
	startedCount, wakeWord, gatewayState *atomic.Uint64
	workBell, completedBell              *shmem.Bell
}

func mapMemory(mem []byte) *sharedMemory {
	word := func(off int) *atomic.Uint64 { return shmem.Word64(mem, off) }
	return &sharedMemory{
		bytes:         mem,
		data:          mem[dataAt:len(mem):len(mem)],
		clientState:   word(clientStateAt),
		clientPID:     word(clientPIDAt),
		attached:      word(attachedAt),
		startedCount:  word(startedAt),
		wakeWord:      word(wakeAt),
		gatewayState:  word(gatewayStateAt),
		workBell:      shmem.BellAt(mem, workAt),
		completedBell: shmem.BellAt(mem, completedAt),
	}
}

// descriptor returns a copy of the descriptor at a position, since the client may change the ring.
func (m *sharedMemory) descriptor(position uint64) [descriptorSize]byte {
	at := ringAt + position%ringDescriptors*descriptorSize
	return [descriptorSize]byte(m.bytes[at:])
}

// complete writes the completion word of a position, after the value if there is one.
func (m *sharedMemory) complete(position uint64, a answer) {
	at := int(wordsAt + position%ringDescriptors*completionSize)
	if a.hasValue {
		shmem.Word64(m.bytes, at).Store(a.value)
	}
	shmem.Word64(m.bytes, at+8).Store((position+1)<<16 | uint64(a.cause)<<8 | uint64(a.outcome))
}

// brokenError says that a client's count of descriptors is impossible. Its descriptors are not read, and its gateway is
// closed.
type brokenError struct {
	Started, Consumed uint64
}

func (e *brokenError) Error() string {
	if e.Started < e.Consumed {
		return fmt.Sprintf("the client's count of descriptors has moved back, from %d to %d", e.Consumed, e.Started)
	}
	return fmt.Sprintf("the client's count of descriptors is %d, %d more than were taken, but a ring has only %d",
		e.Started, e.Started-e.Consumed, ringDescriptors)
}
