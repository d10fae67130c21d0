package readoutunit

import (
	"testing"

	"go.uber.org/goleak"

	"ringlet/tagnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// none stands for an empty place in cycles of tests.
var none = tagnet.Token{MEP: tagnet.NoMEP}

// newToken is the first attempt at a MEP, in a slot of the builder unit at whose place it stands.
func newToken(mep uint64, slot uint32) tagnet.Token {
	return tagnet.Token{MEP: mep, Slot: slot, Attempt: 1}
}

// batch makes a batch of cycles from number first.
func batch(first uint64, cycles ...[]tagnet.Token) *tagnet.Batch {
	var b tagnet.Batch
	b.Reset(first, len(cycles[0]))
	for _, c := range cycles {
		for _, t := range c {
			word := uint32(t.Attempt)<<24 | t.Slot
			if t.MEP == tagnet.NoMEP {
				word = 0
			}
			b.MEPs, b.Slots = append(b.MEPs, t.MEP), append(b.Slots, word)
		}
	}
	return &b
}
