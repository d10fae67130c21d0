package recording

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"slices"
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
	// maxPiece is the most bytes of a piece. A gRPC message may have 4 MiB; smaller pieces let other messages pass
	// between.
	maxPiece = 64 << 10
	// pieceHeaderBytes is the most bytes before the words, wordBytes the most of one word with the exceptions and the
	// live events of its MEPs.
	pieceHeaderBytes = 1 + 10 + 2 + 2 + 3
	wordBytes        = 8 + 64*(3+5+5) + 64*(10+3)

	// A stretch of a piece has several blocks; a written piece has MEPs of one block only.
	stretchShift = 16
	stretchMEPs  = 1 << stretchShift
	stretchWords = stretchMEPs / 64
	blockShift   = 12
	blockMEPs    = 1 << blockShift
	blockWords   = blockMEPs / 64
)

// pieceWriter collects the MEPs of a piece.
type pieceWriter struct {
	words          []uint64
	firstWord      uint64 // MEP / 64
	exceptionCount uint64
	exceptions     []byte
	lastException  uint64 // MEP
	liveEvents     []byte // of live data
	endEvent       uint64 // of the last MEP of live data
	buf            []byte // scratch
}

// isFull says that a MEP with a higher number than those in the piece does not fit.
func (p *pieceWriter) isFull(mep uint64) bool {
	n := uint64(len(p.words))
	if n == 0 || mep/64 < p.firstWord+n {
		return false
	}
	size := pieceHeaderBytes + 8*(mep/64-p.firstWord) + uint64(len(p.exceptions)+len(p.liveEvents))
	return mep>>blockShift != p.firstWord*64>>blockShift || size > maxPiece-wordBytes
}

func (p *pieceWriter) add(s *MEPSet, e *Entry) {
	if len(p.words) == 0 {
		p.firstWord, p.lastException = e.MEP/64, e.MEP/64*64
	}
	for uint64(len(p.words)) <= e.MEP/64-p.firstWord {
		p.words = append(p.words, 0)
	}
	p.words[e.MEP/64-p.firstWord] |= 1 << (e.MEP % 64)
	if s.isException(e) {
		p.exceptions = binary.AppendUvarint(p.exceptions, e.MEP-p.lastException)
		p.exceptions = binary.AppendUvarint(p.exceptions, uint64(e.Attempt))
		p.exceptions = binary.AppendUvarint(p.exceptions, uint64(e.Events))
		p.exceptionCount, p.lastException = p.exceptionCount+1, e.MEP
	}
	if s.live { // modulo 2^64, in case the first event is lower
		p.liveEvents = binary.AppendUvarint(p.liveEvents, e.FirstEvent-p.endEvent)
		p.liveEvents = binary.AppendUvarint(p.liveEvents, uint64(e.Events))
		p.endEvent = e.FirstEvent + uint64(e.Events)
	}
}

// encode returns the piece, and begins the next one.
func (p *pieceWriter) encode(live bool) []byte {
	version := byte(pieceVersion)
	if live {
		version = pieceLive
	}
	b := append(slices.Grow(p.buf[:0], maxPiece), version)
	for _, n := range []uint64{p.firstWord / stretchWords, p.firstWord % stretchWords, uint64(len(p.words)),
		p.exceptionCount} {
		b = binary.AppendUvarint(b, n)
	}
	for _, word := range p.words {
		b = binary.LittleEndian.AppendUint64(b, word)
	}
	b = append(append(b, p.exceptions...), p.liveEvents...)
	*p = pieceWriter{words: p.words[:0], exceptions: p.exceptions[:0], liveEvents: p.liveEvents[:0], buf: b}
	return b
}

// Pieces encodes the set: each piece has at most maxPiece bytes, and is valid until the next one.
func (s *MEPSet) Pieces() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var p pieceWriter
		for e := range s.entries {
			if p.isFull(e.MEP) && !yield(p.encode(s.live)) {
				return
			}
			p.add(s, &e)
		}
		if len(p.words) > 0 && !yield(p.encode(s.live)) {
			return
		}
		end := binary.AppendUvarint([]byte{pieceEnd}, uint64(s.packing))
		yield(binary.AppendUvarint(binary.AppendUvarint(end, s.MEPs()), s.eventCount))
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

// A SetReader rebuilds a set from the pieces that Pieces made. It trusts no piece: each must be complete, come after
// the one before it, and stay within the limit.
type SetReader struct {
	set        *MEPSet
	limit      uint64 // events, exclusive
	nextWord   uint64 // the lowest word (MEP / 64) that may come next
	pieces     int
	isComplete bool
	err        error
}

// NewSetReader reads pieces into the empty set into, which the reader owns until Set. Each MEP must have an event at
// least, and no event at limit or beyond; for live data limit is the number of events, whatever their ids. The limit
// bounds the memory that pieces can take: see MEPSet.
func NewSetReader(into *MEPSet, limit uint64) *SetReader {
	return &SetReader{set: into, limit: min(limit, 1<<62)}
}

// Add reads the next piece. An error, a *pieceError, is final.
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

// Set returns the set after all pieces have come; an error says that some have not.
func (r *SetReader) Set() (*MEPSet, error) {
	if r.err == nil && !r.isComplete {
		return nil, &pieceError{r.pieces, "it is not there: the set ended early"}
	}
	return r.set, r.err
}

// readUvarints reads uvarints from the front of b; nil says that b ends within them.
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
	version := byte(pieceVersion)
	if r.set.live {
		version = pieceLive
	}
	switch {
	case r.isComplete:
		return "it comes after the end"
	case len(b) == 0 || len(b) > maxPiece:
		return fmt.Sprintf("it has %d bytes, 1 to %d are possible", len(b), maxPiece)
	case b[0] == pieceEnd:
		return r.checkEnd(b[1:])
	case b[0] != version:
		return fmt.Sprintf("it is of version %d, where version %d belongs", b[0], version)
	}
	var n, from, words, odd uint64
	b = readUvarints(b[1:], &n, &from, &words, &odd)
	switch {
	case b == nil:
		return "it ends within its first numbers"
	case from >= stretchWords || words == 0 || words > stretchWords-from:
		return fmt.Sprintf("words %d to before %d are not within a stretch of %d", from, from+words, stretchWords)
	case n > math.MaxUint64>>stretchShift || n<<(stretchShift-6)+from < r.nextWord:
		return fmt.Sprintf("stretch %d comes after a later one, or twice", n)
	case uint64(len(b)) < 8*words:
		return fmt.Sprintf("it has %d bytes of %d words", len(b), words)
	case odd > 64*words:
		return fmt.Sprintf("%d exceptions are more than %d MEPs", odd, 64*words)
	}
	first := n<<stretchShift + from*64
	r.nextWord = first/64 + words
	exceptions, rest, reason := r.readExceptions(b[8*words:], odd, first, 64*words)
	if reason != "" {
		return reason
	}
	return r.readMEPs(b[:8*words], first, exceptions, rest)
}

// belowLimit says that the first event of a MEP is below the limit.
func (r *SetReader) belowLimit(mep uint64) bool {
	if r.set.live { // each MEP has an event at least
		return mep < r.limit
	}
	high, first := bits.Mul64(mep, uint64(r.set.packing))
	return high == 0 && first < r.limit
}

// readExceptions reads count exceptions of the meps MEPs from number first on, as entries without place and first
// event.
func (r *SetReader) readExceptions(b []byte, count, first, meps uint64) (list []Entry, rest []byte, reason string) {
	at := uint64(0)
	for i := range count {
		var step, attempt, events uint64
		b = readUvarints(b, &step, &attempt, &events)
		switch {
		case b == nil:
			return nil, nil, "it ends within its exceptions"
		case step >= meps-at || i > 0 && step == 0:
			return nil, nil, "an exception is of no MEP in it"
		case attempt > math.MaxUint32 || events > uint64(r.set.packing):
			return nil, nil, fmt.Sprintf("MEP %d has %d events and attempt %d, which cannot be", first+at+step, events, attempt)
		}
		at += step
		e := Entry{MEP: first + at, Attempt: uint32(attempt), Events: uint32(events)}
		if !r.set.isException(&e) {
			return nil, nil, fmt.Sprintf("MEP %d is no exception", e.MEP)
		}
		list = append(list, e)
	}
	return list, b, ""
}

// readMEPs adds the MEPs of a piece: the bits of words, whose first word begins with MEP first, their exceptions, and
// rest, which holds the live events.
func (r *SetReader) readMEPs(words []byte, first uint64, exceptions []Entry, rest []byte) (reason string) {
	endEvent := uint64(0)
	for ; len(words) > 0; first, words = first+64, words[8:] {
		for word := binary.LittleEndian.Uint64(words); word != 0; word &= word - 1 {
			e := Entry{MEP: first + uint64(bits.TrailingZeros64(word)), Attempt: firstAttempt, Events: r.set.packing}
			if !r.belowLimit(e.MEP) {
				return fmt.Sprintf("MEP %d is beyond the %d events that can be", e.MEP, r.limit)
			}
			odd := len(exceptions) > 0 && exceptions[0].MEP == e.MEP
			if r.set.live {
				if rest, reason = r.readEvents(&e, &endEvent, rest); reason != "" {
					return reason
				}
				if odd && exceptions[0].Events != e.Events {
					return fmt.Sprintf("a MEP has %d events, and as an exception %d", e.Events, exceptions[0].Events)
				}
			}
			if odd {
				e.Attempt, e.Events, exceptions = exceptions[0].Attempt, exceptions[0].Events, exceptions[1:]
			}
			r.set.Add(e)
		}
	}
	switch {
	case len(exceptions) > 0:
		return "an exception is of no MEP in it"
	case len(rest) > 0:
		return fmt.Sprintf("%d bytes follow it", len(rest))
	}
	return ""
}

// readEvents reads the events of a MEP of live data; *end is the event after the MEP before it.
func (r *SetReader) readEvents(e *Entry, end *uint64, b []byte) (rest []byte, reason string) {
	var step, events uint64
	if b = readUvarints(b, &step, &events); b == nil {
		return nil, "it ends within the events of its MEPs"
	}
	e.FirstEvent = *end + step
	if *end = e.FirstEvent + events; events < 1 || events > uint64(r.set.packing) || *end < e.FirstEvent {
		return nil, fmt.Sprintf("a MEP has %d events from %d, which cannot be", events, e.FirstEvent)
	}
	e.Events = uint32(events)
	return b, ""
}

// checkEnd compares the last piece with the MEPs that came.
func (r *SetReader) checkEnd(b []byte) (reason string) {
	var packing, meps, events uint64
	switch b = readUvarints(b, &packing, &meps, &events); {
	case b == nil || len(b) > 0:
		return "it is not an end of a set"
	case packing != uint64(r.set.packing):
		return fmt.Sprintf("its MEPs have %d events, those here %d", packing, r.set.packing)
	case meps != r.set.MEPs() || events != r.set.eventCount:
		return fmt.Sprintf("%d MEPs of %d events were sent, %d of %d came", meps, events, r.set.MEPs(), r.set.eventCount)
	}
	r.isComplete = true
	return ""
}
