package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

//go:generate go run . -out ../../../transport/gcm/gcm_amd64.s -stubs ../../../transport/gcm/stub_amd64.go -pkg gcm

// Where the fields of the Go type schedule lie: 11 round keys, each twice, then H^32 to H^1, then zeros.
const (
	roundKey  = 2 * 16
	powers    = 11 * roundKey
	perTurn   = 32 // blocks of one turn of the main loop
	powersEnd = powers + perTurn*16
)

func main() {
	ConstraintExpr("!libcipher")
	makeConstants()
	wide("seal512", true)
	wide("open512", false)
	peek("peek512")
	narrowCrypt("seal256", true)
	narrowCrypt("open256", false)
	narrowHash("hash256")
	keyExpansion()
	leaf7()
	Generate()
}

// The constants, in four lanes of 16 bytes, as many as the widest register has.
var swapMask, firstCounters, nextCounters, twoMore, polynomial Mem

func makeConstants() {
	swapMask = lanes("swap", func(int) (uint64, uint64) { return 0x08090a0b0c0d0e0f, 0x0001020304050607 })
	firstCounters = lanes("first", func(i int) (uint64, uint64) { return uint64(i) + 1, 0 })
	nextCounters = lanes("next", func(int) (uint64, uint64) { return 4, 0 })
	twoMore = lanes("two", func(int) (uint64, uint64) { return 2, 0 })
	polynomial = lanes("poly", func(int) (uint64, uint64) { return 0xc200000000000000, 0xc200000000000000 })
}

func lanes(name string, of func(int) (uint64, uint64)) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for i := range 4 {
		lo, hi := of(i)
		DATA(16*i, U64(lo))
		DATA(16*i+8, U64(hi))
	}
	return m
}
