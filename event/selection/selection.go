package selection

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"ringlet/event"
)

// Limits of a Spec.
const (
	// defaultRate is the events a second of a Spec with neither rate nor share.
	defaultRate = 10
	// maxRate is the most events a second: it bounds the cost of one viewer.
	maxRate = 10_000
	// maxBlock is the largest Spec.Block.
	maxBlock = 1 << 16
	// maxWords bounds the lists of sources and of types.
	maxWords = 1024
)

// Spec is a selection as flags and the API give it. The zero Spec asks for defaultRate events a second of all kinds.
type Spec struct {
	Share   uint64   // the viewer is shown one event in Share; 0 and 1: every event
	Rate    float64  // events a second at most; 0: maxRate with a share, else defaultRate
	Sources []string // numbers of sources, and ranges such as 0-15; none: all
	Types   []string // names or numbers of bank types; none: all
	MinSize uint64   // bytes of the event at least
	MaxSize uint64   // bytes of the event at most; 0: any
	Data    bool     // the bytes of the fragments too, not only their sizes
	Block   uint64   // events with Block consecutive numbers, from a multiple of it on, are shown together or not at all
}

// FieldError says what is wrong with one field of a Spec.
type FieldError struct {
	Field string // share, rate, source, type, min-size or max-size
	Value string // as the user gave it
	Why   string // a clause: what the value must be
}

// Error names the field and its value, and says what it must be.
func (e *FieldError) Error() string { return fmt.Sprintf("%s %q: %s", e.Field, e.Value, e.Why) }

// Selection is a valid Spec. It is immutable, so that any number of goroutines may share it.
type Selection struct {
	oneInEvents      uint64
	rate             float64
	sourceBits       *[1 << 16 / 64]uint64 // a bit for each source; nil: all sources
	typeBits         *[256 / 64]uint64     // a bit for each bank type; nil: all types
	minSize, maxSize uint64
	withData         bool
	block            uint64 // 0: events are shown one by one
}

// Parse checks a Spec. The error is a *FieldError.
func Parse(s Spec) (Selection, error) {
	sel := Selection{
		oneInEvents: max(1, s.Share),
		rate:        s.Rate,
		minSize:     s.MinSize,
		maxSize:     s.MaxSize,
		withData:    s.Data,
		block:       s.Block,
	}
	if math.IsNaN(s.Rate) || s.Rate < 0 || s.Rate > maxRate {
		return Selection{}, &FieldError{"rate", strconv.FormatFloat(s.Rate, 'g', -1, 64),
			fmt.Sprintf("give events a second, more than 0 and at most %d", maxRate)}
	}
	if s.Rate == 0 {
		sel.rate = defaultRate
		if s.Share > 0 {
			sel.rate = maxRate
		}
	}
	if s.MaxSize == 0 {
		sel.maxSize = math.MaxUint64
	}
	if sel.minSize > sel.maxSize {
		return Selection{}, &FieldError{"min-size", strconv.FormatUint(s.MinSize, 10),
			fmt.Sprintf("no event has at least so many bytes and at most %d", s.MaxSize)}
	}
	if s.Block > maxBlock || s.Block > 0 && (s.Share > 1 || s.MinSize > 0 || s.MaxSize > 0 || len(s.Types) > 0) {
		return Selection{}, &FieldError{"block", strconv.FormatUint(s.Block, 10),
			fmt.Sprintf("give at most %d, and no share, types or sizes beside it", maxBlock)}
	}
	if err := sel.parseSources(s.Sources); err != nil {
		return Selection{}, err
	}
	return sel, sel.parseTypes(s.Types)
}

func (s *Selection) parseSources(words []string) error {
	if len(words) == 0 {
		return nil
	}
	if len(words) > maxWords {
		return &FieldError{"source", words[0] + " …",
			fmt.Sprintf("%d words are the most: give ranges such as 0-15", maxWords)}
	}
	s.sourceBits = new([1 << 16 / 64]uint64)
	for _, word := range words {
		first, last, isRange := strings.Cut(word, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 16)
		to, err2 := strconv.ParseUint(last, 10, 16)
		if err != nil || err2 != nil || from > to {
			return &FieldError{"source", word, "give a number from 0 to 65535, or a range such as 0-15"}
		}
		for i := from; i <= to; i++ {
			s.sourceBits[i/64] |= 1 << (i % 64)
		}
	}
	return nil
}

func (s *Selection) parseTypes(words []string) error {
	if len(words) == 0 {
		return nil
	}
	if len(words) > maxWords {
		return &FieldError{"type", words[0] + " …", fmt.Sprintf("%d words are the most", maxWords)}
	}
	s.typeBits = new([256 / 64]uint64)
	for _, word := range words {
		t, err := parseType(word)
		if err != nil {
			return err
		}
		s.typeBits[t/64] |= 1 << (t % 64)
	}
	return nil
}

// parseType reads a bank type: its number, or its name (event.BankType.String) in upper or lower case.
func parseType(word string) (event.BankType, error) {
	if n, err := strconv.ParseUint(word, 10, 8); err == nil {
		return event.BankType(n), nil
	}
	for n := range 256 {
		if t := event.BankType(n); strings.EqualFold(t.String(), word) {
			return t, nil
		}
	}
	return 0, &FieldError{"type", word, "give the name of a bank type, such as VP, or its number from 0 to 255"}
}

// Rate is how many events a second are shown at most.
func (s *Selection) Rate() float64 { return s.rate }

// needsExamining says whether the selection has a filter, so that accepts must examine each event.
func (s *Selection) needsExamining() bool {
	return s.sourceBits != nil || s.typeBits != nil || s.minSize > 0 || s.maxSize < math.MaxUint64
}

func (s *Selection) hasSource(source uint16) bool {
	return s.sourceBits == nil || s.sourceBits[source/64]&(1<<(source%64)) != 0
}

// hasType says whether the selection includes a fragment of type t. A FragmentContainer is included too if one of its
// banks is of a selected type.
func (s *Selection) hasType(t event.BankType, data func() []byte) bool {
	if s.typeBits == nil || s.containsType(t) {
		return true
	}
	if t != event.FragmentContainer {
		return false
	}
	for c := event.NewBankCursor(data()); c.Next(); {
		if s.containsType(c.Bank().Type()) {
			return true
		}
	}
	return false
}

func (s *Selection) containsType(t event.BankType) bool { return s.typeBits[t/64]&(1<<(t%64)) != 0 }

// accepts says whether event i of a MEP passes the filters: it has a selected fragment, and the selected fragments
// together have a size in bytes from minSize to maxSize.
func (s *Selection) accepts(p *Packet, i int) bool {
	var size uint64
	some := false
	for k := range p.mfps {
		m := &p.mfps[k]
		if s.hasSource(m.Source()) && s.hasType(m.FragmentType(i), func() []byte { return m.Fragment(i) }) {
			some = true
			size += uint64(m.FragmentSize(i))
		}
	}
	return some && size >= s.minSize && size <= s.maxSize
}

// TrimEvent is the event with its selected fragments only, without data unless the Spec asks for data. It does not
// change e. If NeedsData, e must have its data.
func (s *Selection) TrimEvent(e Event) Event {
	if s.sourceBits == nil && s.typeBits == nil && (s.withData || !e.hasData()) {
		return e
	}
	fragments := e.Fragments
	e.Fragments = make([]Fragment, 0, len(fragments))
	for _, f := range fragments {
		if !s.hasSource(f.Source) {
			continue
		}
		// A container that is cut may have lost the bank for which the event was selected.
		isCut := f.Type == event.FragmentContainer && len(f.Data) < f.Size
		if !isCut && !s.hasType(f.Type, func() []byte { return f.Data }) {
			continue
		}
		if !s.withData {
			f.Data = nil
		}
		e.Fragments = append(e.Fragments, f)
	}
	return e
}

// NeedsData says whether TrimEvent needs the data of an event.
func (s *Selection) NeedsData() bool { return s.withData || s.typeBits != nil }
