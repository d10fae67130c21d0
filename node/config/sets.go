package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Sets are lists of indices, such as groups of builder units. The text form is that of the flag: sets separated by
// semicolons, indices and ranges by commas, "0-3;4,6-7". A file may also have a list of lists. The value is the
// shortest such text, so that equal configurations have equal values; only UnmarshalText and UnmarshalYAML make it.
type Sets string

// maxIndex is the largest index: a view has at most 65535 units of a kind.
const maxIndex = math.MaxUint16 - 1

// parseSets reads the text form. An empty text has no sets.
func parseSets(text string) ([][]int, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var sets [][]int
	remaining := maxIndex + 1 // bound on all indices, since each is in one set
	for one := range strings.SplitSeq(text, ";") {
		var set []int
		for item := range strings.SplitSeq(one, ",") {
			low, high, err := parseRange(strings.TrimSpace(item))
			if err != nil {
				return nil, err
			}
			if remaining -= high - low + 1; remaining < 0 {
				return nil, fmt.Errorf("%d indices are too many: %d are the most", maxIndex+1-remaining, maxIndex+1)
			}
			for i := low; i <= high; i++ {
				set = append(set, i)
			}
		}
		sets = append(sets, set)
	}
	return sets, nil
}

// parseIndices reads one list of units, each once: "0,2" or "1-3". n is the number of units; 0 means that it is not
// known because of another problem.
func parseIndices(text string, n int, unit string) ([]int, error) {
	sets, err := parseSets(text)
	switch {
	case err != nil || sets == nil:
		return nil, err
	case len(sets) != 1:
		return nil, fmt.Errorf("%q is not one list of %ss: give e.g. 0,2 or 1-3", text, unit)
	}
	seen := map[int]bool{}
	for _, i := range sets[0] {
		switch {
		case n > 0 && i >= n:
			return nil, fmt.Errorf("there is no %s %d among %d", unit, i, n)
		case seen[i]:
			return nil, fmt.Errorf("%s %d is named twice", unit, i)
		}
		seen[i] = true
	}
	return sets[0], nil
}

func parseRange(item string) (low, high int, err error) {
	if item == "" {
		return 0, 0, errors.New("an index is missing: write sets such as 0-3;4,6-7")
	}
	first, last, isRange := strings.Cut(item, "-")
	a, errA := strconv.ParseUint(first, 10, 16)
	b := a
	var errB error
	if isRange {
		b, errB = strconv.ParseUint(last, 10, 16)
	}
	if errA != nil || errB != nil || a > b || b > maxIndex {
		return 0, 0, fmt.Errorf("%q is neither an index nor a range of indices such as 4-7, at most %d", item, maxIndex)
	}
	return int(a), int(b), nil
}

// lists returns the sets; nil if the text is invalid.
func (s Sets) lists() [][]int {
	sets, err := parseSets(string(s))
	if err != nil {
		return nil
	}
	return sets
}

// UnmarshalText reads the text form, for kong.
func (s *Sets) UnmarshalText(text []byte) error {
	sets, err := parseSets(string(text))
	if err != nil {
		return err
	}
	*s = formatSets(sets)
	return nil
}

// UnmarshalYAML reads a list of lists, or the text form.
func (s *Sets) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		return s.UnmarshalText([]byte(node.Value))
	}
	wrong := errors.New("expected a list of lists of indices, or text such as 0-3;4,6-7")
	if node.Kind != yaml.SequenceNode {
		return wrong
	}
	var sets []string
	for _, set := range node.Content {
		var items []string
		if set.Kind != yaml.SequenceNode {
			return wrong
		}
		for _, item := range set.Content {
			if item.Kind != yaml.ScalarNode || strings.ContainsAny(item.Value, ",;") {
				return wrong
			}
			items = append(items, item.Value)
		}
		sets = append(sets, strings.Join(items, ","))
	}
	return s.UnmarshalText([]byte(strings.Join(sets, ";")))
}

// formatSets writes the shortest text: two or more successive indices are a range.
func formatSets(sets [][]int) Sets {
	var out []string
	for _, set := range sets {
		var items []string
		for i := 0; i < len(set); {
			end := i + 1
			for end < len(set) && set[end] == set[end-1]+1 {
				end++
			}
			if item := strconv.Itoa(set[i]); end == i+1 {
				items = append(items, item)
			} else {
				items = append(items, item+"-"+strconv.Itoa(set[end-1]))
			}
			i = end
		}
		out = append(out, strings.Join(items, ","))
	}
	return Sets(strings.Join(out, ";"))
}
