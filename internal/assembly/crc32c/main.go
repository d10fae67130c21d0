package main

import (
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

//go:generate go run . -out ../../crc32c/fold_amd64.s -stubs ../../crc32c/fold_stub_amd64.go -pkg crc32c

const (
	lane     = 16 // bytes
	register = 4 * lane
	turn     = 4 * register // bytes of one turn of the loop
	ahead    = 8 * turn     // distance of the prefetch
)

func main() {
	ConstraintExpr("!libcrc")
	overTurn := constants("turn", turn, turn, turn, turn)
	// At the end the four registers are folded into one, and its four lanes into the last.
	overRegisters := [3]Mem{
		constants("three", 3*register, 3*register, 3*register, 3*register),
		constants("two", 2*register, 2*register, 2*register, 2*register),
		constants("one", register, register, register, register),
	}
	overLanes := constants("lanes", 3*lane, 2*lane, lane, 0)

	TEXT("fold", NOSPLIT, "func(state uint32, p *byte, n int) uint32")
	Pragma("noescape")
	Doc("fold takes n bytes, a multiple of 256 and not 0, into the state of a CRC-32C, and returns the state.")
	state := Load(Param("state"), GP32())
	p, n := Load(Param("p"), GP64()), Load(Param("n"), GP64())

	acc := load(p)
	first := ZMM()
	VMOVD(state, first.AsX()) // the rest of the register becomes 0
	VPXORQ(first, acc[0], acc[0])
	k := ZMM()
	VMOVDQU64(overTurn, k)
	SUBQ(U32(turn), n)
	JZ(LabelRef("end"))

	Label("loop")
	ADDQ(U32(turn), p)
	for i := range acc {
		PREFETCHT0(Mem{Base: p, Disp: ahead + i*register})
	}
	for i := range acc {
		foldInto(acc[i], k, Mem{Base: p, Disp: i * register})
	}
	SUBQ(U32(turn), n)
	JNZ(LabelRef("loop"))

	Label("end")
	for i, constant := range overRegisters {
		VMOVDQU64(constant, k)
		foldInto(acc[i], k, nil)
		VPXORQ(acc[i], acc[3], acc[3])
	}
	Store(remainder(lastLane(acc[3], overLanes)), ReturnIndex(0))
	VZEROUPPER()
	RET()
	Generate()
}

// load loads the bytes of the first turn.
func load(p Register) (acc [4]VecVirtual) {
	for i := range acc {
		acc[i] = ZMM()
		VMOVDQU64(Mem{Base: p, Disp: i * register}, acc[i])
	}
	return acc
}

// foldInto multiplies each lane of acc by a power of x, the distance by which it is moved, and adds the bytes there;
// there may be nil.
func foldInto(acc, k VecVirtual, there Op) {
	low := ZMM()
	VPCLMULQDQ(Imm(0x00), k, acc, low)
	VPCLMULQDQ(Imm(0x11), k, acc, acc)
	if there == nil {
		VPXORQ(low, acc, acc)
		return
	}
	VPTERNLOGQ(Imm(0x96), there, low, acc)
}

// lastLane folds the first three lanes of a register into the last one.
func lastLane(acc VecVirtual, over Mem) VecVirtual {
	k, moved, half, sum := ZMM(), ZMM(), YMM(), XMM()
	VMOVDQU64(over, k)
	VMOVDQA64(acc, moved)
	foldInto(moved, k, nil) // the constants of the last lane are 0: it becomes 0
	VEXTRACTI64X4(Imm(1), moved, half)
	VPXORQ(half, moved.AsY(), half)
	VEXTRACTI128(Imm(1), half, sum)
	VPXORQ(sum, half.AsX(), sum)
	last := XMM()
	VEXTRACTI32X4(Imm(3), acc, last)
	VPXORQ(sum, last, last)
	return last
}

// remainder is the CRC of the last 16 bytes, which equals the CRC of all bytes that were folded into them.
func remainder(last VecVirtual) Register {
	crc, word := GP64(), GP64()
	XORQ(crc, crc)
	VMOVQ(last, word)
	CRC32Q(word, crc)
	VPEXTRQ(Imm(1), last, word)
	CRC32Q(word, crc)
	return crc.As32()
}

// constants are the factors that move lane i over over[i] bytes; 0 for a lane that stays.
func constants(name string, over ...int) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for i, bytes := range over {
		var early, late uint64
		if bytes > 0 {
			early, late = power(8*bytes+31), power(8*bytes-33)
		}
		DATA(lane*i, U64(early))
		DATA(lane*i+8, U64(late))
	}
	return m
}

// power is x^n modulo the polynomial of CRC-32C, with its bits reversed like the bits of the data. The product of two
// reversed numbers of 64 bits, the second with its highest power in bit 31, is 33 places off in its lane. Therefore
// constants asks for 33 powers fewer than the distance for the later half of a lane, and for 64 more than that for the
// earlier half.
func power(n int) uint64 {
	const polynomial = 0x1edc6f41
	r := uint32(1)
	for range n {
		carry := r >> 31
		r = r<<1 ^ carry*polynomial
	}
	return uint64(bits.Reverse32(r))
}
