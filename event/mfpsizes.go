package event

import "encoding/binary"

// The size tables of MFPs: a u16 for each fragment, or a u32 if the packet is wide.

// sizeWidth is how many bytes a size takes in the table.
func sizeWidth(wide bool) int {
	if wide {
		return 4
	}
	return 2
}

func isMFPMagic(magic uint16) bool { return magic >= MFPMagic && magic <= WordedMFPMagic }

// sumSizes adds up a table of sizes, each rounded up to 2^align. No table can overflow the sum: 65535 × 2^32 bytes are
// less than 2^48.
func sumSizes(sizes []byte, align uint8, wide bool) uint64 {
	if !wide {
		return sumPaddedSizes(sizes, align)
	}
	var total uint64
	for ; len(sizes) >= 4; sizes = sizes[4:] {
		total += padSize(uint64(binary.LittleEndian.Uint32(sizes)), align)
	}
	return total
}

// findTooLarge is the index of the first size in a wide table that is beyond MaxFragment; -1 if there is none.
func findTooLarge(sizes []byte) int {
	for i := 0; 4*i < len(sizes); i++ {
		if binary.LittleEndian.Uint32(sizes[4*i:]) > MaxFragment {
			return i
		}
	}
	return -1
}

// copySizes copies a table of sizes to another one, of the same number of sizes. False: a size does not fit.
func copySizes(dst, src []byte, toWide, wide bool) bool {
	if toWide == wide {
		copy(dst, src)
		return true
	}
	for i, n := 0, len(dst)/sizeWidth(toWide); i < n; i++ {
		if toWide {
			binary.LittleEndian.PutUint32(dst[4*i:], uint32(binary.LittleEndian.Uint16(src[2*i:])))
			continue
		}
		size := binary.LittleEndian.Uint32(src[4*i:])
		if size > MaxNarrowFragment {
			return false
		}
		binary.LittleEndian.PutUint16(dst[2*i:], uint16(size))
	}
	return true
}

// sumPaddedSizes adds up a table of u16 sizes, each rounded up to 2^align. It takes
// four sizes at a time as two pairs of 32-bit lanes; no lane can overflow,
// since at most 2^14 × 2 values of at most 2^16 meet in one.
func sumPaddedSizes(sizes []byte, align uint8) uint64 {
	const lanes = 0x0000FFFF_0000FFFF
	round := uint64(1)<<align - 1
	round |= round << 32
	var sum uint64
	for len(sizes) >= 8 {
		w := binary.LittleEndian.Uint64(sizes)
		sum += (w&lanes+round)&^round + (w>>16&lanes+round)&^round
		sizes = sizes[8:]
	}
	total := sum>>32 + sum&(1<<32-1)
	for len(sizes) >= 2 {
		s := uint64(binary.LittleEndian.Uint16(sizes))
		total += padSize(s, align)
		sizes = sizes[2:]
	}
	return total
}

// padSize rounds a fragment's size up to 2^align.
func padSize(n uint64, align uint8) uint64 {
	round := uint64(1)<<align - 1
	return (n + round) &^ round
}
