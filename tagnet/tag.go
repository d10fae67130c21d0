package tagnet

import "math/bits"

// MaxTagRingRUs is how many readout units a ring of tags may have: the bits of Served. It is three times the nodes of
// the largest founding system (LHCb-EB: 320), and enough for what ringlet predict takes. A tag takes only the words
// that it needs.
const MaxTagRingRUs = 1024

// MaxLoops is how often a tag may go round the ring again because a busy readout unit passed it on. TagNet-farm §III.D
// asks for a bound and names none. After four loops of at least a transfer each, a unit that is still busy has a queue;
// waiting in it is then sooner.
const MaxLoops = 4

// A Tag is the right to send, which passes from readout unit to readout unit and returns to the scheduler (TagNet-farm
// §III.D). Its token, which went to all of them ahead, says what and where; the tag says when.
type Tag struct {
	TokenPlace uint64 // of its token: number of the cycle × places in a cycle + index of the builder unit
	MEP        uint64
	Slot       uint32
	Attempt    uint8
	Loop       uint8 // how often it has come round without having been served by all
	Served     ServedRUs
}

// ServedRUs is the bit field of the readout units that have sent.
type ServedRUs [MaxTagRingRUs / 64]uint64

// Contains tells that a readout unit has sent.
func (s *ServedRUs) Contains(ru int) bool { return s[ru/64]>>(ru%64)&1 != 0 }

// Add notes that a readout unit has sent.
func (s *ServedRUs) Add(ru int) { s[ru/64] |= 1 << (ru % 64) }

// Len is how many have sent.
func (s *ServedRUs) Len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// wordCount is how many words it takes to say who has sent.
func (s *ServedRUs) wordCount() int {
	n := len(s)
	for n > 0 && s[n-1] == 0 {
		n--
	}
	return n
}

// allBelow tells that all that have sent are among the first rus.
func (s *ServedRUs) allBelow(rus int) bool {
	for i, w := range s {
		if remaining := rus - 64*i; remaining < 64 && w>>max(0, remaining) != 0 {
			return false
		}
	}
	return true
}

// containsAll tells that all that had sent before are still said to have.
func (s *ServedRUs) containsAll(before *ServedRUs) bool {
	for i, w := range before {
		if w&^s[i] != 0 {
			return false
		}
	}
	return true
}

// The third of a tag's words (docs/format/tagnet.md): slot, attempt, loop, number of words of the bit field.
const (
	tagHeaderWords   = 3
	loopShift        = 32
	servedWordsShift = 40
	tagMask          = 1<<48 - 1
)

// MaxTagWords is the most words that a tag takes.
const MaxTagWords = tagHeaderWords + len(ServedRUs{})

// AppendWords writes the tag as it travels.
func (t *Tag) AppendWords(dst []uint64) []uint64 {
	n := t.Served.wordCount()
	dst = append(dst, t.TokenPlace, t.MEP, uint64(n)<<servedWordsShift|uint64(t.Loop)<<loopShift|uint64(packSlot(t.Attempt,
		t.Slot)))
	return append(dst, t.Served[:n]...)
}

// ParseTag reads the first tag of words and returns what follows it, or false if there is none. What it accepts,
// AppendWords writes again as it was.
func ParseTag(words []uint64) (t Tag, rest []uint64, ok bool) {
	if len(words) < tagHeaderWords {
		return t, nil, false
	}
	w := words[2]
	n := int(w >> servedWordsShift & 0xff)
	if w > tagMask || n > len(t.Served) || tagHeaderWords+n > len(words) || n > 0 && words[tagHeaderWords+n-1] == 0 {
		return t, nil, false
	}
	t = Tag{
		TokenPlace: words[0],
		MEP:        words[1],
		Slot:       uint32(w & slotMask),
		Attempt:    uint8(w >> attemptShift),
		Loop:       uint8(w >> loopShift),
	}
	copy(t.Served[:], words[tagHeaderWords:tagHeaderWords+n])
	return t, words[tagHeaderWords+n:], true
}

// decodeTags reads tags that stand one behind the other.
func decodeTags(words []uint64) (tags []Tag, ok bool) {
	for ok = true; ok && len(words) > 0; {
		var t Tag
		if t, words, ok = ParseTag(words); ok {
			tags = append(tags, t)
		}
	}
	return tags, ok
}

// A Withdrawal says that a builder unit has been excluded: nothing that was not sent yet is sent by its tokens of
// earlier cycles.
type Withdrawal struct {
	BU          uint16
	Lost        bool   // it is lost, and will not come back in this view
	BeforeCycle uint64 // number of the first cycle whose token for it would be good again
}

// withdrawalGoneBit is the bit of a withdrawal's first word that says Gone.
const withdrawalGoneBit = 1 << 63

// appendWords writes the withdrawal as it travels.
func (w *Withdrawal) appendWords(dst []uint64) []uint64 {
	first := uint64(w.BU)
	if w.Lost {
		first |= withdrawalGoneBit
	}
	return append(dst, first, w.BeforeCycle)
}

// decodeWithdrawals reads pairs of words.
func decodeWithdrawals(words []uint64, places int) (all []Withdrawal, ok bool) {
	if len(words)%2 != 0 {
		return nil, false
	}
	for ; len(words) > 0; words = words[2:] {
		bu := words[0] &^ withdrawalGoneBit
		if bu >= uint64(places) {
			return nil, false
		}
		all = append(all, Withdrawal{BU: uint16(bu), Lost: words[0] != bu, BeforeCycle: words[1]})
	}
	return all, true
}
