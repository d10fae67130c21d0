package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// field is one setting: a leaf of the struct.
type field struct {
	key   string // path in YAML, parts separated by dots: "packing", "debug.drop"
	flag  string // name of the flag without dashes
	tag   reflect.StructTag
	enum  []string
	value reflect.Value
}

// fields lists the settings of c in the order of the struct. A value can be set if c is a pointer to the Config in use.
func fields(c *Config) []field {
	return appendFields(nil, reflect.ValueOf(c).Elem(), "", "")
}

func appendFields(out []field, v reflect.Value, path, prefix string) []field {
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		key := tag.Get("yaml")
		if key == "-" {
			continue
		}
		if p, nested := tag.Lookup("prefix"); nested {
			out = appendFields(out, v.Field(i), path+key+".", prefix+p)
			continue
		}
		f := field{
			key:   path + key,
			flag:  prefix + key,
			tag:   tag,
			value: v.Field(i),
		}
		if list, ok := tag.Lookup("enum"); ok {
			f.enum = strings.Split(Expand(list), ",")
		}
		out = append(out, f)
	}
	return out
}

// oneOf says what is wrong with a value that is none of the words; an empty word only means that nothing need be said.
func oneOf(value string, words []string) error {
	if slices.Contains(words, value) {
		return nil
	}
	words = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" })
	return fmt.Errorf("%q is not one of %s", value, strings.Join(words, ", "))
}

// Nearest returns the name with the smallest edit distance to key, the first of several.
func Nearest(key string, names []string) string {
	best, least := "", -1
	for _, n := range names {
		if d := editDistance(key, n); least < 0 || d < least {
			best, least = n, d
		}
	}
	return best
}

// editDistance counts the insertions, deletions, replacements and swaps of neighbours between a and b (optimal string
// alignment), byte by byte. Keys longer than any setting's are cut: the distance only has to rank names.
func editDistance(a, b string) int {
	const enough = 64
	a, b = a[:min(len(a), enough)], b[:min(len(b), enough)]
	before, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev, row = prev, row, before
	}
	return prev[len(b)]
}
