package event

import "encoding/binary"

// The checksum of MDF is a chain: the step of each byte needs the result of the byte before, so a processor that could
// do four steps at once does one. The chains of different records are independent. Therefore this file computes the
// checksums of several records side by side, a byte of each in turn, in as many lanes as keep their states and pointers
// in registers. Of 4 to 8 lanes, none was faster than 4 by more than a tenth; more than 6 were slower (amd64,
// 2026-11-22).

// laneCount is the number of checksums that are computed side by side.
const laneCount = 4

// mdfChecksums computes MDFChecksum of each piece into sums, which must be at least as long as pieces. Pieces may
// differ in length; the gain is largest for many pieces of about the same length. It allocates nothing.
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
				sums[next] = 0 // the checksum of an empty piece; the sum of any other is set when it ends
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

// laneSet is the state of the checksums that are being computed.
type laneSet struct {
	h         [laneCount]uint32
	remaining [laneCount][]byte // bytes not yet taken in; nil: the lane is idle
	piece     [laneCount]int    // index of the piece in the lane
}

// step mixes in as many bytes as every busy lane still has, and returns their number. An idle lane hashes the bytes of
// a busy lane, and its result is not used: that costs no time, and the loop needs no branch.
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

// mixLane is mix in fewer instructions but in a longer chain. That is faster
// here, since the processor works on the other lanes meanwhile.
func mixLane(h uint32, c uint8) uint32 {
	h = (h + uint32(int32(int8(c)))) * 1025
	return h ^ h>>6
}

// sealBatch is how many records SealRecords parses before it computes their checksums together.
const sealBatch = 32

// SealRecords writes the checksum of each record in b into its header. It completes records that AppendRecordUnsealed
// has written. b must consist of whole records: at the first one that is not, SealRecords stops with a *FormatError of
// kind ErrTruncated or ErrSize, whose offset counts from the start of b; the records before it are sealed, the others
// unchanged.
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
