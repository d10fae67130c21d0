package event

import "encoding/binary"

// The checksum of MDF takes its bytes one after the other, each waiting for the
// one before it: a processor that could do four such steps at once does one.
// Different records do not wait for each other. So the checksums of several are
// computed side by side, a byte of each in turn, in as many lanes as keep their
// states and pointers in registers. Of 4 to 8 lanes, none was faster than 4 by
// more than a tenth, and more than 6 were slower (amd64, 2026-11-22).

// laneCount is the number of checksums that are computed side by side.
const laneCount = 4

// mdfChecksums computes MDFChecksum of each piece into sums, which must be at
// least as long. Pieces may differ in length; the gain is largest where many
// are given and none is much longer than the others. It allocates nothing.
func mdfChecksums(sums []uint32, pieces [][]byte) {
	sums = sums[:len(pieces)]
	var l laneSet
	busy := 0 // lanes with a piece
	for next := 0; ; {
		for i := range laneCount {
			for l.remaining[i] == nil && next < len(pieces) {
				if len(pieces[next]) > 0 {
					l.h[i], l.remaining[i], l.piece[i] = 0, pieces[next], next
					busy++
				}
				sums[next] = 0 // that of nothing; others are set when they end
				next++
			}
		}
		if busy < 2 {
			break
		}
		n := l.step()
		for i := range laneCount {
			if l.remaining[i] == nil {
				continue
			}
			if l.remaining[i] = l.remaining[i][n:]; len(l.remaining[i]) == 0 {
				sums[l.piece[i]] = avalanche(l.h[i])
				l.remaining[i] = nil
				busy--
			}
		}
	}
	for i := range laneCount {
		if l.remaining[i] != nil {
			sums[l.piece[i]] = avalanche(absorb(l.h[i], l.remaining[i]))
		}
	}
}

// laneSet is checksums that are under way.
type laneSet struct {
	h         [laneCount]uint32
	remaining [laneCount][]byte // bytes not yet taken in; nil: the lane is idle
	piece     [laneCount]int    // whose they are
}

// step takes in as many bytes as every busy lane has, and returns their number.
// An idle lane takes in those of a busy one, for nobody: that costs nothing.
func (l *laneSet) step() int {
	var some []byte
	n := int(^uint(0) >> 1)
	for i := range laneCount {
		if l.remaining[i] != nil {
			some = l.remaining[i]
			n = min(n, len(some))
		}
	}
	var at [laneCount][]byte
	for i := range laneCount {
		at[i] = l.remaining[i]
		if at[i] == nil {
			at[i] = some
		}
	}
	a, b, c, d := at[0][:n], at[1][:n], at[2][:n], at[3][:n]
	ha, hb, hc, hd := l.h[0], l.h[1], l.h[2], l.h[3]
	for i := range a {
		ha = mixLane(ha, a[i])
		hb = mixLane(hb, b[i])
		hc = mixLane(hc, c[i])
		hd = mixLane(hd, d[i])
	}
	l.h = [laneCount]uint32{ha, hb, hc, hd}
	return n
}

// mixLane is mix in fewer instructions, of which more wait for each other:
// what is better where other lanes fill the time.
func mixLane(h uint32, c uint8) uint32 {
	h = (h + uint32(int32(int8(c)))) * 1025
	return h ^ h>>6
}

// sealBatch is how many records are looked up before their checksums are
// computed together.
const sealBatch = 32

// SealRecords writes the checksums of the whole records that b consists of into
// their headers, several at a time. It is for records as
// AppendRecordUnsealed leaves them. Bytes that are no whole records are
// refused, before anything of the record at fault or behind it is sealed, with
// a *FormatError of kind ErrTruncated or ErrSize; offsets are those in b.
func SealRecords(b []byte) error {
	var (
		records [sealBatch]Record
		pieces  [sealBatch][]byte
		sums    [sealBatch]uint32
		err     error
	)
	for at := 0; at < len(b) && err == nil; {
		n := 0
		for ; n < sealBatch && at < len(b); n++ {
			if records[n], err = ParseRecord(b[at:]); err != nil {
				err = shiftOffset(err, at)
				break
			}
			pieces[n] = records[n][MDFChecksumFrom:]
			at += len(records[n])
		}
		mdfChecksums(sums[:n], pieces[:n])
		for i := range n {
			binary.LittleEndian.PutUint32(records[i][12:], sums[i])
		}
	}
	return err
}
