package gateway

import (
	"encoding/binary"
	"fmt"

	"ringlet/memory"
)

// operation of a descriptor.
type operation uint8

const (
	opImport operation = iota + 1 // local bytes: a name; value: a handle
	opLeave                       // frees a handle
	opSize                        // value: size of the segment
	opWrite
	opRead
	opAdd     // value: the former word, also for the next two
	opSwap    // a: the new word
	opCompare // a: the word expected, b: the new one
	opNotify  // value: the page's number of notices
	opWait    // a: number of notices known; value: present number
	opFence

	numOperations
)

var operationNames = [numOperations]string{
	"", "import", "leave", "size", "write", "read", "add", "swap", "compare and swap", "notify", "wait", "fence",
}

// Flags of a descriptor.
const (
	flagList   = 1 << iota // the local bytes are a list of pieces
	flagNotify             // when the bytes are written, notify the page of the remote offset
	flagAlone              // not merged with the writes before and behind it
)

// Offsets in a descriptor; the rest is 0.
const (
	dOperation = 0x00
	dFlags     = 0x01
	dContext   = 0x02
	dSegment   = 0x04
	dRemote    = 0x08
	dLocal     = 0x10
	dLength    = 0x14
	dA         = 0x18
	dB         = 0x20
	dTime      = 0x28
	dEnd       = 0x2C

	listEntry = 16 // u64 remote offset, u32 local offset, u32 length
)

// rule says what a descriptor of an operation must be.
type rule struct {
	needsSegment  bool         // it names a segment
	maxLocalBytes int          // how many local bytes it may have; 0: none
	remoteBytes   int          // bytes at the remote offset if there are no local ones
	allow         memory.Allow // access that the grants must allow
	allowedFlags  byte         // flags that it may have
	hasValue      bool         // its completion has a value
}

// rules is the table of checks.
var rules = [numOperations]rule{
	opImport: {maxLocalBytes: maxName, hasValue: true},
	opLeave:  {needsSegment: true},
	opSize:   {needsSegment: true, hasValue: true},
	opWrite: {needsSegment: true, maxLocalBytes: maxLength, allow: memory.AllowWrite,
		allowedFlags: flagList | flagNotify | flagAlone},
	opRead:    {needsSegment: true, maxLocalBytes: maxLength, allow: memory.AllowRead, allowedFlags: flagList | flagAlone},
	opAdd:     {needsSegment: true, remoteBytes: 8, allow: memory.AllowLock, allowedFlags: flagAlone, hasValue: true},
	opSwap:    {needsSegment: true, remoteBytes: 8, allow: memory.AllowLock, allowedFlags: flagAlone, hasValue: true},
	opCompare: {needsSegment: true, remoteBytes: 8, allow: memory.AllowLock, allowedFlags: flagAlone, hasValue: true},
	opNotify:  {needsSegment: true, remoteBytes: 1, allow: memory.AllowNotify, allowedFlags: flagAlone, hasValue: true},
	opWait:    {needsSegment: true, remoteBytes: 1, allow: memory.AllowRead, hasValue: true},
	opFence:   {needsSegment: true, allowedFlags: flagAlone},
}

// Cause is why a descriptor was not done: 1 to 31 are causes of package memory, those from 32 on the gateway's.
type Cause uint8

// Causes of the gateway's checks.
const (
	badOperation Cause = iota + 32
	badFlags
	badContext
	badLength
	outsideData
	unknownSegment
	descriptorPending
	tooManySegments
	tooManyWaits
	otherCause

	numCauses
)

var causeTexts = map[Cause]string{
	badOperation:      "there is no such operation",
	badFlags:          "a flag that the operation does not have, or a byte that must be 0",
	badContext:        "there are ordering contexts 0 to 15",
	badLength:         "1 to 4096 bytes, a name of 1 to 255, or a list of 1 to 64 pieces",
	outsideData:       "the local bytes do not lie in the data area",
	unknownSegment:    "the handle is of no segment that is imported",
	descriptorPending: "the descriptor of that place is still under way",
	tooManySegments:   "64 segments are imported",
	tooManyWaits:      "16 waits are under way",
	otherCause:        "a cause without a number",
}

func (c Cause) String() string {
	if text, ok := causeTexts[c]; ok {
		return text
	}
	return memory.Cause(c).Error()
}

// Outcomes in a completion word.
const (
	outcomeDone    = 1
	outcomeRefused = 2
	outcomeUnknown = 3
	outcomePartial = 4 // refused, perhaps after a part was done
	numOutcomes    = 5
)

// answer is the content of a completion word.
type answer struct {
	outcome  uint8
	cause    Cause
	hasValue bool
	value    uint64
}

func refusal(why Cause) answer { return answer{outcome: outcomeRefused, cause: why} }

// piece is bytes of the data area, and their place in the segment.
type piece struct {
	remote        int64
	local, length uint32
}

// request is a checked descriptor.
type request struct {
	position   uint64
	op         operation
	flags      byte
	context    uint8
	handle     uint32
	target     target
	attributes memory.Attributes
	piece
	list          []piece
	a, b          uint64
	timeoutMillis uint32
}

func (r *request) String() string {
	return fmt.Sprintf("%d: %s context %d flags %d %08x remote %d local %d +%d a %d b %d time %d %v", r.position,
		operationNames[r.op], r.context, r.flags, r.handle, r.remote, r.local, r.length, r.a, r.b, r.timeoutMillis, r.list)
}

// decode reads a descriptor; its content may be arbitrary.
func (r *request) decode(position uint64, d *[descriptorSize]byte) {
	le := binary.LittleEndian
	*r = request{
		position: position,
		op:       operation(d[dOperation]),
		flags:    d[dFlags],
		context:  d[dContext],
		handle:   le.Uint32(d[dSegment:]),
		piece: piece{
			remote: int64(le.Uint64(d[dRemote:])),
			local:  le.Uint32(d[dLocal:]),
			length: le.Uint32(d[dLength:]),
		},
		a:             le.Uint64(d[dA:]),
		b:             le.Uint64(d[dB:]),
		timeoutMillis: le.Uint32(d[dTime:]),
	}
}
