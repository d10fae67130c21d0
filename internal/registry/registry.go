package registry

import (
	"fmt"
	"strings"
)

// Kind is the name and the description of a row.
type Kind struct {
	Name string // as configurations have it
	Help string // description in a few words, which may stand in brackets behind the name
}

// Self gives every row that embeds a Kind its Kind.
func (k Kind) Self() Kind { return k }

// Row is a row of a table.
type Row interface{ Self() Kind }

// Find returns the row with that name. what is the word for a row in the error: "barrier".
func Find[R Row](what string, table []R, name string) (row R, err error) {
	for _, r := range table {
		if r.Self().Name == name {
			return r, nil
		}
	}
	return row, fmt.Errorf("the %s %q is unknown: it must be one of %s", what, name, strings.Join(Names(table), ", "))
}

// Names lists the names in the order of the table.
func Names[R Row](table []R) []string {
	var out []string
	for _, r := range table {
		out = append(out, r.Self().Name)
	}
	return out
}

// Help lists the names with their descriptions: "none (nothing), central (everybody asks one)".
func Help[R Row](table []R) string {
	var out []string
	for _, r := range table {
		out = append(out, r.Self().Name+" ("+r.Self().Help+")")
	}
	return strings.Join(out, ", ")
}

// Nearest returns the name with the smallest distance to key, the first of several.
func Nearest(key string, names []string) string {
	best, least := "", -1
	for _, n := range names {
		if d := Distance(key, n); least < 0 || d < least {
			best, least = n, d
		}
	}
	return best
}

// Distance counts the insertions, deletions, replacements and swaps of neighbours between a and b (optimal string
// alignment), byte by byte. Keys longer than any setting's are cut: the distance only has to rank names.
func Distance(a, b string) int {
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

// NameOf is the word for the number n, words[n]. A number without a word is written behind of: "state 9".
func NameOf[N ~uint8 | ~uint64 | ~int](n N, of string, words ...string) string {
	if at := uint64(n); at < uint64(len(words)) && words[at] != "" {
		return words[at]
	}
	return fmt.Sprint(of, " ", int64(n))
}
