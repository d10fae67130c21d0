package recording

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var testID = SegmentID{Builder: 0, Number: 2, Format: MDF}

// sound is a segment that was being written: 3 MEPs in 300 bytes, with everything in order.
func sound() facts {
	return facts{
		id:            testID,
		open:          true,
		size:          300,
		tailSize:      -1,
		header:        headerOurs,
		indexSize:     HeaderBytes + 3*EntryBytes,
		provenEntries: 3,
		provenEnd:     300,
	}
}

func TestDecide(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(f *facts)
		want   []step
		what   string
	}{
		{"as it should be", func(f *facts) {}, []step{syncBoth, giveName, listSegment},
			"3 MEPs in 300 bytes are whole, now closed"},
		{"data behind the last entry", func(f *facts) { f.size = 340 },
			[]step{copyTail, cutData, syncBoth, giveName, listSegment}, "the 40 bytes behind them are in bu0-00002.mdf.tail"},
		{"killed when the tail was copied", func(f *facts) { f.size, f.tailSize, f.tailCopied = 340, 40, true },
			[]step{cutData, syncBoth, giveName, listSegment}, "the 40 bytes behind them"},
		{"killed when the data were cut", func(f *facts) { f.tailSize = 40 }, []step{syncBoth, giveName, listSegment},
			"the 40 bytes behind them"},
		{"a tail of something else", func(f *facts) { f.size, f.tailSize = 340, 40 }, nil,
			"bu0-00002.mdf.tail is in the way"},
		{"torn entry", func(f *facts) { f.indexSize += 7 }, []step{cutIndex, syncBoth, giveName, listSegment}, "3 MEPs"},
		{"index ahead of the data", func(f *facts) { f.indexSize += 2 * EntryBytes; f.size = 310 },
			[]step{copyTail, cutData, cutIndex, syncBoth, giveName, listSegment}, "the 10 bytes"},
		{"header torn, entries whole", func(f *facts) { f.header = headerTorn },
			[]step{writeHeader, syncBoth, giveName, listSegment}, "3 MEPs"},
		{"no index", func(f *facts) { f.header, f.indexSize, f.provenEntries, f.provenEnd = headerTorn, 0, 0, 0 },
			[]step{moveData, removeIndex}, "no MEP in it is whole; its 300 bytes are in bu0-00002.mdf.tail"},
		{"no whole MEP", func(f *facts) { f.indexSize, f.provenEntries, f.provenEnd = HeaderBytes, 0, 0 },
			[]step{moveData, removeIndex}, "no MEP in it is whole"},
		{"no whole MEP, and a tail", func(f *facts) { f.provenEntries, f.provenEnd, f.tailSize = 0, 0, 12 }, nil,
			"is in the way"},
		{"no data, and entries", func(f *facts) { f.size, f.provenEntries, f.provenEnd = 0, 0, 0 },
			[]step{cutIndex, removeData, removeIndex}, "holds nothing"},
		{"no data yet", func(f *facts) { f.size, f.provenEntries, f.provenEnd, f.indexSize = 0, 0, 0, HeaderBytes },
			[]step{removeData, removeIndex}, "holds nothing"},
		{"index alone, empty", func(f *facts) { *f = facts{id: testID, tailSize: -1} }, []step{removeIndex}, "holds nothing"},
		{"index alone, header only", func(f *facts) {
			f.open, f.size, f.provenEntries, f.provenEnd, f.indexSize = false, 0, 0, 0,
				HeaderBytes
		},
			[]step{removeIndex}, "holds nothing"},
		{"killed when all was moved", func(f *facts) {
			f.open, f.size, f.provenEntries, f.provenEnd, f.tailSize = false, 0, 0,
				0, 300
		},
			[]step{removeIndex}, "its 300 bytes are in bu0-00002.mdf.tail"},
		{"index alone, with entries", func(f *facts) { f.open, f.size, f.provenEntries, f.provenEnd = false, 0, 0, 0 }, nil,
			"its data are not"},
		{"closed and not listed", func(f *facts) { f.open, f.closed = false, true }, []step{listSegment},
			"3 MEPs, now listed"},
		{"closed, listed", func(f *facts) { f.open, f.closed, f.listed = false, true, true }, nil, ""},
		{"closed, not listed, index longer", func(f *facts) { f.open, f.closed, f.indexSize = false, true, f.indexSize+1 },
			[]step{cutIndex, listSegment}, "now listed"},
		{"closed, not listed, data changed", func(f *facts) {
			f.open, f.closed, f.provenEntries, f.provenEnd = false, true, 2,
				200
		},
			nil, "proves only 200 of its 300 bytes: left as it is"},
		{"closed under two names of one file", func(f *facts) { f.open, f.closed, f.bothNames = false, true, true },
			[]step{dropName, listSegment}, "now listed"},
		{"listed under two names of one file", func(f *facts) {
			f.open, f.closed, f.bothNames, f.listed = false, true, true,
				true
		},
			[]step{dropName}, "the name that it had before"},
		{"closed and open, two files", func(f *facts) { f.closed = true }, nil, "there as closed and as open"},
		{"listed and open", func(f *facts) { f.listed = true }, nil, "there as closed and as open"},
		{"of another run", func(f *facts) { f.header = headerForeign }, nil, "another run"},
		{"of another version", func(f *facts) { f.header = headerUnknown }, nil, "a version that this program does not know"},
	} {
		f := sound()
		tc.change(&f)
		if steps, what := decideSteps(f); !slices.Equal(steps, tc.want) || !strings.Contains(what, tc.what) ||
			tc.what == "" && what != "" {
			t.Errorf("%s: %q, %q, want %q", tc.name, steps, what, tc.want)
		}
	}
}

// do is what a step makes of the facts.
func (f facts) after(s step) facts {
	switch s {
	case writeHeader:
		f.header = headerOurs
		f.indexSize = max(f.indexSize, HeaderBytes)
	case copyTail:
		f.tailSize, f.tailCopied = f.size-f.provenEnd, true
	case cutData:
		f.size, f.tailCopied = f.provenEnd, false
	case cutIndex:
		f.indexSize = f.indexEnd()
	case giveName:
		f.open, f.closed = false, true
	case moveData:
		f.tailSize, f.size, f.open, f.provenEntries, f.provenEnd = f.size, 0, false, 0, 0
	case removeData:
		f.open, f.size = false, 0
	case removeIndex:
		f.indexSize, f.header, f.provenEntries = -1, headerTorn, 0
	case dropName:
		f.bothNames = false
	case listSegment:
		f.listed = true
	}
	return f
}

// TestDecideIsFinal kills after any step and decides again: no byte of data goes, it comes to an end, and to the same
// one.
func TestDecideIsFinal(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := facts{
			id:            testID,
			open:          rapid.Bool().Draw(rt, "open"),
			closed:        rapid.Bool().Draw(rt, "closed"),
			listed:        rapid.Bool().Draw(rt, "listed"),
			tailSize:      rapid.SampledFrom([]int64{-1, -1, 0, 40, 100}).Draw(rt, "tail"),
			header:        headerState(rapid.IntRange(0, 3).Draw(rt, "header")),
			provenEntries: rapid.Int64Range(0, 3).Draw(rt, "right"),
		}
		if f.open || f.closed {
			f.provenEnd = f.provenEntries * 100
			f.size = f.provenEnd + rapid.SampledFrom([]int64{0, 0, 40, 100}).Draw(rt, "behind")
		} else {
			f.provenEntries = 0
		}
		if f.closed && !f.open {
			f.bothNames = rapid.Bool().Draw(rt, "twice")
		}
		f.indexSize = f.indexEnd() + rapid.SampledFrom([]int64{0, 0, 7, EntryBytes}).Draw(rt, "index")
		if f.tailSize > 0 && f.tailSize == f.size-f.provenEnd {
			f.tailCopied = rapid.Bool().Draw(rt, "copied")
		}
		bytes := f.size + max(f.tailSize, 0)
		if f.tailCopied {
			bytes = f.size
		}
		straight := f
		steps, _ := decideSteps(f)
		for _, s := range steps {
			straight = straight.after(s)
		}
		for kills := 0; ; kills++ {
			steps, _ := decideSteps(f)
			if len(steps) == 0 || f.indexSize < 0 {
				break
			}
			if kills > 20 {
				rt.Fatalf("%+v: no end", f)
			}
			for _, s := range steps[:rapid.IntRange(1, len(steps)).Draw(rt, "steps done")] {
				f = f.after(s)
				if now := f.size + max(f.tailSize, 0); now < bytes {
					rt.Fatalf("%s: %d bytes of %d are left", s, now, bytes)
				}
			}
		}
		if f != straight {
			rt.Fatalf("with kills %+v, without %+v", f, straight)
		}
	})
}
