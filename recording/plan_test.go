package recording

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var testID = SegmentID{Builder: 0, Number: 2, Format: FormatMDF}

// sound is a segment that was being written: 3 MEPs in 300 bytes, with everything in order.
func sound() segmentFacts {
	return segmentFacts{
		id:            testID,
		hasOpenData:   true,
		dataSize:      300,
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
		change func(f *segmentFacts)
		want   []recoveryStep
		what   string
	}{
		{"as it should be", func(f *segmentFacts) {}, []recoveryStep{stepSyncBoth, stepGiveName, stepListSegment},
			"3 MEPs in 300 bytes are whole, now closed"},
		{"data behind the last entry", func(f *segmentFacts) { f.dataSize = 340 },
			[]recoveryStep{stepCopyTail, stepCutData, stepSyncBoth, stepGiveName,
				stepListSegment}, "the 40 bytes behind them are in bu0-00002.mdf.tail"},
		{"killed when the tail was copied", func(f *segmentFacts) { f.dataSize, f.tailSize, f.tailCopied = 340, 40, true },
			[]recoveryStep{stepCutData, stepSyncBoth, stepGiveName, stepListSegment}, "the 40 bytes behind them"},
		{"killed when the data were cut", func(f *segmentFacts) { f.tailSize = 40 },
			[]recoveryStep{stepSyncBoth, stepGiveName, stepListSegment},
			"the 40 bytes behind them"},
		{"a tail of something else", func(f *segmentFacts) { f.dataSize, f.tailSize = 340, 40 }, nil,
			"bu0-00002.mdf.tail is in the way"},
		{"torn entry", func(f *segmentFacts) { f.indexSize += 7 },
			[]recoveryStep{stepCutIndex, stepSyncBoth, stepGiveName, stepListSegment}, "3 MEPs"},
		{"index ahead of the data", func(f *segmentFacts) { f.indexSize += 2 * EntryBytes; f.dataSize = 310 },
			[]recoveryStep{stepCopyTail, stepCutData, stepCutIndex, stepSyncBoth, stepGiveName,
				stepListSegment}, "the 10 bytes"},
		{"header torn, entries whole", func(f *segmentFacts) { f.header = headerTorn },
			[]recoveryStep{stepWriteHeader, stepSyncBoth, stepGiveName, stepListSegment}, "3 MEPs"},
		{"no index", func(f *segmentFacts) { f.header, f.indexSize, f.provenEntries, f.provenEnd = headerTorn, 0, 0, 0 },
			[]recoveryStep{stepMoveData, stepRemoveIndex}, "no MEP in it is whole; its 300 bytes are in bu0-00002.mdf.tail"},
		{"no whole MEP", func(f *segmentFacts) { f.indexSize, f.provenEntries, f.provenEnd = HeaderBytes, 0, 0 },
			[]recoveryStep{stepMoveData, stepRemoveIndex}, "no MEP in it is whole"},
		{"no whole MEP, and a tail", func(f *segmentFacts) { f.provenEntries, f.provenEnd, f.tailSize = 0, 0, 12 }, nil,
			"is in the way"},
		{"no data, and entries", func(f *segmentFacts) { f.dataSize, f.provenEntries, f.provenEnd = 0, 0, 0 },
			[]recoveryStep{stepCutIndex, stepRemoveData, stepRemoveIndex}, "holds nothing"},
		{"no data yet", func(f *segmentFacts) {
			f.dataSize, f.provenEntries, f.provenEnd, f.indexSize = 0, 0, 0,
				HeaderBytes
		},
			[]recoveryStep{stepRemoveData, stepRemoveIndex}, "holds nothing"},
		{"index alone, empty", func(f *segmentFacts) { *f = segmentFacts{id: testID, tailSize: -1} },
			[]recoveryStep{stepRemoveIndex}, "holds nothing"},
		{"index alone, header only", func(f *segmentFacts) {
			f.hasOpenData, f.dataSize, f.provenEntries, f.provenEnd, f.indexSize = false, 0, 0, 0,
				HeaderBytes
		},
			[]recoveryStep{stepRemoveIndex}, "holds nothing"},
		{"killed when all was moved", func(f *segmentFacts) {
			f.hasOpenData, f.dataSize, f.provenEntries, f.provenEnd, f.tailSize = false, 0, 0,
				0, 300
		},
			[]recoveryStep{stepRemoveIndex}, "its 300 bytes are in bu0-00002.mdf.tail"},
		{"index alone, with entries", func(f *segmentFacts) {
			f.hasOpenData, f.dataSize, f.provenEntries, f.provenEnd = false,
				0, 0, 0
		}, nil,
			"its data are not"},
		{"closed and not listed", func(f *segmentFacts) { f.hasOpenData, f.hasClosedData = false, true },
			[]recoveryStep{stepListSegment},
			"3 MEPs, now listed"},
		{"closed, listed", func(f *segmentFacts) { f.hasOpenData, f.hasClosedData, f.listed = false, true, true }, nil, ""},
		{"closed, not listed, index longer", func(f *segmentFacts) {
			f.hasOpenData, f.hasClosedData, f.indexSize = false,
				true, f.indexSize+1
		},
			[]recoveryStep{stepCutIndex, stepListSegment}, "now listed"},
		{"closed, not listed, data changed", func(f *segmentFacts) {
			f.hasOpenData, f.hasClosedData, f.provenEntries, f.provenEnd = false, true, 2,
				200
		},
			nil, "proves only 200 of its 300 bytes: left as it is"},
		{"closed under two names of one file", func(f *segmentFacts) {
			f.hasOpenData, f.hasClosedData, f.bothNames = false,
				true, true
		},
			[]recoveryStep{stepDropName, stepListSegment}, "now listed"},
		{"listed under two names of one file", func(f *segmentFacts) {
			f.hasOpenData, f.hasClosedData, f.bothNames, f.listed = false, true, true,
				true
		},
			[]recoveryStep{stepDropName}, "the name that it had before"},
		{"closed and open, two files", func(f *segmentFacts) { f.hasClosedData = true }, nil, "there as closed and as open"},
		{"listed and open", func(f *segmentFacts) { f.listed = true }, nil, "there as closed and as open"},
		{"of another run", func(f *segmentFacts) { f.header = headerForeign }, nil, "another run"},
		{"of another version", func(f *segmentFacts) { f.header = headerUnknown }, nil,
			"a version that this program does not know"},
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
func (f segmentFacts) after(s recoveryStep) segmentFacts {
	switch s {
	case stepWriteHeader:
		f.header = headerOurs
		f.indexSize = max(f.indexSize, HeaderBytes)
	case stepCopyTail:
		f.tailSize, f.tailCopied = f.dataSize-f.provenEnd, true
	case stepCutData:
		f.dataSize, f.tailCopied = f.provenEnd, false
	case stepCutIndex:
		f.indexSize = f.indexEnd()
	case stepGiveName:
		f.hasOpenData, f.hasClosedData = false, true
	case stepMoveData:
		f.tailSize, f.dataSize, f.hasOpenData, f.provenEntries, f.provenEnd = f.dataSize, 0, false, 0, 0
	case stepRemoveData:
		f.hasOpenData, f.dataSize = false, 0
	case stepRemoveIndex:
		f.indexSize, f.header, f.provenEntries = -1, headerTorn, 0
	case stepDropName:
		f.bothNames = false
	case stepListSegment:
		f.listed = true
	}
	return f
}

// TestDecideIsFinal kills after any step and decides again: no byte of data goes, it comes to an end, and to the same
// one.
func TestDecideIsFinal(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := segmentFacts{
			id:            testID,
			hasOpenData:   rapid.Bool().Draw(rt, "open"),
			hasClosedData: rapid.Bool().Draw(rt, "closed"),
			listed:        rapid.Bool().Draw(rt, "listed"),
			tailSize:      rapid.SampledFrom([]int64{-1, -1, 0, 40, 100}).Draw(rt, "tail"),
			header:        headerState(rapid.IntRange(0, 3).Draw(rt, "header")),
			provenEntries: rapid.Int64Range(0, 3).Draw(rt, "right"),
		}
		if f.hasOpenData || f.hasClosedData {
			f.provenEnd = f.provenEntries * 100
			f.dataSize = f.provenEnd + rapid.SampledFrom([]int64{0, 0, 40, 100}).Draw(rt, "behind")
		} else {
			f.provenEntries = 0
		}
		if f.hasClosedData && !f.hasOpenData {
			f.bothNames = rapid.Bool().Draw(rt, "twice")
		}
		f.indexSize = f.indexEnd() + rapid.SampledFrom([]int64{0, 0, 7, EntryBytes}).Draw(rt, "index")
		if f.tailSize > 0 && f.tailSize == f.dataSize-f.provenEnd {
			f.tailCopied = rapid.Bool().Draw(rt, "copied")
		}
		bytes := f.dataSize + max(f.tailSize, 0)
		if f.tailCopied {
			bytes = f.dataSize
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
				if now := f.dataSize + max(f.tailSize, 0); now < bytes {
					rt.Fatalf("%s: %d bytes of %d are left", s, now, bytes)
				}
			}
		}
		if f != straight {
			rt.Fatalf("with kills %+v, without %+v", f, straight)
		}
	})
}
