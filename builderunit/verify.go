package builderunit

import (
	"fmt"
	"slices"

	"ringlet/event"
	"ringlet/event/pattern"
	"ringlet/internal/crc32c"
	"ringlet/internal/netyield"
)

// Verify says how much of each complete MEP is checked.
type Verify uint8

// Kinds of verification.
const (
	VerifyOff  Verify = iota // nothing
	VerifyCRC                // each MFP's CRC-32C against the one announced with its size
	VerifyFull               // the CRC, the format, the same events in all, and every byte against its rule
)

// ParseVerify reads the name of a kind of verification.
func ParseVerify(s string) (Verify, error) {
	for v, name := range [...]string{"off", "crc", "full"} {
		if s == name {
			return Verify(v), nil
		}
	}
	return 0, fmt.Errorf("verify is %q: it can be off, crc or full", s)
}

// checksum is the CRC-32C of b. A process that shares its only processor with the network must let that go on, so it
// pauses every piece, 10 µs or so.
func checksum(b []byte) uint32 {
	const piece = 128 << 10
	crc := uint32(0)
	for len(b) > piece {
		crc = crc32c.Add(crc, b[:piece])
		b = b[piece:]
		netyield.Yield()
	}
	return crc32c.Add(crc, b)
}

// verifier checks complete MEPs.
type verifier struct {
	depth   Verify
	pattern *pattern.Pattern // nil where the content has no rule: replayed data
	// hook, if not nil, is called when the CRC of an MFP was found good, and when its header was: for tests of peers
	// that go on writing.
	hook func()

	// scratch of check, by MFP
	pieces [][]byte
	sums   []uint32
}

// parsesContent says that check reads MFPs more than once, and so must be given memory that nobody writes to.
func (v *verifier) parsesContent() bool { return v.depth == VerifyFull }

func (v *verifier) runHook() {
	if v.hook != nil {
		v.hook()
	}
}

func (v *verifier) check(mep uint64, memory []byte, places []mfpPlace) error {
	if v.depth == VerifyOff {
		return nil
	}
	together := len(memory) <= maxBatchSumBytes
	v.collectPieces(memory, places)
	if together {
		crc32c.Sums(v.sums, v.pieces)
	}
	var first event.MFP
	known := false // first is
	for i := range places {
		p := &places[i]
		if !together {
			v.sums[i] = checksum(v.pieces[i])
		}
		if crc := v.sums[i]; crc != p.CRC {
			return p.dataError(mep, fmt.Errorf("CRC-32C is %08x, %08x was announced", crc, p.CRC))
		}
		v.runHook()
		if v.depth != VerifyFull || p.Synthetic {
			continue
		}
		m, err := v.checkContent(p.Source, v.pieces[i])
		if err == nil && known && (m.FirstEvent() != first.FirstEvent() || m.NumFragments() != first.NumFragments()) {
			p, err = v.findOutlier(places, i)
		}
		if err != nil {
			return p.dataError(mep, err)
		}
		if !known {
			first, known = m, true
		}
	}
	return nil
}

// findOutlier finds which of two MFPs has other events than most: the first that was read, or the one at an index.
func (v *verifier) findOutlier(places []mfpPlace, at int) (*mfpPlace, error) {
	count := func(i int) (agree int, from uint64, n int) {
		from, n, _ = event.MFPEvents(v.pieces[i])
		for _, b := range v.pieces {
			if f, m, err := event.MFPEvents(b); err == nil && f == from && m == n {
				agree++
			}
		}
		return agree, from, n
	}
	first := slices.IndexFunc(places, func(p mfpPlace) bool { return !p.Synthetic })
	alike, from, n := count(at)
	most, other, many := count(first)
	bad, good := at, first
	if alike > most {
		bad, good, from, n, other, many = first, at, other, many, from, n
	}
	return &places[bad], fmt.Errorf("the MFP has %d events from %d, that of source %d has %d from %d", n, from,
		places[good].Source, many, other)
}

// collectPieces finds the bytes of every MFP, and makes room for their CRCs.
func (v *verifier) collectPieces(memory []byte, places []mfpPlace) {
	v.pieces, v.sums = v.pieces[:0], v.sums[:0]
	for i := range places {
		p := &places[i]
		v.pieces = append(v.pieces, p.bytesIn(memory))
		v.sums = append(v.sums, 0)
	}
}

// maxBatchSumBytes is how large a MEP may be, in bytes, for its MFPs to have their CRCs side by side and without a
// pause: 10 µs or so.
const maxBatchSumBytes = 128 << 10

// checkContent checks an MFP's format, and its bytes: generated data against its rule, replayed banks against their
// format.
func (v *verifier) checkContent(source uint16, b []byte) (event.MFP, error) {
	m, err := event.ParseMFP(b)
	if err != nil {
		return m, err
	}
	if m.Source() != source {
		return m, fmt.Errorf("the MFP is of source %d", m.Source())
	}
	v.runHook()
	if v.pattern != nil {
		return m, v.pattern.CheckMFP(m)
	}
	for _, fragment := range m.Fragments() {
		for _, err := range event.Banks(fragment) {
			if err != nil {
				return m, err
			}
		}
	}
	return m, nil
}
