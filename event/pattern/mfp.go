package pattern

import (
	"encoding/binary"
	"fmt"

	"ringlet/event"
	"ringlet/internal/crc32c"
	"ringlet/internal/netyield"
)

// How FillMFP makes an MFP, in one goroutine:
//
//  1. sizes and types: one hash and one look-up per fragment, into the tables of the caller's buffer
//  2. words: in pieces of pieceBytes, one hash per fragment
//  3. with withCRC, the CRC-32C of each piece while it is in the first two cache levels
//
// The caller owns the buffer throughout. Nothing is allocated.

// pieceBytes is how many bytes fillFragments writes before it computes their CRC: few against a second-level cache (1
// MiB and more on servers of this decade), many against the three-way interleaving of hash/crc32 (8 KiB).
const pieceBytes = 64 << 10

// Version is the content version of generated fragments. A change of the rule needs a new one.
const Version uint8 = 1

// fragmentTypes are the bank types by group: each is of a detector of the group, so that a generated MDF looks like a
// recorded one.
var fragmentTypes = [groupCount]event.BankType{9 /* Rich */, 77 /* Calo */, 64 /* FTCluster */}

// FragmentType is the bank type of every fragment of the source.
func (p *Pattern) FragmentType(source uint16) event.BankType { return fragmentTypes[p.group(source)] }

// MaxMFP is the largest MFP of n events the source can have, in bytes: every fragment at MaxSize.
func (p *Pattern) MaxMFP(source uint16, n int) int {
	return event.MaxMFPSize(n, p.MaxSize(source), p.cfg.Align)
}

// FillMFP writes the MFP of source for the n events from first into dst and returns its size in bytes and, with
// withCRC, its CRC-32C. It writes nothing beyond that size. It refuses a dst of fewer than MaxMFP(source, n) bytes, and
// an n or first that does not fit the MFP's header.
func (p *Pattern) FillMFP(dst []byte, source uint16, first uint64, n int,
	withCRC bool) (size int, crc uint32, err error) {
	if n < 0 || n > event.MaxPacking || uint64(n) > event.EndOfRun-first {
		return 0, 0, fmt.Errorf("an MFP of %d events from event %d cannot be expressed", n, first)
	}
	if limit := p.MaxMFP(source, n); len(dst) < limit {
		return 0, 0, fmt.Errorf("the MFP of source %d for %d events needs room for %d bytes, there are %d", source, n, limit,
			len(dst))
	}
	if n == 1 && p.MaxSize(source) <= event.MaxNarrowFragment && !p.cfg.LargeFragments.hasLarge(source) {
		size = p.fillSingle(dst, source, first)
		if withCRC {
			crc = crc32c.Sum(dst[:size])
		}
		return size, crc, nil
	}
	key := p.key(source)
	wide := p.needsWide(source, key, first, n)
	size, err = p.fillTables(dst, source, key, first, n, wide)
	if err != nil {
		return 0, 0, err
	}
	event.PutMFPHeader(dst, event.MFPHeader{
		NumFragments: n,
		Size:         uint32(size),
		FirstEvent:   first,
		Source:       source,
		Align:        p.cfg.Align,
		Version:      Version,
		Wide:         wide,
	})
	return size, p.fillFragments(dst[:size:size], key, first, n, withCRC, wide), nil
}

// needsWide says whether the MFP of n events from first has a fragment that only a wide MFP can hold.
func (p *Pattern) needsWide(source uint16, key, first uint64, n int) bool {
	if p.MaxSize(source) <= event.MaxNarrowFragment {
		return false
	}
	for ev := first; ev < first+uint64(n); ev++ {
		if p.sizeByHash(source, ev, mix(key+ev*eventIncrement)) > event.MaxNarrowFragment {
			return true
		}
	}
	return false
}

// findSize returns the size of fragment i in a table of sizes.
func findSize(sizes []byte, i int, wide bool) int {
	if wide {
		return int(binary.LittleEndian.Uint32(sizes[4*i:]))
	}
	return int(binary.LittleEndian.Uint16(sizes[2*i:]))
}

// tables gives the type and the size table of an MFP, and how many bytes its header has.
func tables(dst []byte, n int, wide bool) (types, sizes []byte, header int) {
	if wide {
		types, sizes = event.WideMFPTables(dst, n)
		return types, sizes, event.WideMFPHeaderSize(n)
	}
	types, sizes = event.MFPTables(dst, n)
	return types, sizes, event.MFPHeaderSize(n)
}

// fillFragments writes the n fragments of an MFP into dst, the whole MFP, whose size table is filled. With withCRC it
// returns the CRC-32C of dst.
func (p *Pattern) fillFragments(dst []byte, key, first uint64, n int, withCRC, wide bool) (crc uint32) {
	round := 1<<p.cfg.Align - 1
	_, sizes, at := tables(dst, n, wide)
	done := 0
	for i := 0; i < n; {
		for stop := done + pieceBytes; i < n && at < stop; i++ {
			length := findSize(sizes, i, wide)
			end := at + (length+round)&^round
			h := mix(key + (first+uint64(i))*eventIncrement)
			for length > 2*pieceBytes {
				fillWords(dst[at:], pieceBytes, h)
				if at += pieceBytes; withCRC {
					crc = crc32c.Add(crc, dst[done:at])
				}
				done, length, h = at, length-pieceBytes, h+wordIncrement*(pieceBytes/8)&mask64
				netyield.Yield()
			}
			if at+length+overfillBytes <= len(dst) {
				overfillWords(dst[at:], length, h)
			} else {
				fillWords(dst[at:], length, h)
			}
			if end-at > (length+7)&^7 || len(dst)-end < overfillBytes {
				clear(dst[at+length : end])
			}
			at = end
		}
		if withCRC {
			crc = crc32c.Add(crc, dst[done:at])
		}
		fullPiece := at-done >= pieceBytes
		done = at
		// The goroutines of the network may wait for this processor: a block of some MB would hold them up for milliseconds.
		// If none waits, Yield costs 0.1 µs for the 15 µs of a piece. A caller that fills many small MFPs yields itself.
		if fullPiece {
			netyield.Yield()
		}
	}
	if withCRC {
		crc = crc32c.Add(crc, dst[done:])
	}
	return crc
}

// fillSingle is FillMFP for one event: it hashes the fragment once, and writes each table as one 32-bit word, padding
// included.
func (p *Pattern) fillSingle(dst []byte, source uint16, first uint64) (size int) {
	h := mix(p.key(source) + first*eventIncrement)
	length := p.sizes[p.group(source)].lookUp(h)
	types, sizes := event.MFPTables(dst, 1)
	binary.LittleEndian.PutUint32(types, uint32(p.FragmentType(source)))
	binary.LittleEndian.PutUint32(sizes, uint32(length))
	at := event.MFPHeaderSize(1)
	round := 1<<p.cfg.Align - 1
	size = at + (length+round)&^round
	event.PutMFPHeader(dst, event.MFPHeader{
		NumFragments: 1,
		Size:         uint32(size),
		FirstEvent:   first,
		Source:       source,
		Align:        p.cfg.Align,
		Version:      Version,
	})
	fillWords(dst[at:size], length, h)
	if at+length < size {
		clear(dst[at+length : size])
	}
	return size
}

// fillTables writes the type and the size table of an MFP into dst and returns the size of the MFP in bytes.
func (p *Pattern) fillTables(dst []byte, source uint16, key, first uint64, n int, wide bool) (int, error) {
	group, large := &p.sizes[p.group(source)], p.cfg.LargeFragments.hasLarge(source)
	key += first * eventIncrement
	round := 1<<p.cfg.Align - 1
	types, sizes, total := tables(dst, n, wide)
	for i := range n {
		s := group.lookUp(mix(key))
		if large {
			s *= p.cfg.LargeFragments.factorAt(first + uint64(i))
		}
		if wide {
			binary.LittleEndian.PutUint32(sizes[4*i:], uint32(s))
		} else {
			binary.LittleEndian.PutUint16(sizes[2*i:], uint16(s))
		}
		total += (s + round) &^ round
		key += eventIncrement
	}
	if wide {
		clear(sizes[4*n:])
	} else {
		clear(sizes[2*n:])
	}
	kind := uint8(p.FragmentType(source))
	for i := range types[:n] {
		types[i] = kind
	}
	clear(types[n:])
	if int64(total) > 1<<32-1 {
		return 0, fmt.Errorf("the MFP of source %d for %d events takes %d bytes, more than its size field can hold", source,
			n, total)
	}
	return total, nil
}
