package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// machine holds the registers of the 512-bit form, with four blocks in each.
type machine struct {
	seal   bool
	key    Register
	rounds [11]VecVirtual
	// swap reverses the bytes of each block: GHASH and the counter take blocks as numbers, least byte first.
	swap        VecVirtual
	counter     VecVirtual
	acc         VecVirtual // sum of GHASH so far, in the first lane; the others are 0
	lo, mid, hi VecVirtual // the product before it is reduced: lo + mid·x^64 + hi·x^128, lane by lane
	fresh       bool       // lo, mid and hi hold no product yet
}

// firstSize is how many first bytes of a message may lie apart from the rest: one register.
const firstSize = 64

// wide generates a function that seals or opens a message and computes its tag; the caller compares tags.
func wide(name string, seal bool) {
	TEXT(name, NOSPLIT, "func(k, j0, first, dst, src *byte, n int, aad *byte, aadLen int, tag *byte)")
	Pragma("noescape")
	Doc(name+" seals or opens n bytes with registers of 512 bits, and computes the tag. j0 is the first counter block.",
		"Where first is not nil, 64 bytes go before the n: "+map[bool]string{
			true:  "they lie there, and go to dst.",
			false: "they are at src, and only authenticated; peek512 opens them.",
		}[seal])
	m := &machine{seal: seal, key: Load(Param("k"), GP64())}
	m.load(Load(Param("j0"), GP64()))
	m.hashAAD(name, Load(Param("aad"), GP64()), Load(Param("aadLen"), GP64()))

	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	n := Load(Param("n"), GP64())
	m.first(name, Load(Param("first"), GP64()), dst, src)
	m.mainLoop(name, dst, src, n)
	m.tail(name, dst, src, n)
	m.finish()
	VZEROUPPER()
	RET()
}

// load loads the round keys and constants, and makes the first four counters.
func (m *machine) load(j0 Register) {
	for i := range m.rounds {
		m.rounds[i] = ZMM()
		VBROADCASTI32X4(Mem{Base: m.key, Disp: roundKey * i}, m.rounds[i])
	}
	m.swap, m.counter, m.acc = ZMM(), ZMM(), ZMM()
	VMOVDQU64(swapMask, m.swap)
	VBROADCASTI32X4(Mem{Base: j0}, m.counter)
	VPSHUFB(m.swap, m.counter, m.counter)
	VPADDD(firstCounters, m.counter, m.counter)
	VPXORQ(m.acc, m.acc, m.acc)
	m.lo, m.mid, m.hi = ZMM(), ZMM(), ZMM()
}

// counters gives the next 4·count counters with the first round key added.
func (m *machine) counters(count int) []VecVirtual {
	c := make([]VecVirtual, count)
	for v := range c {
		c[v] = ZMM()
		VPSHUFB(m.swap, m.counter, c[v])
		VPADDD(nextCounters, m.counter, m.counter)
		VPXORQ(m.rounds[0], c[v], c[v])
	}
	return c
}

// round is the r-th round of AES of all blocks in c.
func (m *machine) round(r int, c []VecVirtual) {
	for v := range c {
		VAESENC(m.rounds[r], c[v], c[v])
	}
}

// keystream encrypts the next 4·count counters.
func (m *machine) keystream(count int) []VecVirtual {
	c := m.counters(count)
	for r := 1; r < 10; r++ {
		m.round(r, c)
	}
	for v := range c {
		VAESENCLAST(m.rounds[10], c[v], c[v])
	}
	return c
}

// multiply adds the products of four blocks and four powers of H to lo, mid and hi. The blocks' bytes are reversed.
func (m *machine) multiply(blocks VecVirtual, power Op) {
	if m.fresh {
		t := ZMM()
		VPCLMULQDQ(Imm(0x00), power, blocks, m.lo)
		VPCLMULQDQ(Imm(0x11), power, blocks, m.hi)
		VPCLMULQDQ(Imm(0x01), power, blocks, m.mid)
		VPCLMULQDQ(Imm(0x10), power, blocks, t)
		VPXORQ(t, m.mid, m.mid)
		m.fresh = false
		return
	}
	a, b, c, d := ZMM(), ZMM(), ZMM(), ZMM()
	VPCLMULQDQ(Imm(0x00), power, blocks, a)
	VPCLMULQDQ(Imm(0x11), power, blocks, b)
	VPCLMULQDQ(Imm(0x01), power, blocks, c)
	VPCLMULQDQ(Imm(0x10), power, blocks, d)
	VPXORQ(a, m.lo, m.lo)
	VPXORQ(b, m.hi, m.hi)
	VPTERNLOGQ(Imm(0x96), c, d, m.mid) // mid ^= c ^ d
}

// reduce folds lo into mid and mid into hi, both modulo the polynomial of GHASH, and adds the four lanes up into acc.
func (m *machine) reduce() {
	t, s := ZMM(), ZMM()
	VPCLMULQDQ(Imm(0x00), polynomial, m.lo, t)
	VPSHUFD(Imm(0x4e), m.lo, s)
	VPTERNLOGQ(Imm(0x96), s, t, m.mid)
	VPCLMULQDQ(Imm(0x00), polynomial, m.mid, t)
	VPSHUFD(Imm(0x4e), m.mid, s)
	VPTERNLOGQ(Imm(0x96), s, t, m.hi)
	VEXTRACTI64X4(Imm(1), m.hi, t.AsY())
	VPXORQ(t.AsY(), m.hi.AsY(), s.AsY())
	VEXTRACTI32X4(Imm(1), s.AsY(), t.AsX())
	VPXORQ(t.AsX(), s.AsX(), m.acc.AsX())
}

// hashAAD hashes the additional data, 64 bytes at a time: it is short.
func (m *machine) hashAAD(name string, aad, n Register) {
	Label(name + "AAD")
	TESTQ(n, n)
	JZ(LabelRef(name + "AADDone"))
	now, k, power, b := GP64(), K(), GP64(), ZMM()
	m.atMost(now, n, 64)
	m.mask(k, now, 0)
	m.powersOf(power, now)
	VMOVDQU8_Z(Mem{Base: aad}, k, b)
	VPSHUFB(m.swap, b, b)
	VPXORQ(m.acc, b, b)
	m.fresh = true
	m.multiply(b, Mem{Base: power})
	m.reduce()
	ADDQ(now, aad)
	SUBQ(now, n)
	JMP(LabelRef(name + "AAD"))
	Label(name + "AADDone")
}

// first seals, or only hashes, the 64 bytes that lie apart; it generates a branch for the case that there are none.
func (m *machine) first(name string, first, dst, src Register) {
	TESTQ(first, first)
	JZ(LabelRef(name + "Rest"))
	b := ZMM()
	if m.seal {
		c := m.keystream(1)[0]
		VPXORQ(Mem{Base: first}, c, c)
		VMOVDQU64(c, Mem{Base: dst})
		VPSHUFB(m.swap, c, b)
		ADDQ(U32(firstSize), dst)
	} else {
		VPADDD(nextCounters, m.counter, m.counter)
		VMOVDQU64(Mem{Base: src}, b)
		VPSHUFB(m.swap, b, b)
		ADDQ(U32(firstSize), src)
	}
	VPXORQ(m.acc, b, b)
	m.fresh = true
	m.multiply(b, Mem{Base: m.key, Disp: powersEnd - firstSize})
	m.reduce()
	Label(name + "Rest")
}

// peek generates the function that opens the first 64 bytes of a message without its tag.
func peek(name string) {
	TEXT(name, NOSPLIT, "func(k, j0, dst, src *byte)")
	Pragma("noescape")
	Doc(name + " opens the first 64 bytes of a message with a register of 512 bits, and authenticates nothing.")
	m := &machine{key: Load(Param("k"), GP64())}
	m.load(Load(Param("j0"), GP64()))
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	c := m.keystream(1)[0]
	VPXORQ(Mem{Base: src}, c, c)
	VMOVDQU64(c, Mem{Base: dst})
	VZEROUPPER()
	RET()
}

// atMost stores the lesser of n and most in to.
func (m *machine) atMost(to, n Register, most int) {
	limit := GP64()
	MOVQ(U32(uint32(most)), limit)
	MOVQ(n, to)
	CMPQ(to, limit)
	CMOVQGT(limit, to)
}

// mask stores in k a bit for each of the bytes 64·v to 64·v+63 that are among the first n.
func (m *machine) mask(k, n Register, v int) {
	c, zero, bits := GP64(), GP64(), GP64()
	XORQ(zero, zero)
	MOVQ(n, c)
	if v > 0 {
		SUBQ(U32(uint32(64*v)), c)
		CMOVQLT(zero, c)
	}
	MOVQ(I32(-1), bits)
	m.upTo64(c)
	BZHIQ(c, bits, bits)
	KMOVQ(bits, k)
}

// upTo64 limits c to 64: BZHI reads its low 8 bits alone, and would take 256 for 0.
func (m *machine) upTo64(c Register) {
	limit := GP64()
	MOVQ(U32(64), limit)
	CMPQ(c, limit)
	CMOVQGT(limit, c)
}

// powersOf stores in at where the powers of H for the blocks of n bytes begin: the last block's power is H.
func (m *machine) powersOf(at, n Register) {
	b := GP64()
	LEAQ(Mem{Base: n, Disp: 15}, b)
	ANDQ(I32(-16), b)
	LEAQ(Mem{Base: m.key, Disp: powersEnd}, at)
	SUBQ(b, at)
}

// registers is how many registers of 64 bytes a turn takes.
const registers = perTurn * 16 / 64

// mainLoop takes 512 bytes a turn, with one reduction. A processor reorders some 130 vector instructions (Zen 4), and a
// turn has 210: therefore the rounds of AES and the products of GHASH alternate in the code. When it opens, a turn
// hashes its own ciphertext. When it seals, the ciphertext exists only after the last round: the next turn reads it
// from dst and hashes it.
func (m *machine) mainLoop(name string, dst, src, n Register) {
	advance := func() {
		ADDQ(U32(perTurn*16), src)
		ADDQ(U32(perTurn*16), dst)
		SUBQ(U32(perTurn*16), n)
	}
	sealed := Mem{Base: dst, Disp: -perTurn * 16}
	if m.seal {
		CMPQ(n, U32(perTurn*16))
		JLT(LabelRef(name + "Tail"))
		m.turn(dst, src, nil)
		advance()
	}
	Label(name + "Loop")
	CMPQ(n, U32(perTurn*16))
	if m.seal {
		JLT(LabelRef(name + "Last"))
		m.turn(dst, src, &sealed)
	} else {
		JLT(LabelRef(name + "Tail"))
		m.turn(dst, src, &Mem{Base: src})
	}
	advance()
	JMP(LabelRef(name + "Loop"))
	if m.seal {
		Label(name + "Last")
		m.fresh = true
		for v := range registers {
			m.hash(sealed, (v+1)%registers)
		}
		m.reduce()
	}
}

// turn seals or opens 512 bytes, and meanwhile hashes 512 bytes at hashed; nil: none.
func (m *machine) turn(dst, src Register, hashed *Mem) {
	m.fresh = true
	c := m.counters(registers)
	for r := 1; r < 10; r++ {
		m.round(r, c)
		if hashed != nil && r <= registers {
			m.hash(*hashed, r%registers)
		}
	}
	if hashed != nil {
		m.reduce()
	}
	for v := range c {
		t := ZMM()
		VPXORQ(Mem{Base: src, Disp: 64 * v}, m.rounds[10], t)
		VAESENCLAST(t, c[v], c[v])
		VMOVDQU64(c[v], Mem{Base: dst, Disp: 64 * v})
	}
}

// hash adds the v-th register of a turn to the products. turn takes register 0 last, since the sum of the turn before
// is added to it, and that sum is ready late.
func (m *machine) hash(from Mem, v int) {
	b := ZMM()
	VMOVDQU64(from.Offset(64*v), b)
	VPSHUFB(m.swap, b, b)
	if v == 0 {
		VPXORQ(m.acc, b, b)
	}
	h := ZMM()
	VMOVDQU64(Mem{Base: m.key, Disp: powers + 64*v}, h)
	m.multiply(b, h)
}

// tail takes the last bytes, fewer than 512, in at most two turns of 256 with masks.
func (m *machine) tail(name string, dst, src, n Register) {
	Label(name + "Tail")
	TESTQ(n, n)
	JZ(LabelRef(name + "Done"))
	now, power := GP64(), GP64()
	m.atMost(now, n, 256)
	m.powersOf(power, now)
	m.fresh = true
	c := m.keystream(4)
	for v := range c {
		k, b := K(), ZMM()
		m.mask(k, now, v)
		VMOVDQU8_Z(Mem{Base: src, Disp: 64 * v}, k, b)
		if m.seal {
			VPXORQ(b, c[v], c[v])
			VMOVDQU8_Z(c[v], k, b)
			VMOVDQU8(b, k, Mem{Base: dst, Disp: 64 * v})
		} else {
			VPXORQ(b, c[v], c[v])
			VMOVDQU8(c[v], k, Mem{Base: dst, Disp: 64 * v})
		}
		VPSHUFB(m.swap, b, b)
		if v == 0 {
			VPXORQ(m.acc, b, b)
		}
		m.multiply(b, Mem{Base: power, Disp: 64 * v})
	}
	m.reduce()
	ADDQ(now, src)
	ADDQ(now, dst)
	SUBQ(now, n)
	JMP(LabelRef(name + "Tail"))
	Label(name + "Done")
}

// finish adds the block of lengths and the encrypted first counter block, and stores the tag.
func (m *machine) finish() {
	n, aadLen, more := Load(Param("n"), GP64()), Load(Param("aadLen"), GP64()), GP64()
	LEAQ(Mem{Base: n, Disp: firstSize}, more)
	first := Load(Param("first"), GP64())
	TESTQ(first, first)
	CMOVQNE(more, n)
	SHLQ(U8(3), n)
	SHLQ(U8(3), aadLen)
	b, t := ZMM(), ZMM()
	VMOVQ(n, b.AsX())
	VMOVQ(aadLen, t.AsX())
	VPUNPCKLQDQ(t.AsX(), b.AsX(), b.AsX())
	VPXORQ(m.acc, b, b)
	h := ZMM()
	VMOVDQU64(Mem{Base: m.key, Disp: powersEnd - 16}, h.AsX())
	m.fresh = true
	m.multiply(b, h)
	m.reduce()
	j0 := ZMM()
	VMOVDQU64(Mem{Base: Load(Param("j0"), GP64())}, j0.AsX())
	VPXORQ(m.rounds[0].AsX(), j0.AsX(), j0.AsX())
	for r := 1; r < 10; r++ {
		VAESENC(m.rounds[r].AsX(), j0.AsX(), j0.AsX())
	}
	VAESENCLAST(m.rounds[10].AsX(), j0.AsX(), j0.AsX())
	VPSHUFB(m.swap.AsX(), m.acc.AsX(), m.acc.AsX())
	VPXORQ(j0.AsX(), m.acc.AsX(), m.acc.AsX())
	VMOVDQU64(m.acc.AsX(), Mem{Base: Load(Param("tag"), GP64())})
}
