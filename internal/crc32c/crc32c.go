package crc32c

import "hash/crc32"

var table = crc32.MakeTable(crc32.Castagnoli)

// maxInterleaved is the largest piece in bytes that Sums interleaves with others. A larger piece is faster by itself:
// hash/crc32 then works at three places of it, and fold takes 256 bytes at a time.
var maxInterleaved = 1 << 10

func init() {
	if hasFold {
		maxInterleaved = foldTurn - 1
	}
}

// foldTurn is how many bytes fold takes at a time. From one turn on it is faster than hash/crc32.
const foldTurn = 256

// Sums computes the CRC-32C of each piece into sums, which must be at least as long as pieces. It allocates nothing.
func Sums(sums []uint32, pieces [][]byte) {
	sums = sums[:len(pieces)]
	for len(pieces) > 1 {
		a, b, c := pieces[0], pieces[1], pieces[1] // of only two pieces, the second twice: that takes no longer
		n := min(len(pieces), lanes)
		if n == lanes {
			c = pieces[2]
		}
		if max(len(a), len(b), len(c)) > maxInterleaved {
			for i, p := range pieces[:n] {
				sums[i] = Sum(p)
			}
		} else {
			x, y, z := sumsOfThree(a, b, c)
			sums[0], sums[1] = x, y
			if n == lanes {
				sums[2] = z
			}
		}
		sums, pieces = sums[n:], pieces[n:]
	}
	if len(pieces) == 1 {
		sums[0] = Sum(pieces[0])
	}
}

// lanes is how many pieces Sums computes side by side.
const lanes = 3

// Sum is the CRC-32C of a piece.
func Sum(b []byte) uint32 { return Add(0, b) }

// Add continues a checksum: if sum is the CRC-32C of the bytes a, Add(sum, b) is the CRC-32C of a followed by b.
func Add(sum uint32, b []byte) uint32 {
	if hasFold && len(b) >= foldTurn {
		n := len(b) &^ (foldTurn - 1)
		sum = ^fold(^sum, &b[0], n)
		b = b[n:]
	}
	return crc32.Update(sum, table, b)
}
