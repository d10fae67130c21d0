package kinds

import (
	"fmt"
	"strings"
)

// Kind names a row and says what it is.
type Kind struct {
	Name string // as configurations have it
	Help string // what it is, in a few words that may stand in brackets behind the name
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

// Help lists the names with what they are: "none (nothing), central (everybody asks one)".
func Help[R Row](table []R) string {
	var out []string
	for _, r := range table {
		out = append(out, r.Self().Name+" ("+r.Self().Help+")")
	}
	return strings.Join(out, ", ")
}

// Word is the word of a number: the one at its place in words. A number without one is said with what it is of:
// "state 9".
func Word[N ~uint8 | ~uint64 | ~int](n N, of string, words ...string) string {
	if at := uint64(n); at < uint64(len(words)) && words[at] != "" {
		return words[at]
	}
	return fmt.Sprint(of, " ", int64(n))
}
