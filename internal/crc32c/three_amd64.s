#include "textflag.h"

// REST adds the remaining n bytes at p of one piece to crc: words of 8 bytes, then 4, 2 and 1 bytes.
#define REST(p, n, crc, words, four, two, one, done) \
words: \
	CMPQ n, $8; \
	JLT four; \
	CRC32Q (p), crc; \
	ADDQ $8, p; \
	SUBQ $8, n; \
	JMP words; \
four: \
	TESTQ $4, n; \
	JZ two; \
	CRC32L (p), crc; \
	ADDQ $4, p; \
two: \
	TESTQ $2, n; \
	JZ one; \
	CRC32W (p), crc; \
	ADDQ $2, p; \
one: \
	TESTQ $1, n; \
	JZ done; \
	CRC32B (p), crc; \
done: \
	NOTL crc

// func sumThree(a, b, c []byte) (x, y, z uint32)
//
// AX, BX, CX: the sums; SI, DI, DX: read positions; R8, R9, R10: bytes left; R11: words that all three pieces have.
TEXT ·sumThree(SB), NOSPLIT, $0-84
	MOVQ a_base+0(FP), SI
	MOVQ a_len+8(FP), R8
	MOVQ b_base+24(FP), DI
	MOVQ b_len+32(FP), R9
	MOVQ c_base+48(FP), DX
	MOVQ c_len+56(FP), R10
	MOVL $0xffffffff, AX
	MOVL $0xffffffff, BX
	MOVL $0xffffffff, CX
	MOVQ R8, R11
	CMPQ R9, R11
	CMOVQLT R9, R11
	CMPQ R10, R11
	CMOVQLT R10, R11
	SHRQ $3, R11
	LEAQ (R11*8), R12
	SUBQ R12, R8
	SUBQ R12, R9
	SUBQ R12, R10
	TESTQ R11, R11
	JZ rest

together:
	CRC32Q (SI), AX
	CRC32Q (DI), BX
	CRC32Q (DX), CX
	ADDQ $8, SI
	ADDQ $8, DI
	ADDQ $8, DX
	DECQ R11
	JNZ together

rest:
	REST(SI, R8, AX, words1, four1, two1, one1, done1)
	REST(DI, R9, BX, words2, four2, two2, one2, done2)
	REST(DX, R10, CX, words3, four3, two3, one3, done3)
	MOVL AX, x+72(FP)
	MOVL BX, y+76(FP)
	MOVL CX, z+80(FP)
	RET
