package config

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestDivision holds what the settings make of the sources.
func TestDivision(t *testing.T) {
	for _, tc := range []struct {
		rus     int
		streams Counts
		sources int
		want    []int
		text    Counts // of the configuration in effect
		refused string
	}{
		{3, "0", 0, []int{3, 3, 3}, "3", ""},
		{3, "", 0, []int{3, 3, 3}, "3", ""},
		{3, "2", 0, []int{2, 2, 2}, "2", ""},
		{3, "0", 8, []int{3, 3, 2}, "3,3,2", ""},
		{3, "0", 9, []int{3, 3, 3}, "3", ""},
		{2, "5,3", 0, []int{5, 3}, "5,3", ""},
		{2, "5,3", 8, []int{5, 3}, "5,3", ""},
		{2, "4,4", 0, []int{4, 4}, "4", ""},
		{1, "5", 5, []int{5}, "5", ""},
		{0, "3,1,2", 0, []int{3, 1, 2}, "3,1,2", ""}, // as many folded nodes
		{3, "5,3", 0, nil, "", "5,3 are the sources of 2 readout units, and there are 3"},
		{2, "5,0", 0, nil, "", "readout unit 1 of 2 has no source"},
		{3, "0", 2, nil, "", "sources: readout unit 2 of 3 has no source"},
		{3, "3", 8, nil, "", "8 are not the 9 that streams 3 make"},
		{3, "0", -1, nil, "", "sources: -1 is less than 0"},
		{3, "x", 0, nil, "", `streams: "x" is neither a number`},
		{2, "0", 70000, nil, "", "sources: 70000 sources of 2 readout units are more than"},
		{2, "40000", 0, nil, "", "65536 sources"},
	} {
		c := Default()
		c.RUs, c.BUs, c.Streams, c.Sources = tc.rus, tc.rus, tc.streams, tc.sources
		err := c.Complete()
		if tc.refused != "" {
			if err == nil || !strings.Contains(err.Error(), tc.refused) {
				t.Errorf("%+v: %v", tc, err)
			}
			continue
		}
		if err != nil || !slices.Equal(c.Division().Counts(), tc.want) || c.Streams != tc.text {
			t.Errorf("%+v: %q, %v: %v", tc, c.Streams, c.Division().Counts(), err)
		}
		again := c
		if err := again.Complete(); err != nil || again != c {
			t.Errorf("%+v: completed twice it is %+v, %v", tc, again, err)
		}
		back, err := readText("effective", c.Effective())
		if err != nil || back != c {
			t.Errorf("%+v: it is read back as %q, %v", tc, back.Streams, err)
		}
	}
}

// TestCountsText holds the text forms of a file.
func TestCountsText(t *testing.T) {
	for text, want := range map[string]string{
		"5": "5", "[5, 3]": "5,3", `"5, 3"`: "5,3", "05,3": "5,3", "0": "0", "[2]": "2", "5,3": "5,3", "[0, 2]": "0,2",
		"[]": "expected a number", "-1": "neither", "1.5": "neither", "{a: 1}": "expected a number",
		`["5,3", 2]`: "expected a number", "70000": "65536", "5,,3": "neither", `""`: "neither", "[[1], 2]": "expected a number",
	} {
		c, err := readText("x.yaml", []byte("streams: "+text+"\n"))
		if string(c.Streams) != want && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s is %q, %v", text, c.Streams, err)
		}
	}
}

// TestSlotsHoldTheLargestUnit holds that windows, slots and retention buffers have room for what each readout unit has,
// whatever the division.
func TestSlotsHoldTheLargestUnit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.IntRange(1, 6), 1, 5).Draw(t, "counts")
		c := Default()
		c.Streams = formatCounts(counts)
		c.Nodes, c.Packing, c.FragmentModel = len(counts), rapid.IntRange(1, 300).Draw(t, "packing"), "poisson"
		if err := c.Complete(); err != nil {
			t.Fatal(err)
		}
		if err := c.FitSlot(); err != nil {
			t.Fatal(err)
		}
		blocks, err := c.maxBlocks()
		if err != nil || len(blocks) != len(counts) {
			t.Fatal(blocks, err)
		}
		_, high := c.MEPSize(0)
		need := high
		if l := c.PreGrantedLayout(); l != nil {
			need = int64(l.Size())
		}
		if int64(c.SlotSize) < need {
			t.Fatalf("slots of %d bytes for MEPs of %d", c.SlotSize, need)
		}
		for ru, block := range blocks {
			if size, _ := c.RetentionBuffers(ru, block); size < block+8*counts[ru] {
				t.Fatalf("buffers of %d bytes for parts of %d of readout unit %d", size, block+8*counts[ru], ru)
			}
			for other := range blocks {
				if counts[other] > counts[ru] && blocks[other] <= block {
					t.Fatalf("blocks of %v bytes for %v sources", blocks, counts)
				}
			}
		}
	})
}
