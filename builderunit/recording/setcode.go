package recording

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"math/bits"
)

// A set travels as pieces, each small enough for a message, in order of MEP:
//
//	u8       1, the version; 2 for live data
//	uvarint  MEP / 65,536: the stretch
//	uvarint  first word of the stretch's 1024 words of 64 MEPs
//	uvarint  number n of words
//	uvarint  number x of exceptions
//	n × u64  the words, little-endian: a bit for each MEP
//	x ×      uvarint MEPs from the exception before (or the first MEP of the piece) on, uvarint attempt, uvarint events
//
// of live data then, for each MEP in the words, in order:
//
//	uvarint  first event, counted from the end of the MEP before it in the piece, or from 0; uvarint events
//
// and at the end one piece of four numbers: u8 0, uvarint packing, uvarint MEPs, uvarint events.
const (
	pieceEnd     = 0
	pieceVersion = 1
	pieceLive    = 2
	// maxPiece is the most bytes of a piece. A gRPC message may have 4 MiB; smaller ones let others through between.
	maxPiece = 64 << 10
	// pieceHeaderBytes and exceptionBytes are the most bytes of what stands before the words, and of an exception.
	pieceHeaderBytes = 1 + 10 + 2 + 2 + 3
	exceptionBytes   = 3 + 5 + 5
	liveBytes        = 10 + 3 // and of the events of a MEP of live data

	// A stretch of a piece has several blocks.
	stretchShift  = 16
	stretchMEPs   = 1 << stretchShift
	stretchWords  = stretchMEPs / 64
	stretchBlocks = stretchMEPs / blockMEPs
)

// Pieces encodes the set: each piece has maxPiece bytes at most, and is the caller's until the next one.
func (s *MEPSet) Pieces() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		buf := make([]byte, 0, maxPiece)
		for _, n := range s.blockNumbers() {
			for from := 0; from < blockWords; {
				to, odd := s.blocks[n].fitWords(from)
				if odd >= 0 {
					first, end := s.blocks[n].trimEmpty(from, to)
					if buf = s.blocks[n].appendPiece(buf[:0], n, first, end, odd); !yield(buf) {
						return
					}
				}
				from = to
			}
		}
		buf = append(buf[:0], pieceEnd)
		buf = binary.AppendUvarint(buf, uint64(s.packing))
		buf = binary.AppendUvarint(buf, s.mepCount)
		yield(binary.AppendUvarint(buf, s.eventCount))
	}
}

// fitWords is how many words from one on fit into a piece, and how many exceptions they have; -1 that the words are
// empty.
func (b *mepBlock) fitWords(from int) (to, odd int) {
	budget, any := maxPiece-pieceHeaderBytes, false
	for to = from; to < blockWords; to++ {
		here := 0
		for range b.eachException(to, to+1) {
			here++
		}
		if budget -= 8 + here*exceptionBytes + b.liveMEPs(to)*liveBytes; budget < 0 {
			break
		}
		odd += here
		any = any || b.bits[to] != 0
	}
	if !any {
		return to, -1
	}
	return to, odd
}

// trimEmpty leaves out the empty words on both sides of some that are not all empty: a segment of a backlog has few.
func (b *mepBlock) trimEmpty(from, to int) (first, end int) {
	for b.bits[from] == 0 {
		from++
	}
	for b.bits[to-1] == 0 {
		to--
	}
	return from, to
}

// liveMEPs is how many MEPs of live data a word has.
func (b *mepBlock) liveMEPs(word int) int {
	if b.live == nil {
		return 0
	}
	return bits.OnesCount64(b.bits[word])
}

// appendPiece appends the words from one to before the other.
func (b *mepBlock) appendPiece(buf []byte, n uint64, from, to, odd int) []byte {
	version := byte(pieceVersion)
	if b.live != nil {
		version = pieceLive
	}
	buf = append(buf, version)
	buf = binary.AppendUvarint(buf, n/stretchBlocks)
	buf = binary.AppendUvarint(buf, n%stretchBlocks*blockWords+uint64(from))
	buf = binary.AppendUvarint(buf, uint64(to-from))
	buf = binary.AppendUvarint(buf, uint64(max(odd, 0)))
	for _, word := range b.bits[from:to] {
		buf = binary.LittleEndian.AppendUint64(buf, word)
	}
	last := from * 64
	for at, o := range b.eachException(from, to) {
		buf = binary.AppendUvarint(buf, uint64(at-last))
		buf = binary.AppendUvarint(buf, uint64(o.attempt))
		buf = binary.AppendUvarint(buf, uint64(o.events))
		last = at
	}
	if b.live == nil {
		return buf
	}
	end := uint64(0)
	for at := range b.eachBit(from, to) {
		first, events := b.firstEventAt(uint16(at)), uint64(b.eventCountAt(uint16(at)))
		buf = binary.AppendUvarint(buf, first-end) // modulo 2^64, in case that it is no larger
		buf = binary.AppendUvarint(buf, events)
		end = first + events
	}
	return buf
}

// eachException ranges over those in the words from one to before the other.
func (b *mepBlock) eachException(from, to int) iter.Seq2[int, exception] {
	return func(yield func(int, exception) bool) {
		if len(b.exceptions) == 0 {
			return // as in most blocks
		}
		for at := range b.eachBit(from, to) {
			if o, ok := b.exceptions[uint16(at)]; ok && !yield(at, o) {
				return
			}
		}
	}
}

// A pieceError says what is wrong with a piece of a set.
type pieceError struct {
	Piece  int // from 0
	Reason string
}

func (e *pieceError) Error() string {
	return fmt.Sprintf("piece %d of a set of MEPs: %s", e.Piece, e.Reason)
}

// A SetReader puts a set together of the pieces that Pieces made. It believes no piece: each has to be whole, behind
// the one before it, and within the limit.
type SetReader struct {
	set        *MEPSet
	limit      uint64 // events, exclusive
	nextWord   uint64 // the lowest word (MEP / 64) that may come
	pieces     int
	isComplete bool
	err        error
}

// NewSetReader reads a set of MEPs with packing events each, at least one, that has no event at limit or beyond. The
// limit bounds the memory that pieces can take: see Set.
func NewSetReader(packing int, limit uint64) *SetReader {
	return &SetReader{set: NewMEPSet(packing), limit: min(limit, 1<<62)}
}

// NewLiveSetReader is NewSetReader for a set of live data; the limit is of the number of events, whatever their ids.
func NewLiveSetReader(packing int, limit uint64) *SetReader {
	r := NewSetReader(packing, limit)
	r.set.live = true
	return r
}

// Add takes the next piece. An error, a *pieceError, is final.
func (r *SetReader) Add(piece []byte) error {
	if r.err != nil {
		return r.err
	}
	if reason := r.readPiece(piece); reason != "" {
		r.err = &pieceError{r.pieces, reason}
	}
	r.pieces++
	return r.err
}

// Set is the set when all pieces have come; an error says that they have not.
func (r *SetReader) Set() (*MEPSet, error) {
	if r.err == nil && !r.isComplete {
		return nil, &pieceError{r.pieces, "it is not there: the set ended early"}
	}
	return r.set, r.err
}

// readUvarints reads so many uvarints from the front of b; nil says that they are not there.
func readUvarints(b []byte, into ...*uint64) []byte {
	for _, to := range into {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return nil
		}
		*to, b = v, b[n:]
	}
	return b[:len(b):len(b)]
}

func (r *SetReader) readPiece(b []byte) (reason string) {
	switch {
	case r.isComplete:
		return "it comes behind the end"
	case len(b) == 0 || len(b) > maxPiece:
		return fmt.Sprintf("it has %d bytes, 1 to %d are possible", len(b), maxPiece)
	case b[0] == pieceEnd:
		return r.checkEnd(b[1:])
	case b[0] != r.version():
		return fmt.Sprintf("it is of version %d, where version %d belongs", b[0], r.version())
	}
	var n, from, words, odd uint64
	b = readUvarints(b[1:], &n, &from, &words, &odd)
	switch {
	case b == nil:
		return "it ends within its first numbers"
	case from >= stretchWords || words == 0 || words > stretchWords-from:
		return fmt.Sprintf("words %d to before %d are not within a stretch of %d", from, from+words, stretchWords)
	case n > math.MaxUint64>>stretchShift || n<<(stretchShift-6)+from < r.nextWord:
		return fmt.Sprintf("stretch %d comes behind a later one, or twice", n)
	case uint64(len(b)) < 8*words:
		return fmt.Sprintf("it has %d bytes of %d words", len(b), words)
	case odd > 64*words:
		return fmt.Sprintf("%d exceptions are more than %d MEPs", odd, 64*words)
	case !r.belowLimit(n<<stretchShift + from*64):
		return fmt.Sprintf("MEP %d is beyond the %d events that can be", n<<stretchShift+from*64, r.limit)
	}
	first := n<<stretchShift + from*64
	r.nextWord = first/64 + words
	if reason := r.readWords(first, b[:8*words]); reason != "" {
		return reason
	}
	return r.readDetails(first, first+64*words, b[8*words:], odd)
}

func (r *SetReader) version() byte {
	if r.set.live {
		return pieceLive
	}
	return pieceVersion
}

// belowLimit says that the first event of a MEP is below the limit.
func (r *SetReader) belowLimit(mep uint64) bool {
	if r.set.live { // each has an event at least
		return mep < r.limit
	}
	high, first := bits.Mul64(mep, uint64(r.set.packing))
	return high == 0 && first < r.limit
}

// readWords takes the words of a piece, whose first MEP is given.
func (r *SetReader) readWords(first uint64, words []byte) (reason string) {
	s := r.set
	for mep := first; len(words) > 0; mep, words = mep+64, words[8:] {
		word := binary.LittleEndian.Uint64(words)
		if word == 0 {
			continue
		}
		if !r.belowLimit(mep + uint64(63-bits.LeadingZeros64(word))) {
			return fmt.Sprintf("it has MEPs beyond the %d events that can be", r.limit)
		}
		b, n := s.blockOf(mep), bits.OnesCount64(word)
		b.bits[blockIndex(mep)/64] = word
		b.mepCount += uint32(n)
		s.mepCount += uint64(n)
		if !s.live {
			s.eventCount += uint64(n) * uint64(s.packing)
		}
	}
	return ""
}

// readDetails takes what follows the words of a piece, which has the MEPs from one to before the other.
func (r *SetReader) readDetails(from, to uint64, rest []byte, odd uint64) (reason string) {
	if rest, reason = r.readExceptions(from, to, rest, odd); reason != "" {
		return reason
	}
	if r.set.live {
		if rest, reason = r.readLiveEvents(from, to, rest); reason != "" {
			return reason
		}
	}
	if len(rest) > 0 {
		return fmt.Sprintf("%d bytes stand behind it", len(rest))
	}
	return ""
}

// readExceptions takes so many exceptions of the MEPs from one to before the other.
func (r *SetReader) readExceptions(from, to uint64, rest []byte, count uint64) (remaining []byte, reason string) {
	s, mep := r.set, from
	for i := range count {
		var step, attempt, events uint64
		rest = readUvarints(rest, &step, &attempt, &events)
		switch {
		case rest == nil:
			return nil, "it ends within its exceptions"
		case step >= to-mep || i > 0 && step == 0 || !s.Contains(mep+step):
			return nil, "an exception is of no MEP in it"
		}
		mep += step
		switch {
		case attempt > math.MaxUint32 || events > uint64(s.packing):
			return nil, fmt.Sprintf("MEP %d has %d events and attempt %d, which cannot be", mep, events, attempt)
		case attempt == firstAttempt && (s.live || events == uint64(s.packing)):
			return nil, fmt.Sprintf("MEP %d is no exception", mep)
		}
		b := s.blockOf(mep)
		if b.exceptions == nil {
			b.exceptions = map[uint16]exception{}
		}
		b.exceptions[blockIndex(mep)] = exception{uint32(attempt), uint32(events)}
		if !s.live {
			s.eventCount -= uint64(s.packing) - events
		}
	}
	return rest, ""
}

// readLiveEvents takes the events of the MEPs of live data from one to before the other.
func (r *SetReader) readLiveEvents(from, to uint64, rest []byte) (remaining []byte, reason string) {
	end := uint64(0)
	for mep := from; mep < to; mep += 64 {
		b := r.set.blocks[mep>>blockShift]
		if b == nil {
			continue
		}
		word := int(blockIndex(mep) / 64)
		for i := range b.eachBit(word, word+1) {
			at := uint16(i)
			var step, events uint64
			if rest = readUvarints(rest, &step, &events); rest == nil {
				return nil, "it ends within the events of its MEPs"
			}
			first := end + step
			if end = first + events; events < 1 || events > uint64(r.set.packing) || end < first {
				return nil, fmt.Sprintf("a MEP has %d events from %d, which cannot be", events, first)
			}
			b.setLiveMEP(at, first, uint32(events))
			r.set.eventCount += events
			if o, ok := b.exceptions[at]; ok && uint64(o.events) != events {
				return nil, fmt.Sprintf("a MEP has %d events, and as an exception %d", events, o.events)
			}
		}
	}
	return rest, ""
}

// checkEnd holds the last piece against what came.
func (r *SetReader) checkEnd(b []byte) (reason string) {
	var packing, meps, events uint64
	switch b = readUvarints(b, &packing, &meps, &events); {
	case b == nil || len(b) > 0:
		return "it is not an end of a set"
	case packing != uint64(r.set.packing):
		return fmt.Sprintf("its MEPs have %d events, those here %d", packing, r.set.packing)
	case meps != r.set.mepCount || events != r.set.eventCount:
		return fmt.Sprintf("%d MEPs of %d events were sent, %d of %d came", meps, events, r.set.mepCount, r.set.eventCount)
	}
	r.isComplete = true
	return ""
}
