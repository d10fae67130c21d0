package config

import (
	"reflect"
	"strings"
	"testing"
)

func TestSets(t *testing.T) {
	for _, c := range []struct {
		yaml, want string
		lists      [][]int
	}{
		{"groups: 0-3;4-5", "0-3;4-5", [][]int{{0, 1, 2, 3}, {4, 5}}},
		{"groups: [[0, 1, 2], [3], [5, 4]]", "0-2;3;5,4", [][]int{{0, 1, 2}, {3}, {5, 4}}},
		{"groups:\n- [0-2, 7]\n- [3, 4]\n", "0-2,7;3-4", [][]int{{0, 1, 2, 7}, {3, 4}}},
		{"groups: 3", "3", [][]int{{3}}},
		{"groups: ' 0 , 2 - 2 ;1'", "", nil}, // a space inside a range
		{"groups: ' 0 , 2-2 ; 1 '", "0,2;1", [][]int{{0, 2}, {1}}},
		{"groups: ''", "", nil},
	} {
		got, err := readText("test", []byte(c.yaml))
		if c.lists == nil && c.yaml != "groups: ''" {
			if err == nil {
				t.Errorf("%q is taken as %q", c.yaml, got.Groups)
			}
			continue
		}
		if err != nil || string(got.Groups) != c.want || !reflect.DeepEqual(got.Groups.lists(), c.lists) {
			t.Errorf("%q: got %q, %v, %v; want %q", c.yaml, got.Groups, got.Groups.lists(), err, c.want)
		}
	}
}

func TestSetsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"groups: 0;;1":                "an index is missing",
		"groups: 0;x":                 `"x" is neither an index nor a range`,
		"groups: 4-2":                 `"4-2" is neither`,
		"groups: 0-65535":             `"0-65535" is neither`,
		"groups: 0-65534;0":           "65536 indices are too many",
		"groups: [0, 1]":              "test:1: groups: expected a list of lists",
		"groups: [[0, 1], [[2]]]":     "expected a list of lists",
		"groups: [['0;1'], [2]]":      "expected a list of lists",
		"groups: {a: 1}":              "expected a list of lists",
		"groups: [[0, 1], []]":        "an index is missing",
		"partitons: 0":                `the nearest one is "partitions"`,
		"groups:":                     "has no value",
		"groups: -1":                  `"-1" is neither`,
		"groups: 99999999999999999-1": "is neither",
	} {
		if _, err := readText("test", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one saying %q", text, err, want)
		}
	}
}

// FuzzSets holds that no text panics, and that what is taken is written shorter, or as short, and read back the same.
func FuzzSets(f *testing.F) {
	for _, seed := range []string{"", "0-3;4-7", "1,2,3", ";", "0-", "-", "0-65534", " 7 ;8,9"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sets, err := parseSets(text)
		if err != nil {
			return
		}
		short := formatSets(sets)
		if back, err := parseSets(string(short)); err != nil || !reflect.DeepEqual(back, sets) {
			t.Fatalf("%q is written %q and read back as %v, %v", text, short, back, err)
		}
		if again := formatSets(short.lists()); again != short {
			t.Fatalf("%q is written %q, then %q", text, short, again)
		}
	})
}
