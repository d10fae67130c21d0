package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// A turn of the 256-bit form takes 4 registers of two blocks each.
const (
	narrowVectors = 4
	narrowTurn    = narrowVectors * 32
)

// narrow is the 256-bit form, for processors without AVX-512: 16 registers, no masks. The caller passes whole turns,
// and keeps the state between calls: the counters, then the sum of GHASH.
type narrow struct {
	key, state            Register
	swap, counter, acc    VecVirtual
	lo, mid, hi, product1 VecVirtual
	fresh                 bool
}

func (m *narrow) begin() {
	m.key, m.state = Load(Param("k"), GP64()), Load(Param("state"), GP64())
	m.swap, m.counter, m.acc = YMM(), YMM(), YMM()
	m.lo, m.mid, m.hi, m.product1 = YMM(), YMM(), YMM(), YMM()
	VMOVDQU(swapMask, m.swap)
	VMOVDQU(Mem{Base: m.state}, m.counter)
	VMOVDQU(Mem{Base: m.state, Disp: 32}, m.acc.AsX())
}

// narrowCrypt generates a function that seals or opens whole turns.
func narrowCrypt(name string, seal bool) {
	TEXT(name, NOSPLIT, "func(k, state, dst, src *byte, n int)")
	Pragma("noescape")
	Doc(name + " takes n bytes, a multiple of 128, with registers of 256 bits. The state is two counters and GHASH's sum.")
	m := &narrow{}
	m.begin()
	dst, src, n := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("n"), GP64())
	Label(name + "Loop")
	TESTQ(n, n)
	JZ(LabelRef(name + "Done"))
	c := m.keystream()
	m.fresh = true
	for v := range c {
		b := YMM()
		if seal {
			VPXOR(Mem{Base: src, Disp: 32 * v}, c[v], c[v])
			VPSHUFB(m.swap, c[v], b)
		} else {
			VMOVDQU(Mem{Base: src, Disp: 32 * v}, b)
			VPXOR(b, c[v], c[v])
			VPSHUFB(m.swap, b, b)
		}
		VMOVDQU(c[v], Mem{Base: dst, Disp: 32 * v})
		if v == 0 {
			VPXOR(m.acc, b, b)
		}
		m.multiply(b, Mem{Base: m.key, Disp: powersEnd - narrowTurn + 32*v})
	}
	m.reduce()
	ADDQ(U32(narrowTurn), src)
	ADDQ(U32(narrowTurn), dst)
	SUBQ(U32(narrowTurn), n)
	JMP(LabelRef(name + "Loop"))
	Label(name + "Done")
	VMOVDQU(m.counter, Mem{Base: m.state})
	VMOVDQU(m.acc.AsX(), Mem{Base: m.state, Disp: 32})
	VZEROUPPER()
	RET()
}

// narrowHash generates the function that hashes additional data, and the last bytes of a message that fill no turn.
func narrowHash(name string) {
	TEXT(name, NOSPLIT, "func(k, state, p *byte, n int)")
	Pragma("noescape")
	Doc(name + " adds n of 128 bytes at p to GHASH's sum, at most 128. What is behind them must be zeros.")
	m := &narrow{}
	m.begin()
	p, n, power := Load(Param("p"), GP64()), Load(Param("n"), GP64()), GP64()
	LEAQ(Mem{Base: n, Disp: 15}, n)
	ANDQ(I32(-16), n)
	LEAQ(Mem{Base: m.key, Disp: powersEnd}, power)
	SUBQ(n, power)
	m.fresh = true
	for v := range narrowVectors {
		b := YMM()
		VMOVDQU(Mem{Base: p, Disp: 32 * v}, b)
		VPSHUFB(m.swap, b, b)
		if v == 0 {
			VPXOR(m.acc, b, b)
		}
		m.multiply(b, Mem{Base: power, Disp: 32 * v})
	}
	m.reduce()
	VMOVDQU(m.acc.AsX(), Mem{Base: m.state, Disp: 32})
	VZEROUPPER()
	RET()
}

// keystream encrypts the next counters of a turn.
func (m *narrow) keystream() [narrowVectors]VecVirtual {
	var c [narrowVectors]VecVirtual
	for v := range c {
		c[v] = YMM()
		VPSHUFB(m.swap, m.counter, c[v])
		VPADDD(twoMore, m.counter, m.counter)
		VPXOR(Mem{Base: m.key}, c[v], c[v])
	}
	for r := 1; r <= 10; r++ {
		for v := range c {
			at := Mem{Base: m.key, Disp: roundKey * r}
			if r < 10 {
				VAESENC(at, c[v], c[v])
			} else {
				VAESENCLAST(at, c[v], c[v])
			}
		}
	}
	return c
}

// multiply is machine.multiply for two blocks.
func (m *narrow) multiply(blocks VecVirtual, power Mem) {
	if m.fresh {
		VPCLMULQDQ(Imm(0x00), power, blocks, m.lo)
		VPCLMULQDQ(Imm(0x11), power, blocks, m.hi)
		VPCLMULQDQ(Imm(0x01), power, blocks, m.mid)
		m.fresh = false
	} else {
		VPCLMULQDQ(Imm(0x00), power, blocks, m.product1)
		VPXOR(m.product1, m.lo, m.lo)
		VPCLMULQDQ(Imm(0x11), power, blocks, m.product1)
		VPXOR(m.product1, m.hi, m.hi)
		VPCLMULQDQ(Imm(0x01), power, blocks, m.product1)
		VPXOR(m.product1, m.mid, m.mid)
	}
	VPCLMULQDQ(Imm(0x10), power, blocks, m.product1)
	VPXOR(m.product1, m.mid, m.mid)
}

// reduce is machine.reduce for two lanes.
func (m *narrow) reduce() {
	poly, t := YMM(), m.product1
	VMOVDQU(polynomial, poly)
	for _, fold := range [2]struct{ from, to VecVirtual }{{m.lo, m.mid}, {m.mid, m.hi}} {
		VPCLMULQDQ(Imm(0x00), poly, fold.from, t)
		VPXOR(t, fold.to, fold.to)
		VPSHUFD(Imm(0x4e), fold.from, t)
		VPXOR(t, fold.to, fold.to)
	}
	VEXTRACTI128(Imm(1), m.hi, t.AsX())
	VPXOR(t.AsX(), m.hi.AsX(), m.acc.AsX())
}
