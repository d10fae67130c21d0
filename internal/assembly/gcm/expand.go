package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// keyExpansion generates the key expansion of AES-128 (FIPS 197, section 5.2): each word is the one before it plus the
// one four words back; for each fourth word AESKEYGENASSIST transforms the one before first.
func keyExpansion() {
	TEXT("expandKey", NOSPLIT, "func(key, rounds *byte)")
	Pragma("noescape")
	Doc("expandKey makes the 11 round keys of AES-128, and writes each twice.")
	key, rounds := Load(Param("key"), GP64()), Load(Param("rounds"), GP64())
	k, t := XMM(), XMM()
	MOVOU(Mem{Base: key}, k)
	store := func(round int) {
		MOVOU(k, Mem{Base: rounds, Disp: roundKey * round})
		MOVOU(k, Mem{Base: rounds, Disp: roundKey*round + 16})
	}
	store(0)
	constant := 1
	for i := 1; i <= 10; i++ {
		AESKEYGENASSIST(Imm(uint64(constant)), k, t)
		PSHUFD(Imm(0xff), t, t)
		shifted := XMM()
		MOVO(k, shifted)
		for range 3 {
			PSLLDQ(Imm(4), shifted)
			PXOR(shifted, k)
		}
		PXOR(t, k)
		store(i)
		constant <<= 1
		if constant > 0xff {
			constant ^= 0x11b
		}
	}
	RET()
}

// leaf7 generates the query for VAES and VPCLMULQDQ: x/sys/cpu detects them only together with AVX-512.
func leaf7() {
	TEXT("leaf7", NOSPLIT, "func() (ecx uint32)")
	Doc("leaf7 is ECX of CPUID with EAX = 7 and ECX = 0: bit 9 is VAES, bit 10 VPCLMULQDQ.")
	MOVL(U32(7), EAX)
	XORL(ECX, ECX)
	CPUID()
	Store(ECX, Return("ecx"))
	RET()
}
